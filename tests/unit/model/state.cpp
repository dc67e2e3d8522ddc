// Tensors of a model that are not trained: states, and frozen parameters; and copies of models.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradus/gradus.hpp>
#include <gradus/planning.hpp>

#include "../../support/message_of.hpp"
#include "../../support/operands.hpp"
#include "../../support/seed.hpp"

namespace gr = gradus;
using gradus_test::message_of, gradus_test::workplace;

namespace {

using X = gr::on<gr::cpu>;
using batch = gr::shape<7, 3>;

// Normalises columns, by those of the batch in training and by running means in use.
template <class Y>
struct batch_norm {
  gr::param<Y, 3> gain{gr::start::ones};
  gr::state<Y, 3> mean;
  gr::state<Y, 3> variance{gr::start::ones};
  GRADUS_MEMBERS(gain, mean, variance)

  constexpr auto operator()(const auto& x) const {
    if constexpr (gr::is_recorded<decltype(x)>) {
      const auto m = gr::mean<0>(x);
      const auto d = x - m;
      const auto v = gr::mean<0>(d * d);
      mean.update(x, mean + 0.25f * (m - mean));
      variance.update(x, variance + 0.25f * (v - variance));
      return d / gr::sqrt(v + 1e-5f) * gain;
    } else {
      return (x - mean) / gr::sqrt(variance + 1e-5f) * gain;
    }
  }
};
template <class Y>
struct net {
  gr::nn::linear<Y, 3, 3> first;
  std::array<batch_norm<Y>, 2> norms;
  gr::nn::linear<Y, 3, 2> head;
  GRADUS_MEMBERS(first, norms, head)

  constexpr auto operator()(const auto& x) const { return head(norms[1](gr::tanh(norms[0](first(x))))); }
};

template <class Model>
std::vector<std::vector<float>> values_of(const Model& model) {
  std::vector<std::vector<float>> all;
  gr::for_each_tensor(model, [&](auto, const auto& t) {
    all.emplace_back();
    for (const auto v : t.value().values()) all.back().push_back(static_cast<float>(v));
  });
  return all;
}
template <class Model>
auto loss_of(const Model& model, const auto& x) {
  const auto y = model(x);
  return gr::sum(y * y);
}

struct fixture : workplace {
  net<X> model;
  gr::tensor<float, batch> x = gr::normal<float, batch>(ctx, {.seed = gradus_test::fresh_seed()});
  gr::tape<gr::cpu> tape{ctx};

  fixture() { gr::init(model, ctx, gr::he_normal{.seed = 3}); }
  std::vector<float> mean() const { return gr::to_host(model.norms[0].mean.value()); }
};

}  // namespace

TEST_CASE("a trait says which values are recorded, and states and parameters are not") {
  using recorded = gr::traced<gr::tensor<float, batch>, gr::tape<gr::cpu>>;
  static_assert(gr::is_recorded<recorded> && gr::is_recorded<const recorded&> && gr::is_recorded<recorded&&>);
  static_assert(!gr::is_recorded<gr::tensor<float, batch>> && !gr::is_recorded<const gr::param<X, 3>&> &&
                !gr::is_recorded<gr::state<X, 3>>);
}

TEST_CASE("states have member paths and memory of their own, and are no parameters") {
  fixture f;
  std::vector<std::string> names;
  gr::for_each_tensor(f.model, [&](std::string_view name, const auto&) { names.emplace_back(name); });
  CHECK(names == std::vector<std::string>{"first.weight", "first.bias", "norms.0.gain", "norms.0.mean",
                                          "norms.0.variance", "norms.1.gain", "norms.1.mean", "norms.1.variance",
                                          "head.weight", "head.bias"});
  CHECK(gr::param_names(f.model).size() == 6);
  CHECK(gr::parameter_count(f.model) == 9 + 3 + 3 + 3 + 6 + 2);
  CHECK(f.stats.of(gr::category::state).live == 4 * 3 * sizeof(float));
  CHECK(f.stats.of(gr::category::parameter).live == 26 * sizeof(float));
  CHECK(f.mean() == std::vector<float>(3, 0.0f));
  CHECK(gr::to_host(f.model.norms[1].variance.value()) == std::vector<float>(3, 1.0f));
}

TEST_CASE("a state does not change the draws of the parameters around it") {
  fixture f;
  struct {
    gr::nn::linear<X, 3, 3> first;
    gr::param<X, 3> gains[2];
    gr::nn::linear<X, 3, 2> head;
    GRADUS_MEMBERS(first, gains, head)
  } without;
  gr::init(without, f.ctx, gr::he_normal{.seed = 3});
  CHECK(gr::to_host(without.head.weight.value()) == gr::to_host(f.model.head.weight.value()));
}

TEST_CASE("each forward of training updates a state once, in a checkpoint region and in nested ones, too") {
  fixture f;
  std::vector<std::vector<std::vector<float>>> states, gradients;
  for (int depth = 0; depth < 3; ++depth) {
    gr::init(f.model, f.ctx, gr::he_normal{.seed = 3});
    const auto version = f.model.norms[0].mean.version();
    const auto body = [&](const auto& v) { return f.model(v); };
    const auto nested = [&](const auto& v) { return gr::checkpoint(body, v); };
    auto v = f.tape.variable(f.x);
    const auto y = [&] {
      if (depth == 0) return body(v);
      return depth == 1 ? gr::checkpoint(body, v) : gr::checkpoint(nested, v);
    }();
    gr::backward(gr::sum(y * y));
    CHECK(f.model.norms[0].mean.version() == version + 1);
    states.push_back(values_of(f.model));
    gradients.push_back({gr::to_host(v.gradient()), gr::to_host(f.model.first.weight.gradient())});
    gr::clear_gradients(f.model);
  }
  CHECK(states[1] == states[0]);
  CHECK(states[2] == states[0]);
  CHECK(gradients[1] == gradients[0]);
  CHECK(gradients[2] == gradients[0]);
  // 0.25 of the batch's mean
  const auto m = gr::mean<0>(f.model.first(f.x));
  for (gr::index_t i = 0; i < 3; ++i) CHECK(f.mean()[i] == doctest::Approx(0.25f * m(i)).epsilon(1e-5));
}

TEST_CASE("inference reads states and does not write them") {
  fixture f;
  gr::backward(loss_of(f.model, f.tape.watch(f.x)));
  const auto before = values_of(f.model);
  const auto y = f.model(f.x);
  f.model.norms[0].mean.update(f.x, gr::ones<float, gr::shape<3>>(f.ctx));
  CHECK(values_of(f.model) == before);
  CHECK(gr::is_tensor<std::remove_const_t<decltype(y)>>);
}

TEST_CASE("a state is a constant: gradients beside it are those beside a tensor, and optimizers leave it alone") {
  workplace at;
  struct {
    gr::param<X, 3> p{gr::start::ones};
    gr::state<X, 3> s{gr::start::drawn};
    GRADUS_MEMBERS(p, s)
  } model;
  gr::init(model, at.ctx, gr::normal_init{.seed = 1, .stddev = 1});
  const auto before = gr::to_host(model.s.value());
  CHECK(std::none_of(before.begin(), before.end(), [](float v) { return v == 0; }));
  gr::tape tape{at.ctx};
  const auto gradient = [&](const auto& s) {
    auto x = tape.variable(gr::ones<float, gr::shape<3>>(at.ctx));
    gr::backward(gr::sum(x * s * model.p));
    std::vector<float> both = gr::to_host(x.gradient()), of_p = gr::to_host(model.p.gradient());
    both.insert(both.end(), of_p.begin(), of_p.end());
    model.p.clear_gradient();
    return both;
  };
  CHECK(gradient(model.s) == gradient(gr::clone(model.s.value())));
  gr::adamw optimizer{model, {.weight_decay = 0.5}};
  gr::weight_average average{model};
  CHECK(optimizer.parameters().total_size() == 3);
  gr::backward(gr::sum(tape.watch(gr::ones<float, gr::shape<3>>(at.ctx)) * model.s * model.p));
  optimizer.step(at.ctx);
  average.update(at.ctx);
  const auto guard = average.use(at.ctx);
  CHECK(gr::to_host(model.s.value()) == before);
}

TEST_CASE("an update rounds to the state's type, and takes tensors, recorded values and states") {
  workplace at;
  gr::state<gr::on<gr::cpu, gr::bf16_pure>, 2> low;
  gr::state<X, 2> other{gr::start::ones};
  gr::init(low, at.ctx, gr::normal_init{});
  gr::init(other, at.ctx, gr::normal_init{});
  gr::tape tape{at.ctx};
  const auto x = tape.watch(gr::from_values<float, gr::shape<2>>(at.ctx, {1.00390625f, -3}));
  low.update(x, x.value());
  CHECK(static_cast<float>(low.value()(0)) == 1.0f);
  low.update(x, x * 2);
  CHECK(static_cast<float>(low.value()(1)) == -6.0f);
  low.update(x, other);
  CHECK(static_cast<float>(low.value()(1)) == 1.0f);
}

TEST_CASE("an update that would change what a recording or a region reads is refused") {
  fixture f;
  gr::state<X, 3> s, empty;
  gr::init(s, f.ctx, gr::normal_init{});
  const auto next = gr::ones<float, gr::shape<3>>(f.ctx);
  {
    const auto x = f.tape.variable(f.x);
    const auto y = x * s;  // saves s
    CHECK(message_of([&] { s.update(x, next); }).starts_with("state.update(x, value): the state of shape<3> shares"));
    CHECK(message_of([&] { empty.update(x, next); }).find("has no memory yet") != std::string::npos);
    f.tape.clear();
  }
  {
    const auto x = f.tape.variable(f.x);
    const auto y = gr::checkpoint(
        [&](const auto& v) {
          const auto product = v * s;
          s.update(v, next);
          return product;
        },
        x);
    CHECK(message_of([&] { gr::backward(gr::sum(y)); }).find("read other parameters or states") != std::string::npos);
  }
  CHECK(message_of([&] {
          gr::state<X, 3> moved = std::move(s);
          s.edit();
        }) == "this state was moved from; use the one that it was moved to");
}

namespace {
template <class D>
struct training {
  net<gr::on<D>> model;
  gr::context<D>& persistent;
  gr::context<D>& transient;
  gr::adamw<float, D> optimizer{model};
  gr::tape<D> tape{transient};

  constexpr training(gr::context<D>& kept, gr::context<D>& freed) : persistent(kept), transient(freed) {
    gr::init(model, kept, gr::he_normal{.seed = 11});
    gr::freeze(model.head);
  }
  constexpr void step() {
    auto x = tape.watch(gr::full<float, batch>(transient, 0.5f, gr::category::input));
    const auto y = gr::checkpoint([this](const auto& v) { return model(v); }, std::move(x));
    gr::backward(gr::sum(y * y));
    optimizer.step(persistent);
  }
};
}  // namespace

TEST_CASE("a step with states and a frozen part is planned to the byte at compile time") {
  constexpr gr::step_summary planned = gr::summarize_step<training<gr::meta>>();
  constexpr auto states = static_cast<std::size_t>(gr::category::state);
  static_assert(planned.at_peak[states] == 4 * 3 * sizeof(float));
  workplace at;
  gr::context<gr::cpu> transient{at.stream, at.stats};
  training<gr::cpu> t{at.ctx, transient};
  t.step();
  at.stats.reset_peak();
  const std::size_t before = at.stats.all().allocations;
  t.step();
  CHECK(at.stats.all().peak == planned.peak_bytes);
  CHECK(at.stats.all().live == planned.persistent_bytes);
  CHECK(at.stats.all().allocations - before == planned.requests);
  for (std::size_t c = 0; c < gr::category_count; ++c)
    CHECK(at.stats.of(static_cast<gr::category>(c)).peak == planned.peak_by[c]);
}

TEST_CASE("a pattern fits names, * any part of them") {
  struct row {
    const char *pattern, *name;
    bool fits;
  };
  for (const row& r : {row{"head.weight", "head.weight", true},
                       {"head", "head.weight", false},
                       {"head.*", "head.weight", true},
                       {"*", "", true},
                       {"*.weight", "a.weight", true},
                       {"*.weight", "a.weights", false},
                       {"**", "x", true},
                       {"a.*.b*", "a.1.2.bias", true},
                       {"a.*.b*", "a.1.2.c", false},
                       {"*ab", "aab", true},
                       {"", "x", false},
                       {"", "", true}})
    CHECK_MESSAGE(gr::matches(r.pattern, r.name) == r.fits, r.pattern);
}

namespace {
// One step of an optimizer made before or after a part of the model is frozen; what is frozen and what is not.
template <class Make>
void check_frozen(const Make& make) {
  for (const bool before : {false, true}) {
    CAPTURE(before);
    fixture f;
    std::optional<decltype(make(f.model))> optimizer;
    if (before) optimizer.emplace(make(f.model));
    const auto step = [&] {
      gr::backward(loss_of(f.model, f.tape.watch(f.x)));
      const bool has = f.model.head.weight.has_gradient();
      optimizer->step(f.ctx);
      return has;
    };
    CHECK(gr::freeze(f.model, "head.*") == 2);
    if (!before) optimizer.emplace(make(f.model));
    const auto start = values_of(f.model);
    CHECK_FALSE(step());
    auto now = values_of(f.model);
    CHECK(now[8] == start[8]);  // head.weight
    CHECK(now[9] == start[9]);  // head.bias
    CHECK(now[0] != start[0]);  // first.weight
    CHECK(optimizer->steps_by_parameter() == std::vector<std::size_t>{1, 1, 1, 1, 0, 0});
    gr::unfreeze(f.model.head);
    CHECK(step());
    now = values_of(f.model);
    CHECK(now[8] != start[8]);
    CHECK(optimizer->steps_by_parameter() == std::vector<std::size_t>{2, 2, 2, 2, 1, 1});
  }
}
}  // namespace

TEST_CASE("a frozen parameter gets no gradient, update or decay, whichever optimizer and whenever it is made") {
  check_frozen([](auto& m) { return gr::adamw(m, {.lr = 0.1, .weight_decay = 0.5}); });
  check_frozen([](auto& m) { return gr::muon(m, {.lr = 0.1}); });
  check_frozen([](auto& m) { return gr::adamw_8bit(m, {.lr = 0.1}); });
  check_frozen([](auto& m) { return gr::adafactor(m); });
}

TEST_CASE("freezing clears a gradient, is by part, name or predicate, and names a pattern that fits nothing") {
  fixture f;
  gr::backward(loss_of(f.model, f.tape.watch(f.x)));
  CHECK(f.model.first.weight.has_gradient());
  gr::freeze(f.model.first.weight);
  CHECK_FALSE(f.model.first.weight.has_gradient());
  gr::unfreeze(f.model);
  const auto recorded = loss_of(f.model, f.tape.watch(f.x));
  gr::freeze(f.model.first.weight);
  gr::backward(recorded);  // knows nothing of it; optimizers do
  CHECK_FALSE(f.model.first.weight.has_gradient());
  gr::unfreeze(f.model);
  CHECK(gr::freeze(f.model, [](std::string_view name) { return name.ends_with("gain"); }) == 2);
  CHECK(f.model.norms[1].gain.is_frozen());
  CHECK(gr::unfreeze(f.model, "norms.0.*") == 1);
  CHECK_FALSE(f.model.norms[0].gain.is_frozen());
  CHECK(message_of([&] { gr::freeze(f.model, "blocks.*"); }) ==
        "freeze(model, names): 'blocks.*' is the name of no parameter; the first one is 'first.weight'");
  batch_norm<X> moved = std::move(f.model.norms[1]);
  CHECK(moved.gain.is_frozen());
}

TEST_CASE("the other gradients are those without a frozen part, and operations on constants alone are not recorded") {
  for (const bool region : {false, true}) {
    CAPTURE(region);
    fixture f;
    std::vector<std::size_t> nodes;
    std::vector<std::vector<float>> gradients;
    for (const bool frozen : {false, true}) {
      gr::init(f.model, f.ctx, gr::he_normal{.seed = 3});
      if (frozen) gr::freeze(f.model.first);
      const auto v = f.tape.watch(f.x);
      const auto y = region ? gr::checkpoint([&](const auto& u) { return f.model(u); }, v) : f.model(v);
      nodes.push_back(f.tape.size());
      gr::backward(gr::sum(y * y));
      gradients.push_back(gr::to_host(f.model.head.weight.gradient()));
      CHECK(static_cast<bool>(f.model.first.bias.gradient()) == !frozen);
      gr::clear_gradients(f.model);
    }
    CHECK(gradients[1] == gradients[0]);
    if (!region) CHECK(nodes[1] < nodes[0]);  // not linear, nor what depends on it alone
  }
}

TEST_CASE("a copy has the values of all parameters and states, in the memory that was there, rounded to its types") {
  fixture f;
  workplace elsewhere;
  gr::backward(loss_of(f.model, f.tape.watch(f.x)));
  net<X> same;
  net<gr::on<gr::cpu, gr::bf16_pure>> low;
  gr::init(same, elsewhere.ctx, gr::he_normal{.seed = 9});
  gr::init(low, elsewhere.ctx, gr::he_normal{.seed = 9});
  const void* const memory = std::as_const(same.head.weight).value().data();
  gr::copy(f.model, same);
  gr::copy(f.model, low);
  CHECK(values_of(same) == values_of(f.model));
  CHECK(std::as_const(same.head.weight).value().data() == memory);
  auto rounded = values_of(f.model);
  for (auto& tensor : rounded)
    for (float& v : tensor) v = static_cast<float>(static_cast<gr::bf16>(v));
  CHECK(values_of(low) == rounded);
}

namespace {
template <gr::index_t Width>
struct other_net {
  gr::nn::linear<X, 3, 3> first;
  gr::nn::linear<X, 3, Width> head;
  std::optional<gr::state<X, 2>> more;
  GRADUS_MEMBERS(first, head, more)
};
}  // namespace

TEST_CASE("a copy between models that differ is refused by the first path that does not fit, and writes nothing") {
  workplace at;
  other_net<2> from;
  other_net<4> wide;
  other_net<2> more, empty;
  more.more.emplace();
  for (auto* m : {&from, &more}) gr::init(*m, at.ctx, gr::he_normal{});
  gr::init(wide, at.ctx, gr::he_normal{.seed = 5});
  const auto before = values_of(wide);
  CHECK(message_of([&] { gr::copy(from, wide); }) ==
        "copy(from, to): 'head.weight' is a shape<3, 2> in `from` and a shape<3, 4> in `to`; the shapes must be equal");
  CHECK(values_of(wide) == before);
  CHECK(message_of([&] { gr::copy(from, more); }) ==
        "copy(from, to): 'more' is in `to` only; the models must have the same members");
  CHECK(message_of([&] { gr::copy(more, from); }) ==
        "copy(from, to): 'more' is in `from` only; the models must have the same members");
  CHECK(message_of([&] { gr::copy(from, empty); }) ==
        "copy(from, to): 'first.weight' has no value yet in `to`; call gradus::init(model, context, rule) first");
}
