#include <gradus/gradus.hpp>
#include <map>

namespace gr = gradus;
template <gr::index_t... Extents>
using tensor = gr::tensor<float, gr::shape<Extents...>>;

// case: init_of_a_state_on_another_device
// expect: init\(model, context, rule\): the context must be of the device that the model's states are on
struct model {
  gr::param<gr::on<gr::cpu>, 2> weight;
  gr::state<gr::on<gr::meta>, 2> mean;
  GRADUS_MEMBERS(weight, mean)
};
void f(model& m, gr::context<gr::cpu>& ctx) { gr::init(m, ctx, gr::normal_init{}); }
// twin
struct model {
  gr::param<gr::on<gr::cpu>, 2> weight;
  gr::state<gr::on<gr::cpu>, 2> mean;
  GRADUS_MEMBERS(weight, mean)
};
void f(model& m, gr::context<gr::cpu>& ctx) { gr::init(m, ctx, gr::normal_init{}); }

// case: model_copied
// expect: a model is not copied: pass a reference, or gradus::copy\(from, to\) its values
// expect-lines: 30
struct net {
  gr::nn::linear<gr::on<gr::cpu>, 2, 3> head;
  GRADUS_MEMBERS(head)
};
// mistake
net f(const net& other) { return other; }
// twin
void f(const net& other, net& to) { gr::copy(other, to); }

// case: model_derived
// expect: for_each_param\(model\): a type in the model has no public GRADUS_MEMBERS\(\.\.\.\) line of its own, so its parameters would not be found; add the line
// expect: all_parameters_are_found<.*members_besides_those_of_its_base<.*model>
struct model : gr::nn::linear<gr::on<gr::cpu>, 2, 2> {
  gr::param<gr::on<gr::cpu>, 2> gain;
};
auto f(const model& m) { return gr::parameter_count(m); }
// twin
struct model : gr::nn::linear<gr::on<gr::cpu>, 2, 2> {
  gr::param<gr::on<gr::cpu>, 2> gain;
  GRADUS_MEMBERS(weight, bias, gain)
};
auto f(const model& m) { return gr::parameter_count(m); }

// case: model_with_a_constructor
// expect: for_each_param\(model\): a type in the model has no public GRADUS_MEMBERS\(\.\.\.\) line of its own, so its parameters would not be found; add the line
// expect: all_parameters_are_found<.*no_members_line<.*layer>
class layer {
 public:
  explicit layer(double scale) : weight_(gr::start::drawn, scale) {}

 private:
  gr::param<gr::on<gr::cpu>, 2, 2> weight_;
};
struct model {
  layer first{0.5};
  gr::param<gr::on<gr::cpu>, 2> second;
  GRADUS_MEMBERS(first, second)
};
void f(model& m, gr::context<gr::cpu>& ctx) { gr::init(m, ctx, gr::normal_init{}); }
// twin
class layer {
 public:
  explicit layer(double scale) : weight_(gr::start::drawn, scale) {}
  GRADUS_MEMBERS(weight_)
 private:
  gr::param<gr::on<gr::cpu>, 2, 2> weight_;
};
struct model {
  layer first{0.5};
  gr::param<gr::on<gr::cpu>, 2> second;
  GRADUS_MEMBERS(first, second)
};
void f(model& m, gr::context<gr::cpu>& ctx) { gr::init(m, ctx, gr::normal_init{}); }

// case: model_with_a_pointer
// expect: for_each_param\(model\): a type in the model has no public GRADUS_MEMBERS\(\.\.\.\) line of its own, so its parameters would not be found; add the line
// expect: all_parameters_are_found<.*points_at_a_model<(gradus::)?nn::linear<.*, 2, 2> ?\*>
struct model {
  gr::nn::linear<gr::on<gr::cpu>, 2, 2> own;
  gr::nn::linear<gr::on<gr::cpu>, 2, 2>* other;
  GRADUS_MEMBERS(own, other)
};
void f(model& m) {
  gr::for_each_param(m, [](std::string_view, auto&) {});
}
// twin
struct model {
  gr::nn::linear<gr::on<gr::cpu>, 2, 2> own;
  const char* other;
  GRADUS_MEMBERS(own, other)
};
void f(model& m) {
  gr::for_each_param(m, [](std::string_view, auto&) {});
}

// case: model_with_a_shared_member
// expect: for_each_param\(model\): a type in the model has no public GRADUS_MEMBERS\(\.\.\.\) line of its own, so its parameters would not be found; add the line
// expect: all_parameters_are_found<.*no_members_line<std::shared_ptr<(gradus::)?nn::linear<
struct model {
  std::shared_ptr<gr::nn::linear<gr::on<gr::cpu>, 2, 2>> layer;
  GRADUS_MEMBERS(layer)
};
auto f(model& m) { return gr::sgd{m}; }
// twin
struct model {
  std::unique_ptr<gr::nn::linear<gr::on<gr::cpu>, 2, 2>> layer;
  GRADUS_MEMBERS(layer)
};
auto f(model& m) { return gr::sgd{m}; }

// case: model_with_an_unknown_member
// expect: for_each_param\(model\): a type in the model has no public GRADUS_MEMBERS\(\.\.\.\) line of its own, so its parameters would not be found; add the line
// expect: all_parameters_are_found<.*no_members_line<std::map<int, (gradus::)?nn::linear<
struct model {
  std::map<int, gr::nn::linear<gr::on<gr::cpu>, 2, 2>> experts;
  GRADUS_MEMBERS(experts)
};
auto f(const model& m) { return gr::parameter_count(m); }
// twin
struct model {
  std::vector<gr::nn::linear<gr::on<gr::cpu>, 2, 2>> experts;
  GRADUS_MEMBERS(experts)
};
auto f(const model& m) { return gr::parameter_count(m); }

// case: model_without_a_members_line
// expect: for_each_param\(model\): a type in the model has no public GRADUS_MEMBERS\(\.\.\.\) line of its own, so its parameters would not be found; add the line
// expect: all_parameters_are_found<.*no_members_line<.*model>
struct model {
  gr::param<gr::on<gr::cpu>, 2, 2> weight;
  gr::param<gr::on<gr::cpu>, 2> bias;
};
void f(model& m) {
  gr::for_each_param(m, [](std::string_view, auto&) {});
}
// twin
struct model {
  gr::param<gr::on<gr::cpu>, 2, 2> weight;
  gr::param<gr::on<gr::cpu>, 2> bias;
  GRADUS_MEMBERS(weight, bias)
};
void f(model& m) {
  gr::for_each_param(m, [](std::string_view, auto&) {});
}

// case: nn_llama_heads
// expect: rotary_attention<X, Width, Heads, KvHeads>: Heads must be a multiple of KvHeads
// expect(g++): heads_share_keys<4, 3>
namespace nn = gr::nn;
nn::llama_block<gr::on<gr::cpu>, 64, 4, 3, 96> block;
// twin
namespace nn = gr::nn;
nn::llama_block<gr::on<gr::cpu>, 64, 4, 2, 96> block;

// case: nn_llama_width
// expect: rotary_attention<X, Width, Heads, KvHeads>: Width must be divisible by 2 \* Heads
// expect(g++): heads_divide_width<8, 60>
namespace nn = gr::nn;
nn::llama_block<gr::on<gr::cpu>, 60, 4, 2, 96> block;
// twin
namespace nn = gr::nn;
nn::llama_block<gr::on<gr::cpu>, 64, 4, 2, 96> block;

// case: optimizer_of_a_number
// expect: optimizer\(model, 1e-3\): settings are named; write \{\.lr = 1e-3\}
// expect-lines: 15
struct model {
  gr::param<gr::on<gr::cpu>, 4, 4> w;
  GRADUS_MEMBERS(w)
};
// mistake
void f(model& net) { gr::adamw optimizer(net, 1e-3); }
// twin
void f(model& net) { gr::adamw optimizer(net, {.lr = 1e-3}); }

// case: optimizer_of_a_number_and_settings
// expect: optimizer\(model, 1e-3\): settings are named; write \{\.lr = 1e-3\}
// expect-lines: 15
struct model {
  gr::param<gr::on<gr::cpu>, 4, 4> w;
  GRADUS_MEMBERS(w)
};
// mistake
void f(model& net) { gr::muon optimizer(net, 1, gr::decay_matrices); }
// twin
void f(model& net) { gr::muon optimizer(net, {.lr = 1}, gr::decay_matrices); }

// case: optimizer_of_another_type
// expect: optimizer<T, Device>\(model\): T and Device must be those of the model's parameters
// expect: optimizer_is_for<.*param_kind<float, (gradus::)?cpu(, float)?>, .*param_kind<double, (gradus::)?cpu(, double)?>
struct model {
  gr::param<gr::on<gr::cpu>, 2> w;
  GRADUS_MEMBERS(w)
};
// mistake
auto f(model& m) { return gr::adamw<double, gr::cpu>{m}; }
// twin
auto f(model& m) { return gr::adamw<float, gr::cpu>{m}; }

// case: optimizer_of_two_devices
// expect: optimizer\(model\): all parameters of the model must be of one element type and on one device
// expect: parameters_are_of_one_type_and_device<.*param_kind<float, (gradus::)?cpu(, float)?>, .*param_kind<float, (gradus::)?meta(, float)?>
struct model {
  gr::nn::linear<gr::on<gr::cpu>, 2, 2> first;
  gr::nn::linear<gr::on<gr::meta>, 2, 2> second;
  GRADUS_MEMBERS(first, second)
};
auto f(model& m) { return gr::sgd{m}; }
// twin
struct model {
  gr::nn::linear<gr::on<gr::cpu>, 2, 2> first;
  gr::nn::linear<gr::on<gr::cpu>, 2, 2> second;
  GRADUS_MEMBERS(first, second)
};
auto f(model& m) { return gr::sgd{m}; }

// case: optimizer_of_two_types
// expect: optimizer\(model\): all parameters of the model must be of one element type and on one device
// expect: parameters_are_of_one_type_and_device<.*param_kind<float, (gradus::)?cpu(, float)?>, .*param_kind<double, (gradus::)?cpu(, double)?>
struct model {
  gr::param<gr::on<gr::cpu>, 2, 2> weight;
  gr::param<gr::on<gr::cpu, gr::fp64>, 2> bias;
  GRADUS_MEMBERS(weight, bias)
};
auto f(model& m) { return gr::adamw{m}; }
// twin
struct model {
  gr::param<gr::on<gr::cpu>, 2, 2> weight;
  gr::param<gr::on<gr::cpu, gr::fp32>, 2> bias;
  GRADUS_MEMBERS(weight, bias)
};
auto f(model& m) { return gr::adamw{m}; }

// case: optimizer_without_parameters
// expect: optimizer\(model\): the model has no parameters; its members must be gradus::param, or hold some
// expect: model_has_parameters<.*settings>
struct settings {
  double rate = 0.1;
  std::vector<int> sizes;
  GRADUS_MEMBERS(rate, sizes)
};
// mistake
auto f(settings& m) { return gr::adamw{m}; }
// twin
struct model {
  gr::param<gr::on<gr::cpu>, 2> weight;
  settings how;
  GRADUS_MEMBERS(weight, how)
};
auto f(model& m) { return gr::adamw{m}; }

// case: parameter_copied
// expect(g++): use of deleted function .*param\(const
// expect(clang++): deleted constructor
gr::param<gr::on<gr::cpu>, 2> f(const gr::param<gr::on<gr::cpu>, 2>& w) { return w; }
// twin
gr::param<gr::on<gr::cpu>, 2> f(gr::param<gr::on<gr::cpu>, 2>&& w) { return std::move(w); }

// case: parameter_set_to_another_shape
// expect: param\.set\(value\): the value must have the parameter's element type, shape and device
// expect: parameter_takes<(gradus::)?tensor<float, (gradus::)?shape<2, 3>.*, (gradus::)?tensor<float, (gradus::)?shape<3, 2>
void f(gr::param<gr::on<gr::cpu>, 2, 3>& weight, const tensor<3, 2>& v) { weight.set(v); }
// twin
void f(gr::param<gr::on<gr::cpu>, 2, 3>& weight, const tensor<2, 3>& v) { weight.set(v); }

// case: parameter_set_to_another_type
// expect: param\.set\(value\): the value must have the parameter's element type, shape and device
// expect: parameter_takes<(gradus::)?tensor<float, (gradus::)?shape<2>.*, (gradus::)?tensor<double, (gradus::)?shape<2>
void f(gr::param<gr::on<gr::cpu>, 2>& weight, const gr::tensor<double, gr::shape<2>>& v) { weight.set(v); }
// twin
void f(gr::param<gr::on<gr::cpu>, 2>& weight, const tensor<2>& v) { weight.set(v); }

// case: parameter_with_a_bounded_extent
// expect: the extents of a parameter are numbers, not upto<N>
gr::param<gr::on<gr::cpu>, gr::upto<3>> p;
// twin
gr::param<gr::on<gr::cpu>, 3> p;

// case: state_updated_in_another_shape
// expect: state\.update\(x, value\): value must have the state's shape and device
// expect: state_takes<.*state<.*2.*shape<3
void f(gr::tape<gr::cpu>& tape, const tensor<3>& y, const gr::state<gr::on<gr::cpu>, 2>& s) {
  const auto x = tape.watch(y);
  s.update(x, x);
}
// twin
void f(gr::tape<gr::cpu>& tape, const tensor<2>& y, const gr::state<gr::on<gr::cpu>, 2>& s) {
  const auto x = tape.watch(y);
  s.update(x, x);
}

// case: to_host_of_a_parameter
// expect: to_host\(x\): x must be a plain tensor; write to_host\(x\.value\(\)\)
// expect: is_a_plain_tensor<(gradus::)?param<
void f(const gr::param<gr::on<gr::cpu>, 2>& weight) { gr::to_host(weight); }
// twin
void f(const gr::param<gr::on<gr::cpu>, 2>& weight) { gr::to_host(weight.value()); }

// case: to_host_of_a_state
// expect: to_host\(x\): x must be a plain tensor; write to_host\(x\.value\(\)\)
// expect: is_a_plain_tensor<(gradus::)?state<
auto f(const gr::state<gr::on<gr::cpu>, 2>& s) { return gr::to_host(s); }
// twin
auto f(const gr::state<gr::on<gr::cpu>, 2>& s) { return gr::to_host(s.value()); }
