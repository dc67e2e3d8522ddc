#include <gradus/gradus.hpp>

namespace gr = gradus;
template <gr::index_t... Extents>
using tensor = gr::tensor<float, gr::shape<Extents...>>;

// case: backward_all_of_a_vector
// expect: backward_all\(losses\.\.\.\): each loss must have exactly one element
void f(gr::tape<gr::cpu>& tape, const tensor<5>& x, const tensor<>& y) {
  gr::backward_all(tape.variable(y), tape.variable(x));
}
// twin
void f(gr::tape<gr::cpu>& tape, const tensor<>& x, const tensor<>& y) {
  gr::backward_all(tape.variable(y), tape.variable(x));
}

// case: backward_of_a_matrix
// expect: backward\(loss\): the loss must have exactly one element
// expect: is_one_element<(gradus::)?shape<2, 3> ?>
void f(gr::tape<gr::cpu>& tape, const tensor<2, 3>& x) { gr::backward(tape.variable(x)); }
// twin
void f(gr::tape<gr::cpu>& tape, const tensor<1, 1>& x) { gr::backward(tape.variable(x)); }

// case: backward_of_a_tensor
// expect: backward\(loss\): the loss was not recorded; compute it from tape\.watch\(x\) or tape\.variable\(x\)
void f(gr::tape<gr::cpu>& tape, const tensor<>& x) {
  static_cast<void>(tape);
  gr::backward(x);
}
// twin
void f(gr::tape<gr::cpu>& tape, const tensor<>& x) { gr::backward(tape.variable(x)); }

// case: backward_within_a_region
// expect: backward\(loss\): the loss is a value within a checkpoint region; return it from the region first
void f(gr::tape<gr::cpu>& tape, const tensor<3>& x) {
  const auto loss = gr::checkpoint(
      [](auto v) {
        auto sum = gr::sum(v * v);
        gr::backward(sum);
        return sum;
      },
      tape.variable(x));
  gr::backward(loss);
}
// twin
void f(gr::tape<gr::cpu>& tape, const tensor<3>& x) {
  const auto loss = gr::checkpoint(
      [](auto v) {
        auto sum = gr::sum(v * v);
        return sum;
      },
      tape.variable(x));
  gr::backward(loss);
}

// case: checkpoint_capture
// expect: checkpoint\(f, x\.\.\.\): f uses a traced value that it does not take as an argument; pass it: checkpoint\(f, x, value\)
using value = gr::traced<tensor<3>, gr::tape<gr::cpu>>;
auto f(const value& x, const value& y) {
  return gr::checkpoint([&](auto v) { return v * y; }, x);
}
// twin
using value = gr::traced<tensor<3>, gr::tape<gr::cpu>>;
auto f(const value& x, const value& y) {
  return gr::checkpoint([&](auto v, auto w) { return v * w; }, x, y);
}

// case: checkpoint_capture_alone
// expect: checkpoint\(f, x\.\.\.\): f uses a traced value that it does not take as an argument; pass it: checkpoint\(f, x, value\)
auto f(const tensor<3>& x, const gr::traced<tensor<3>, gr::tape<gr::cpu>>& y) {
  return gr::checkpoint([&](auto v) { return v * y; }, x);
}
// twin
auto f(const tensor<3>& x, const gr::traced<tensor<3>, gr::tape<gr::cpu>>& y) {
  return gr::checkpoint([&](auto v, auto w) { return v * w; }, x, y);
}

// case: checkpoint_capture_returned
// expect: checkpoint\(f, x\.\.\.\): f uses a traced value that it does not take as an argument; pass it: checkpoint\(f, x, value\)
using value = gr::traced<tensor<3>, gr::tape<gr::cpu>>;
auto f(const value& x, const value& y) {
  return gr::checkpoint([&](auto) { return gr::exp(y); }, x);
}
// twin
using value = gr::traced<tensor<3>, gr::tape<gr::cpu>>;
auto f(const value& x, const value& y) {
  return gr::checkpoint([&](auto v, auto w) { return v * w; }, x, y);
}

// case: checkpoint_without_arguments
// expect: checkpoint\(f, x\.\.\.\): what f returns does not depend on its traced arguments; take it out of f
auto f(const gr::traced<tensor<3>, gr::tape<gr::cpu>>& x, const tensor<3>& y) {
  return gr::checkpoint([&](auto) { return gr::exp(y); }, x);
}
// twin
auto f(const gr::traced<tensor<3>, gr::tape<gr::cpu>>& x, const tensor<3>& y) {
  return gr::checkpoint([&](auto v) { return v + gr::exp(y); }, x);
}

// case: gradients_of_a_gradient
// expect: gradients\(loss, x\.\.\.\): the loss was not recorded; .*no second derivatives in reverse
auto f(gr::tape<gr::cpu>& tape, const tensor<2>& y) {
  const auto x = tape.variable(y);
  const auto square = gr::sum(x * x);
  const auto [slope] = gr::gradients(square, x);
  return gr::gradients(gr::sum(slope), x);
}
// twin
auto f(gr::tape<gr::cpu>& tape, const tensor<2>& y) {
  const auto x = tape.variable(y);
  const auto square = gr::sum(x * x);
  return gr::gradients(square, x);
}

// case: gradients_of_a_state
// expect: gradients\(loss, x\.\.\.\): each x must be a parameter or a value made by tape.variable\(\)
auto f(gr::tape<gr::cpu>& tape, const tensor<>& y, const gr::state<gr::on<gr::cpu>>& s) {
  const auto x = tape.variable(y);
  return gr::gradients(x * s, s);
}
// twin
auto f(gr::tape<gr::cpu>& tape, const tensor<>& y, const gr::state<gr::on<gr::cpu>>& s) {
  const auto x = tape.variable(y);
  return gr::gradients(x * s, x);
}

// case: gradients_of_a_tensor
// expect: gradients\(loss, x\.\.\.\): each x must be a parameter or a value made by tape.variable\(\)
auto f(gr::tape<gr::cpu>& tape, const tensor<>& y) {
  const auto x = tape.variable(y);
  return gr::gradients(x * x, y);
}
// twin
auto f(gr::tape<gr::cpu>& tape, const tensor<>& y) {
  const auto x = tape.variable(y);
  return gr::gradients(x * x, x);
}

// case: item_of_a_traced_value
// expect: item\(x\): x must be a plain tensor; write item\(x\.value\(\)\)
// expect: is_a_plain_tensor<(gradus::)?traced<
float f(gr::tape<gr::cpu>& tape, const tensor<>& x) {
  auto loss = tape.watch(x) * 2;
  gr::item(loss);
  return 0;
}
// twin
float f(gr::tape<gr::cpu>& tape, const tensor<>& x) {
  auto loss = tape.watch(x) * 2;
  return gr::item(loss.value());
}

// case: item_of_several_elements
// expect: item\(x\): x must have exactly one element
float value(const tensor<2>& x) { return gr::item(x); }
// twin
float value(const tensor<1>& x) { return gr::item(x); }

// case: operands_of_two_devices
// expect: apply\(op, x\.\.\.\): the operands must be on one device
// expect: operands_are_on_one_device<.*functor::add>, .*tensor<float, (gradus::)?shape<2, 2>.*, (gradus::)?tensor<float, (gradus::)?shape<2, 2>, (gradus::)?meta>
auto f(const tensor<2, 2>& a, const gr::tensor<float, gr::shape<2, 2>, gr::meta>& b) { return a + b; }
// twin
auto f(const tensor<2, 2>& a, const gr::tensor<float, gr::shape<2, 2>, gr::cpu>& b) { return a + b; }

// case: reading_an_input_that_is_not_saved
// expect: input<I>\(saved\): the operation's .saves. does not list this input
struct op {
  static constexpr std::string_view name = "op";
  template <class T>
  T forward(auto, const T& x) const {
    return x;
  }
  static constexpr gr::save_rule saves = gr::save_nothing();
  template <class Saved, class T>
  void backward(const Saved& saved, T, const gr::gradient_sink<T>& dx) const {
    dx.give(gr::input<0>(saved));
  }
};
auto f(gr::tape<gr::cpu>& tape, const tensor<2>& x) { return gr::apply(op{}, tape.variable(x)); }
// twin
struct op {
  static constexpr std::string_view name = "op";
  template <class T>
  T forward(auto, const T& x) const {
    return x;
  }
  static constexpr gr::save_rule saves = gr::save_inputs(0);
  template <class Saved, class T>
  void backward(const Saved& saved, T, const gr::gradient_sink<T>& dx) const {
    dx.give(gr::input<0>(saved));
  }
};
auto f(gr::tape<gr::cpu>& tape, const tensor<2>& x) { return gr::apply(op{}, tape.variable(x)); }

// case: reading_an_output_that_is_not_saved
// expect: output\(saved\): the operation's .saves. does not list its output
struct op {
  static constexpr std::string_view name = "op";
  template <class T>
  T forward(auto, const T& x) const {
    return x;
  }
  static constexpr gr::save_rule saves = gr::save_inputs(0);
  template <class Saved, class T>
  void backward(const Saved& saved, T, const gr::gradient_sink<T>& dx) const {
    dx.give(gr::output(saved));
  }
};
auto f(gr::tape<gr::cpu>& tape, const tensor<2>& x) { return gr::apply(op{}, tape.variable(x)); }
// twin
struct op {
  static constexpr std::string_view name = "op";
  template <class T>
  T forward(auto, const T& x) const {
    return x;
  }
  static constexpr gr::save_rule saves = gr::save_output();
  template <class Saved, class T>
  void backward(const Saved& saved, T, const gr::gradient_sink<T>& dx) const {
    dx.give(gr::output(saved));
  }
};
auto f(gr::tape<gr::cpu>& tape, const tensor<2>& x) { return gr::apply(op{}, tape.variable(x)); }

// case: tape_of_a_temporary_context
// expect: tape\{ctx\}: ctx is a temporary context, which ends here; name it first
void f(gr::stream& stream, gr::memory_resource& memory) {
  gr::tape tape{gr::context{stream, memory}};
  tape.clear();
}
// twin
void f(gr::stream& stream, gr::memory_resource& memory) {
  gr::context ctx{stream, memory};
  gr::tape tape{ctx};
  tape.clear();
}

// case: tape_on_another_device
// expect: tape<Device>\{ctx\}: ctx must be a context of Device
// expect: device_of_tape_is<(gradus::)?cpu, (gradus::)?meta>
void f(gr::context<gr::meta>& ctx) { gr::tape<gr::cpu> tape{ctx}; }
// twin
void f(gr::context<gr::cpu>& ctx) { gr::tape<gr::cpu> tape{ctx}; }

// case: traced_value_and_parameter_of_two_devices
// expect: apply\(op, x\.\.\.\): the operands must be on one device
// expect: operands_are_on_one_device<.*linear
auto f(gr::tape<gr::cpu>& tape, const tensor<4, 2>& x, const gr::nn::linear<gr::on<gr::meta>, 2, 3>& layer) {
  return layer(tape.watch(x));
}
// twin
auto f(gr::tape<gr::cpu>& tape, const tensor<4, 2>& x, const gr::nn::linear<gr::on<gr::cpu>, 2, 3>& layer) {
  return layer(tape.watch(x));
}

// case: uniform_integers
// expect: uniform<T, Shape>\(ctx, key\): T must be a floating-point type
auto f(gr::context<gr::cpu>& ctx) { return gr::uniform<int, gr::shape<2>>(ctx, {1}); }
// twin
auto f(gr::context<gr::cpu>& ctx) { return gr::uniform<float, gr::shape<2>>(ctx, {1}); }

// case: variable_of_integers
// expect: tape\.variable\(x\): only floating-point tensors have gradients
auto f(gr::tape<gr::cpu>& tape, const gr::tensor<int, gr::shape<2>>& x) { return tape.variable(x).value(); }
// twin
auto f(gr::tape<gr::cpu>& tape, const gr::tensor<gr::bf16, gr::shape<2>>& x) { return tape.variable(x).value(); }

// case: watch_on_another_device
// expect: tape\.watch\(x\): x must be on the tape's device
// expect: device_of_tape_is<(gradus::)?cpu, (gradus::)?meta>
void f(gr::tape<gr::cpu>& tape, const gr::tensor<float, gr::shape<2>, gr::meta>& x) { tape.watch(x); }
// twin
void f(gr::tape<gr::cpu>& tape, const gr::tensor<float, gr::shape<2>, gr::cpu>& x) { tape.watch(x); }
