#pragma once
#include <cmath>
#include <limits>

#include "cases.hpp"

template <class X>
struct mlp {
  gr::param<X, 13, 29> w1;
  gr::param<X, 29> b1;
  gr::param<X, 29, 5> w2;
  gr::param<X, 5> b2;
  GRADUS_MEMBERS(w1, b1, w2, b2)
  auto operator()(auto x) const { return gr::linear(gr::gelu(gr::linear(x, w1, b1)), w2, b2); }
};

/// Five steps: the losses, the first gradients and the last weights.
template <class D, class P = gr::fp32, class MakeOptimizer, class Prepare>
void train(runner<D>& r, const std::string& name, double max_norm, const MakeOptimizer& make_optimizer,
           const Prepare& prepare) {
  constexpr gr::index_t batch = 37;
  auto& ctx = r.ctx();
  mlp<gr::on<D, P>> net;
  gr::init(net, ctx, gr::he_normal{.seed = 11});
  auto optimizer = make_optimizer(net);
  gr::tape tape{ctx};
  std::vector<int> classes(batch);
  for (gr::index_t i = 0; i < batch; ++i) classes[i] = static_cast<int>(i % 5);
  const auto inputs = gr::from_host<float, gr::shape<batch, 13>>(ctx, r.template random<float>(batch * 13).data());
  const auto labels = gr::from_host<int, gr::shape<batch>>(ctx, classes.data());
  for (int step = 0; step < 5; ++step) {
    auto loss = gr::cross_entropy(net(tape.watch(inputs)), labels);
    r.keep(name + ": loss", gr::to_host(loss.value()), 1e-4);
    gr::backward(loss);
    if (step == 0)
      gr::for_each_param(net, [&](auto part, auto& p) {
        r.keep(name + ": gradient of " + std::string(part), gr::to_host(p.gradient()), 1e-4);
      });
    prepare(optimizer);
    if (max_norm > 0) r.keep(name + ": norm", std::vector<double>{optimizer.clip(ctx, max_norm).value()}, 1e-4);
    optimizer.step(ctx);
  }
  gr::for_each_param(
      net, [&](auto part, auto& p) { r.keep(name + ": " + std::string(part), gr::to_host(p.value()), 1e-3); });
}
template <class D, class MakeOptimizer>
void train(runner<D>& r, const std::string& name, double max_norm, const MakeOptimizer& make_optimizer) {
  train(r, name, max_norm, make_optimizer, [](auto&) {});
}

/// How near values of T must come that have been rounded on the way: a neighbour here and there is another one.
template <class T>
constexpr double neighbours = sizeof(T) == 2 ? 2e-3 : 1e-4;
/// As much for states of 8 bits: where v is small, a step from its neighbour differs by the learning rate and more.
constexpr double neighbouring_codes = 2e-3;
/// As much where Muon's directions, times a rate of 0.02 in each of five steps, are off by 5 % (muon_cases.hpp).
constexpr double iterated_in_bf16 = 5 * 0.02 * 0.05;

/// Steps of a vector of odd length and two matrices, stored in T, with given gradients. Steps 3 and 4 of those with a
/// scaled loss overflow.
template <class T, class D, class MakeOptimizer>
void step_alone(runner<D>& r, const std::string& name, bool scaled, const MakeOptimizer& make_optimizer,
                double tolerance = neighbours<T>) {
  struct model {
    gr::param<gr::on<D, gr::precision<T>>, 8195> w;
    gr::param<gr::on<D, gr::precision<T>>, 3, 5> m;
    gr::param<gr::on<D, gr::precision<T>>, 301, 5> tall;
    GRADUS_MEMBERS(w, m, tall)
  };
  auto& ctx = r.ctx();
  model net;
  gr::init(net, ctx, gr::normal_init{.seed = 5, .stddev = 1});
  auto optimizer = make_optimizer(net);
  gr::loss_scaler scaler{ctx, {.growth_interval = 2}};
  for (int step = 0; step < 7; ++step) {
    gr::visit_params(net, [&](auto& p) {
      using S = typename std::remove_reference_t<decltype(p)>::shape;
      auto g = r.template random<T>(S::size);
      if (scaled && (step == 3 || step == 4)) g[S::size - 2] = T(std::numeric_limits<float>::infinity());
      p.slot().give(gr::from_host<T, S>(ctx, g.data(), gr::category::gradient));
    });
    if (scaled) optimizer.unscale(scaler);
    if (step == 1) optimizer.clip_value(0.5);
    if (step == 2) optimizer.clip(ctx, 1.0);
    optimizer.step(ctx);
    if (scaled) scaler.update(ctx);
    r.keep(name + ": scale", gr::to_host(scaler.value()), 1e-9);
  }
  r.keep(name + ": steps", std::vector<double>{static_cast<double>(optimizer.steps())}, 1e-9);
  r.keep(name + ": w", gr::to_host(net.w.value()), tolerance);
  r.keep(name + ": m", gr::to_host(net.m.value()), tolerance);
  r.keep(name + ": tall", gr::to_host(net.tall.value()), tolerance);
}

/// Steps of a vector, which has a gradient in all of them, and of a matrix and a vector whose first one comes in step
/// 3. Of losses that are scaled, those of steps 2 and 4 overflow.
template <class D, class MakeOptimizer>
void late_gradients(runner<D>& r, const std::string& name, bool scaled, const MakeOptimizer& make_optimizer,
                    double tolerance = neighbours<float>) {
  struct model {
    gr::param<gr::on<D>, 301> always;
    gr::param<gr::on<D>, 31, 5> matrix;
    gr::param<gr::on<D>, 4099> large;
    GRADUS_MEMBERS(always, matrix, large)
  };
  auto& ctx = r.ctx();
  model net;
  gr::init(net, ctx, gr::normal_init{.seed = 5, .stddev = 1});
  auto optimizer = make_optimizer(net);
  gr::loss_scaler scaler{ctx};
  for (int step = 0; step < 7; ++step) {
    gr::visit_params(net, [&](auto& p) {
      using S = typename std::remove_reference_t<decltype(p)>::shape;
      if (S::size != 301 && step < 3) return;
      auto g = r.template random<float>(S::size);
      if (scaled && S::size == 301 && (step == 2 || step == 4)) g[7] = std::numeric_limits<float>::infinity();
      p.slot().give(gr::from_host<float, S>(ctx, g.data(), gr::category::gradient));
    });
    if (scaled) optimizer.unscale(scaler);
    optimizer.step(ctx);
    if (scaled) scaler.update(ctx);
  }
  std::vector<double> steps;
  for (const std::size_t n : optimizer.steps_by_parameter()) steps.push_back(static_cast<double>(n));
  r.keep(name + ": steps by parameter", steps, 1e-9);
  r.keep(name + ": matrix", gr::to_host(net.matrix.value()), tolerance);
  r.keep(name + ": large", gr::to_host(net.large.value()), tolerance);
}

/// Moments of 8 bits beside others that are 25 million times theirs, or not finite; and some in float.
template <class D>
void eight_bits(runner<D>& r) {
  struct model {
    gr::param<gr::on<D>, 4099> coded, in_float;
    GRADUS_MEMBERS(coded, in_float)
  };
  auto& ctx = r.ctx();
  model net;
  gr::init(net, ctx, gr::normal_init{.seed = 5, .stddev = 1});
  gr::adamw_8bit optimizer{net, {.lr = 1e-2}, [](const gr::param_info& p) {
                             return gr::param_settings{.float_states = p.name == "in_float"};
                           }};
  for (int step = 0; step < 7; ++step) {
    const float rare = step == 3 ? 0.0f : 2e-4f;
    std::vector<float> g(4099, 1.0f);
    for (gr::index_t i = 0; i < g.size(); i += 3) g[i] = rare;
    net.in_float.slot().give(gr::from_host<float, gr::shape<4099>>(ctx, g.data(), gr::category::gradient));
    if (step == 1) g[70] = std::numeric_limits<float>::infinity();
    if (step == 2) g[400] = 1e20f;
    net.coded.slot().give(gr::from_host<float, gr::shape<4099>>(ctx, g.data(), gr::category::gradient));
    optimizer.step(ctx);
    auto values = gr::to_host(net.coded.value());
    r.keep("8 bits: finite", std::vector<double>{std::isfinite(values[70]) ? 1.0 : 0.0}, 1e-9);
    if (!std::isfinite(values[70])) values[70] = 0;
    r.keep("8 bits: values", values, 1e-4);
  }
  r.keep("8 bits: in float", gr::to_host(net.in_float.value()), 1e-5);
}

/// The average of values that a step changes, in the model's place and out of it.
template <class T, class D>
void averages(runner<D>& r, const std::string& name) {
  struct model {
    gr::param<gr::on<D, gr::precision<T>>, 4099> w;
    GRADUS_MEMBERS(w)
  };
  auto& ctx = r.ctx();
  model net;
  gr::init(net, ctx, gr::normal_init{.seed = 5, .stddev = 1});
  gr::sgd optimizer{net, {.lr = 0.5}};
  gr::weight_average average{net, {.decay = 0.75}};
  for (int step = 0; step < 3; ++step) {
    const auto g = r.template random<T>(4099);
    net.w.slot().give(gr::from_host<T, gr::shape<4099>>(ctx, g.data(), gr::category::gradient));
    optimizer.step(ctx);
    average.update(ctx);
  }
  constexpr double tolerance = sizeof(T) == 2 ? 2e-3 : 1e-6;
  {
    const auto guard = average.use(ctx);
    r.keep(name + ": in use", gr::to_host(net.w.value()), tolerance);
    const auto within = average.use(ctx);
    r.keep(name + ": in use twice", gr::to_host(net.w.value()), tolerance);
  }
  r.keep(name + ": values", gr::to_host(net.w.value()), tolerance);
}

/// A running mean, stored in T, that two forwards update, the second in a checkpoint region, and a third one reads.
template <class T, class D>
void states(runner<D>& r, const std::string& name) {
  auto& ctx = r.ctx();
  gr::state<gr::on<D, gr::precision<T>>, 29> mean;
  gr::init(mean, ctx, gr::normal_init{});
  gr::tape tape{ctx};
  const auto update = [&](const auto& v) {
    mean.update(v, mean + 0.25f * (gr::mean<0>(v) - mean));
    return v * v;
  };
  for (const bool region : {false, true}) {
    auto x = tape.variable(gr::from_host<float, gr::shape<11, 29>>(ctx, r.template random<float>(11 * 29).data()));
    gr::backward(gr::sum(region ? gr::checkpoint(update, x) : update(x)));
    r.keep(name + ": gradient", gr::to_host(x.gradient()), 1e-5);
    r.keep(name, gr::to_host(mean.value()), sizeof(T) == 2 ? 1e-2 : 1e-5);
  }
  auto x = tape.variable(gr::from_host<float, gr::shape<29>>(ctx, r.template random<float>(29).data()));
  gr::backward(gr::sum(x * mean));
  r.keep(name + ": read", gr::to_host(x.gradient()), sizeof(T) == 2 ? 1e-2 : 1e-5);
}

template <class D>
void training_cases(runner<D>& r) {
  train(r, "adamw", 0, [](auto& net) { return gr::adamw{net, {.lr = 1e-2}}; });
  train(r, "adamw, clipped", 0.1, [](auto& net) { return gr::adamw{net, {.lr = 1e-2}}; });
  train(r, "sgd", 0, [](auto& net) { return gr::sgd{net, {.lr = 1e-1, .momentum = 0.9}}; });
  train(
      r, "sgd, held and clipped", 0.1,
      [](auto& net) {
        return gr::sgd{net, {.lr = 1e-1, .momentum = 0.9, .nesterov = true}};
      },
      [](auto& optimizer) { optimizer.clip_value(0.01); });
  step_alone<float>(r, "adagrad", false, [](auto& net) { return gr::adagrad{net, {.lr = 1e-3}}; });
  step_alone<float>(r, "lion", false, [](auto& net) { return gr::lion{net, {.lr = 1e-3}}; });
  step_alone<float>(r, "adamw, scaled", true, [](auto& net) { return gr::adamw{net, {.lr = 1e-2}}; });
  step_alone<gr::bf16>(r, "any precision", false, [](auto& net) { return gr::any_precision_adamw{net, {.lr = 1e-3}}; });
  const auto eight_bits_of = [](auto& net) { return gr::adamw_8bit{net, {.lr = 1e-2}}; };
  step_alone<float>(r, "adamw_8bit", true, eight_bits_of, neighbouring_codes);
  step_alone<gr::bf16>(r, "adamw_8bit, bf16", false, eight_bits_of, neighbouring_codes);
  step_alone<float>(r, "adafactor", true, [](auto& net) { return gr::adafactor{net}; });
  step_alone<gr::bf16>(r, "adafactor, bf16", false, [](auto& net) {
    return gr::adafactor{net, {.lr = 1e-2, .beta1 = 0.9}};
  });
  step_alone<float>(
      r, "muon", true, [](auto& net) { return gr::muon{net}; }, iterated_in_bf16);
  late_gradients(r, "adamw, late", true, [](auto& net) { return gr::adamw{net, {.lr = 1e-2, .beta2 = 0.999}}; });
  late_gradients(r, "adamw_8bit, late", false, eight_bits_of, neighbouring_codes);
  late_gradients(r, "adafactor, late", true, [](auto& net) { return gr::adafactor{net}; });
  eight_bits(r);
  averages<float>(r, "averages");
  averages<gr::bf16>(r, "averages, bf16");
  states<float>(r, "state");
  states<gr::bf16>(r, "state, bf16");
  step_alone<gr::bf16>(r, "stochastic", false, [](auto& net) {
    gr::sgd optimizer{net, {.lr = 1e-4}};
    optimizer.set_rounding(gr::rounding::stochastic, 7);
    return optimizer;
  });
}

// Computed in the .cpp file.
std::vector<record> training_on_cpu(unsigned seed);
