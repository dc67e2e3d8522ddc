#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include <gradus/planning.hpp>

#include "../../support/message_of.hpp"
#include "../../support/operands.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {

using X = gr::on<gr::cpu>;

// By the definition: x [B, C, length], of which `groups` groups of each sample are normalised, or, if 0, each channel.
outcome norm(std::size_t batch, std::size_t channels, std::size_t groups, const values& x, const values& w,
             const values& b, const values& dy, double eps = 1e-5) {
  const std::size_t length = x.size() / batch / channels;
  const auto channel = [&](std::size_t i) { return i / length % channels; };
  const auto group = [&](std::size_t i) {
    return groups == 0 ? channel(i) : i / (channels * length) * groups + channel(i) / (channels / groups);
  };
  const std::size_t count = groups == 0 ? channels : batch * groups;
  const double n = static_cast<double>(x.size() / count);
  values mean(count), var(count), mean_g(count), mean_gx(count);
  outcome r{values(x.size()), {values(x.size()), values(channels), values(channels)}};
  for (std::size_t i = 0; i < x.size(); ++i) mean[group(i)] += x[i] / n;
  for (std::size_t i = 0; i < x.size(); ++i) var[group(i)] += std::pow(x[i] - mean[group(i)], 2) / n;
  const auto normal = [&](std::size_t i) { return (x[i] - mean[group(i)]) / std::sqrt(var[group(i)] + eps); };
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t c = channel(i);
    r.y[i] = normal(i) * w[c] + b[c];
    r.gradients[1][c] += dy[i] * normal(i);
    r.gradients[2][c] += dy[i];
    mean_g[group(i)] += dy[i] * w[c] / n;
    mean_gx[group(i)] += dy[i] * w[c] * normal(i) / n;
  }
  for (std::size_t i = 0; i < x.size(); ++i)
    r.gradients[0][i] =
        (dy[i] * w[channel(i)] - mean_g[group(i)] - normal(i) * mean_gx[group(i)]) / std::sqrt(var[group(i)] + eps);
  return r;
}

void compare(const outcome& found, const outcome& wanted, double within) {
  CHECK(worst_error(found.y, wanted.y) < within);
  for (std::size_t i = 0; i < found.gradients.size(); ++i) {
    CAPTURE(i);
    CHECK(worst_error(found.gradients[i], wanted.gradients[i]) < 4 * within);
  }
}

template <gr::index_t Channels>
struct running_state {
  gr::state<X, Channels> mean;
  gr::state<X, Channels> variance{gr::start::ones};
  GRADUS_MEMBERS(mean, variance)
};

// Batch norm and, if Groups is not 0, group norm of x [Batch, Channels, ...] that is `offset` from 0.
template <gr::index_t Groups, class Shape>
void check(double offset = 0, double within = 1e-5) {
  workplace at;
  constexpr gr::index_t batch = Shape::extent(0), channels = Shape::extent(1);
  auto x = normal<float, Shape>(at.ctx, 2.0);
  for (float& v : x.values()) v += static_cast<float>(offset);
  const auto w = normal<float, gr::shape<channels>>(at.ctx);
  const auto b = normal<float, gr::shape<channels>>(at.ctx);
  const auto dy = normal<float, Shape>(at.ctx);
  const auto wanted = [&](std::size_t groups) {
    return norm(batch, channels, groups, numbers(x), numbers(w), numbers(b), numbers(dy));
  };
  CAPTURE(Shape::size);
  running_state<channels> running;
  gr::init(running, at.ctx, gr::normal_init{});
  const auto f = [&](auto v, auto m, auto s) { return gr::batch_norm(v, m, s, running.mean, running.variance); };
  compare(numbers(evaluate(at.ctx, f, dy, x, w, b)), wanted(0), within);
  if constexpr (Groups != 0) {
    CAPTURE(Groups);
    const auto g = [](auto v, auto m, auto s) { return gr::group_norm<Groups>(v, m, s); };
    const auto found = evaluate(at.ctx, g, dy, x, w, b);
    compare(numbers(found), wanted(Groups), within);
    CHECK(same_bits(g(x, w, b), found.y));  // without a tape
  }
}

}  // namespace

TEST_CASE("batch_norm and group_norm are what they are defined to be, at odd sizes too") {
  check<2, gr::shape<3, 4, 5, 13>>();
  check<3, gr::shape<5, 3, 7>>();
  check<1, gr::shape<2, 6, 40, 33>>();
  check<35, gr::shape<4, 70, 4, 4>>();
  check<10, gr::shape<33, 130>>();  // a matrix
  check<1, gr::shape<1, 2, 3000>>();
  check<0, gr::shape<4, 1, 1, 1>>(0, 1e-2);  // of two values the gradient is nearly 0
}

TEST_CASE("values far from 0 are normalised as well as float has them") {
  check<2, gr::shape<7, 4, 5, 13>>(1e4, 3e-3);
  check<1, gr::shape<64, 10>>(1e4, 3e-3);
}

TEST_CASE("instance_norm is group_norm of single channels, and group_norm of one group layer_norm's rows") {
  workplace at;
  const auto x = normal<float, gr::shape<3, 6, 5, 7>>(at.ctx);
  const auto w = normal<float, gr::shape<6>>(at.ctx), b = normal<float, gr::shape<6>>(at.ctx);
  CHECK(same_bits(gr::instance_norm(x, w, b), gr::group_norm<6>(x, w, b)));
  const auto ones = gr::ones<float, gr::shape<6>>(at.ctx), zeros = gr::zeros<float, gr::shape<6>>(at.ctx);
  const auto rows = gr::layer_norm(gr::reshape<3, 210>(x), gr::ones<float, gr::shape<210>>(at.ctx),
                                   gr::zeros<float, gr::shape<210>>(at.ctx));
  CHECK(worst_error(gr::group_norm<1>(x, ones, zeros), rows) < 1e-5);
}

TEST_CASE("norms over channels do not depend on the number of threads, and add to gradients that are there") {
  workplace at;
  const auto run = [&]<class S>(S, int n) {
    const threads t(at.ctx, n);
    constexpr gr::index_t channels = S::extent(1);
    const auto x = normal<float, S>(at.ctx, 1, 5), dy = normal<float, S>(at.ctx, 1, 6);
    const auto w = normal<float, gr::shape<channels>>(at.ctx, 1, 7);
    running_state<channels> running;
    gr::init(running, at.ctx, gr::normal_init{});
    const auto f = [&](auto v, auto m, auto b) {
      return gr::batch_norm(v, m, b, running.mean, running.variance) + gr::group_norm<channels / 2>(v, m, b);
    };
    const auto all = numbers(evaluate(at.ctx, f, dy, x, w, w));
    return std::make_tuple(all.y, all.gradients, numbers(running.mean.value()), numbers(running.variance.value()));
  };
  CHECK(run(gr::shape<9, 34, 77>{}, 1) == run(gr::shape<9, 34, 77>{}, 2));
  CHECK(run(gr::shape<70, 150>{}, 1) == run(gr::shape<70, 150>{}, 2));

  const auto x = normal<double, gr::shape<4, 6, 9>>(at.ctx), dy = normal<double, gr::shape<4, 6, 9>>(at.ctx);
  const auto w = normal<double, gr::shape<6>>(at.ctx);
  const auto once = numbers(evaluate(
      at.ctx, [](auto v, auto m, auto b) { return gr::group_norm<3>(v, m, b); }, dy, x, w, w));
  const auto twice = numbers(evaluate(
      at.ctx, [](auto v, auto m, auto b) { return gr::group_norm<3>(v, m, b) + gr::group_norm<3>(v, m, b); }, dy, x, w,
      w));
  for (std::size_t i = 0; i < 3; ++i) {
    values doubled = once.gradients[i];
    for (double& v : doubled) v *= 2;
    CHECK(worst_error(twice.gradients[i], doubled) < 1e-12);
  }
}

TEST_CASE("16-bit elements are normalised in float, with float moments") {
  workplace at;
  using S = gr::shape<8, 6, 10, 10>;
  const auto x = gr::cast<gr::bf16>(normal<float, S>(at.ctx));
  const auto w = normal<float, gr::shape<6>>(at.ctx), b = normal<float, gr::shape<6>>(at.ctx);
  const auto dy = normal<float, S>(at.ctx);
  const auto f = [](auto v, auto m, auto s) { return gr::group_norm<2>(v, m, s); };
  const auto exact = evaluate(at.ctx, f, dy, gr::cast<float>(x), w, b);
  const auto low = evaluate(at.ctx, f, dy, x, w, b);
  CHECK(same_bits(low.y, exact.y));
  CHECK(error_in_norm(std::get<0>(low.gradients), std::get<0>(exact.gradients)) < 4e-3);
  CHECK(same_bits(std::get<1>(low.gradients), std::get<1>(exact.gradients)));
}

TEST_CASE("the running state takes a tenth of the batch's mean and of its unbiased variance, and inference reads it") {
  workplace at;
  gr::nn::batch_norm<X, 3> norm;
  gr::init(norm, at.ctx, gr::normal_init{});
  const auto x = normal<float, gr::shape<4, 3, 5>>(at.ctx, 3);
  gr::tape tape(at.ctx);
  norm(tape.watch(x));
  for (gr::index_t c = 0; c < 3; ++c) {
    double mean = 0, var = 0;
    for (gr::index_t b = 0; b < 4; ++b)
      for (gr::index_t i = 0; i < 5; ++i) mean += static_cast<double>(x(b, c, i)) / 20;
    for (gr::index_t b = 0; b < 4; ++b)
      for (gr::index_t i = 0; i < 5; ++i) var += std::pow(static_cast<double>(x(b, c, i)) - mean, 2) / 19;
    CHECK(norm.running_mean.value()(c) == doctest::Approx(0.1 * mean));
    CHECK(norm.running_var.value()(c) == doctest::Approx(0.9 + 0.1 * var));
  }
  const auto version = norm.running_mean.version();
  const auto y = norm(x);
  CHECK(norm.running_mean.version() == version);
  for (gr::index_t c = 0; c < 3; ++c) {
    const double rstd = 1 / std::sqrt(static_cast<double>(norm.running_var.value()(c)) + 1e-5);
    CHECK(y(1, c, 2) == doctest::Approx((x(1, c, 2) - norm.running_mean.value()(c)) * rstd));
  }
}

TEST_CASE("with weights that are recorded and an x that is not, moments are constants") {
  workplace at;
  running_state<3> running;
  gr::init(running, at.ctx, gr::normal_init{});
  const auto x = normal<float, gr::shape<4, 3, 5>>(at.ctx), dy = normal<float, gr::shape<4, 3, 5>>(at.ctx);
  const auto w = normal<float, gr::shape<3>>(at.ctx);
  const auto found = evaluate(
      at.ctx, [&](auto m, auto b) { return gr::batch_norm(x, m, b, running.mean, running.variance); }, dy, w, w);
  const auto by_hand = evaluate(
      at.ctx, [&](auto m, auto b) { return x * gr::reshape<3, 1>(m) * 0.999995f + gr::reshape<3, 1>(b); }, dy, w, w);
  compare(numbers(found), numbers(by_hand), 1e-5);
}

TEST_CASE("a recorded channel of one value is an error") {
  workplace at;
  gr::nn::batch_norm<X, 3> norm;
  gr::init(norm, at.ctx, gr::normal_init{});
  gr::tape tape(at.ctx);
  const auto x = gr::ones<float, gr::shape<gr::upto<4>, 3>>(at.ctx, 1);
  CHECK(message_of([&] { norm(tape.watch(x)); }).starts_with("batch_norm: the batch has one value for each channel"));
  norm(x);  // inference takes it
}

namespace {
template <class Policy, class T, class Result, class Running>
void check_types(gr::context<gr::cpu>& ctx) {
  gr::nn::batch_norm<gr::on<gr::cpu, Policy>, 3> norm;
  gr::nn::group_norm<gr::on<gr::cpu, Policy>, 3, 3> grouped;
  gr::init(norm, ctx, gr::normal_init{});
  gr::init(grouped, ctx, gr::normal_init{});
  gr::tape tape(ctx);
  const auto x = gr::cast<T>(normal<float, gr::shape<4, 3, 5>>(ctx));
  const auto y = norm(tape.variable(x));
  static_assert(std::is_same_v<gr::value_of_t<decltype(y)>, Result>);
  static_assert(std::is_same_v<gr::value_of_t<decltype(norm(x))>, Result>);
  static_assert(std::is_same_v<gr::value_of_t<decltype(grouped(x))>, Result>);
  static_assert(std::is_same_v<gr::value_of_t<decltype(norm.running_var)>, Running>);
  gr::backward(gr::sum(y * y));
  const auto value = gr::cast<double>(y.value());
  for (gr::index_t c = 0; c < 3; ++c) {
    double mean = 0;
    for (gr::index_t b = 0; b < 4; ++b)
      for (gr::index_t i = 0; i < 5; ++i) mean += value(b, c, i) / 20;
    CHECK(std::abs(mean) < 1e-2);
  }
}
}  // namespace

TEST_CASE("norms over channels have the types of the policy, and their running state at least 32 bits") {
  workplace at;
  check_types<gr::fp64, double, double, double>(at.ctx);
  check_types<gr::bf16_mixed, gr::bf16, float, float>(at.ctx);
  check_types<gr::bf16_stream, gr::bf16, gr::bf16, float>(at.ctx);
  check_types<gr::fp16_mixed, gr::f16, float, float>(at.ctx);
  check_types<gr::bf16_pure, gr::bf16, float, float>(at.ctx);
}

// ---- checkpoint regions and plans -----------------------------------------------------------------------------------

namespace {

template <class Y>
struct net {
  gr::nn::linear<Y, 6, 6> first;
  gr::nn::batch_norm<Y, 6> outer;
  gr::nn::batch_norm<Y, 6> inner;
  gr::nn::group_norm<Y, 2, 6> grouped;
  gr::nn::linear<Y, 6, 6> last;
  GRADUS_MEMBERS(first, outer, inner, grouped, last)

  constexpr auto operator()(const auto& x) const { return last(grouped(inner(gr::relu(outer(first(x)))))); }
};

// One step by the tape alone (0), in a region (1), in two nested ones (2), or in a region that keeps moments (3).
template <class Net, class V>
constexpr auto run(const Net& model, int how, const V& v) {
  const auto body = [&](const auto& u) { return model(u); };
  const auto nested = [body](const auto& u) { return gr::checkpoint(body, u); };
  if (how == 1) return gr::checkpoint(body, v);
  if (how == 2) return gr::checkpoint(nested, v);
  if (how == 3) return gr::checkpoint<gr::save_only<gr::op::channel_moments<0>>>(body, v);
  return body(v);
}

}  // namespace

TEST_CASE("a checkpointed batch norm updates its state once, in nested regions too, with the bits of the plain run") {
  workplace at;
  net<X> model;
  const auto x = normal<float, gr::shape<9, 6>>(at.ctx);
  gr::tape tape(at.ctx);
  std::vector<std::vector<std::vector<float>>> all;
  for (int how = 0; how < 4; ++how) {
    gr::init(model, at.ctx, gr::he_normal{.seed = 3});
    const auto version = model.inner.running_var.version();
    for (int step = 0; step < 2; ++step) {
      const auto y = run(model, how, tape.watch(x));
      gr::backward(gr::sum(y * y));
      CHECK(model.inner.running_var.version() == version + 1 + static_cast<std::uint64_t>(step));
    }
    std::vector<std::vector<float>> found;
    gr::for_each_tensor(model, [&](auto, const auto& t) { found.push_back(gr::to_host(t.value())); });
    gr::visit_params(model, [&](auto& p) { found.push_back(gr::to_host(p.gradient())); });
    all.push_back(std::move(found));
    gr::clear_gradients(model);
  }
  for (const int how : {1, 2, 3}) CHECK(all[static_cast<std::size_t>(how)] == all[0]);
}

namespace {
template <class D, int How>
struct training {
  net<gr::on<D>> model;
  gr::context<D>& persistent;
  gr::context<D>& transient;
  gr::adamw<float, D> optimizer{model};
  gr::tape<D> tape{transient};

  constexpr training(gr::context<D>& kept, gr::context<D>& freed) : persistent(kept), transient(freed) {
    gr::init(model, kept, gr::he_normal{.seed = 11});
  }
  constexpr void step() {
    auto x = tape.watch(gr::full<float, gr::shape<9, 6>>(transient, 0.5f, gr::category::input));
    const auto y = run(model, How, std::move(x));
    gr::backward(gr::sum(y * y));
    optimizer.step(persistent);
  }
};
template <int How>
void check_plan() {
  constexpr gr::step_summary planned = gr::summarize_step<training<gr::meta, How>>();
  static_assert(planned.at_peak[static_cast<std::size_t>(gr::category::state)] == 4 * 6 * sizeof(float));
  workplace at;
  gr::context<gr::cpu> transient{at.stream, at.stats};
  training<gr::cpu, How> t{at.ctx, transient};
  t.step();
  at.stats.reset_peak();
  const std::size_t before = at.stats.all().allocations;
  t.step();
  CHECK(at.stats.all().peak == planned.peak_bytes);
  CHECK(at.stats.all().live == planned.persistent_bytes);
  CHECK(at.stats.all().allocations - before == planned.requests);
}
}  // namespace

TEST_CASE("a step with batch norms, plain and in nested regions, is planned to the byte at compile time") {
  check_plan<0>();
  check_plan<2>();
}
