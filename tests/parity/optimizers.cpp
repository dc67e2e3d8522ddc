// Fifty steps of each optimizer against its reference: PyTorch, Hugging Face, bitsandbytes or the paper's formulas.
// tests/parity/make_fixtures.py recorded the figures. Start and gradients are hashes, so that none of them need be
// stored.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gradus/gradus.hpp>

#include "fixture.hpp"

namespace gr = gradus;

namespace {

template <class P>
struct stack {
  using X = gr::on<gr::cpu, P>;
  gr::param<X, 7, 13> w;
  gr::param<X, 13> b;
  gr::param<X, 29, 6> tall;
  gr::param<X, 67, 63> large;
  GRADUS_MEMBERS(w, b, tall, large)
};

const gradus_test::fixture& recorded() {
  static const gradus_test::fixture f(GRADUS_TEST_DATA "/parity/optimizers.safetensors");
  return f;
}

// In [-0.5, 0.5); see `hashed` in optimizer_fixtures.py.
float hashed(std::uint32_t i, std::uint32_t round, std::uint32_t tensor) {
  std::uint32_t x = i + 100003 * tensor + 1000003 * round + 12345;
  x = (x ^ (x >> 16)) * 0x7FEB352Du;
  x = (x ^ (x >> 15)) * 0x846CA68Bu;
  x ^= x >> 16;
  return static_cast<float>(x >> 8) * 0x1p-24f - 0.5f;
}

template <class P>
struct world {
  gr::stream stream;
  gr::host_resource heap;
  gr::context<gr::cpu> ctx{stream, heap};
  stack<P> net;

  world() {
    std::uint32_t tensor = 0;
    gr::visit_params(net, [&](auto& p) {
      using Q = std::remove_reference_t<decltype(p)>;
      using T = typename Q::value_type;
      auto v = gr::empty<T, typename Q::shape>(ctx, gr::category::parameter);
      for (gr::index_t i = 0; i < v.size; ++i) v.data()[i] = T(hashed(static_cast<std::uint32_t>(i), 0, tensor));
      p.set(std::move(v));
      ++tensor;
    });
  }
  void give_gradients(std::uint32_t step) {
    std::uint32_t tensor = 0;
    gr::visit_params(net, [&](auto& p) {
      using Q = std::remove_reference_t<decltype(p)>;
      using G = typename Q::gradient_value_type;
      auto g = gr::empty<G, typename Q::shape>(ctx, gr::category::gradient);
      for (gr::index_t i = 0; i < g.size; ++i)
        g.data()[i] = G(hashed(static_cast<std::uint32_t>(i), step, tensor) - 0.1f);
      p.slot().give(std::move(g));
      ++tensor;
    });
  }
};

struct difference {
  double most = 0, mean = 0;
};

// Of the parameters after fifty steps from those recorded as `name`.
template <class P = gr::fp32, class MakeOptimizer>
difference after_50_steps(const std::string& name, const MakeOptimizer& make_optimizer) {
  world<P> w;
  auto optimizer = make_optimizer(w.net);
  for (std::uint32_t t = 1; t <= 50; ++t) {
    w.give_gradients(t);
    optimizer.step(w.ctx);
  }
  difference d;
  gr::for_each_param(w.net, [&](std::string_view part, const auto& p) {
    const auto expected = recorded().values(name + "." + std::string(part));
    REQUIRE(expected.size() == p.size());
    double sum = 0;
    for (gr::index_t i = 0; i < p.size(); ++i) {
      const double off = std::abs(static_cast<double>(p.value().values()[i]) - expected[i]);
      sum += off;
      d.most = std::max(d.most, off);
    }
    d.mean = std::max(d.mean, sum / static_cast<double>(p.size()));
  });
  MESSAGE(name << ": largest difference " << d.most << ", mean of the worst tensor " << d.mean);
  return d;
}

}  // namespace

TEST_CASE("gradient descent follows PyTorch's, plain, with momentum and with Nesterov's") {
  CHECK(after_50_steps("sgd", [](auto& net) { return gr::sgd{net, {.lr = 0.01, .weight_decay = 0.01}}; }).most < 1e-6);
  CHECK(after_50_steps("sgd_momentum", [](auto& net) {
          return gr::sgd{net, {.lr = 0.01, .momentum = 0.9, .weight_decay = 0.01}};
        }).most < 1e-6);
  CHECK(after_50_steps("sgd_nesterov", [](auto& net) {
          return gr::sgd{net, {.lr = 0.01, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true}};
        }).most < 1e-6);
}

TEST_CASE("AdamW follows PyTorch's, with decay on matrices and with settings by name") {
  CHECK(after_50_steps("adamw", [](auto& net) { return gr::adamw{net, {.lr = 1e-3}}; }).most < 1e-6);
  CHECK(after_50_steps("adamw_all", [](auto& net) {
          return gr::adamw{net, {.lr = 1e-3, .eps = 1e-8}, [](const gr::param_info& p) {
                             return p.name == "tall" ? gr::param_settings{.lr = 0.1, .weight_decay = 0.5}
                                                     : gr::param_settings{};
                           }};
        }).most < 1e-6);
}

TEST_CASE("Lion follows the paper's algorithm") {
  CHECK(after_50_steps("lion", [](auto& net) { return gr::lion{net, {.lr = 1e-3, .weight_decay = 0.1}}; }).most < 1e-6);
}

TEST_CASE("AdamW in bf16 with compensation follows its formula") {
  // Where a sum is at a tie, float's last bit may decide between two neighbours in bf16, here 2^-9 apart at most; what
  // one step loses, the next one has.
  const difference d = after_50_steps<gr::bf16_pure>("any_precision", [](auto& net) {
    return gr::any_precision_adamw{net, {.lr = 1e-2}};
  });
  CHECK(d.most <= 1.0 / 256);
  CHECK(d.mean < 2e-4);
}

TEST_CASE("the numbers of 8-bit states are those of bitsandbytes, and each code is that of the nearest one") {
  const auto check = [](const auto& map, const std::string& name) {
    const auto expected = recorded().values(name);
    REQUIRE(expected.size() == 256);
    for (std::size_t i = 0; i < 256; ++i)
      CHECK(std::abs(static_cast<double>(map.value[i]) - expected[i]) <= 1e-6 * std::abs(expected[i]));
    const float low = map.value[0] < 0 ? -1.0f : 0.0f;
    for (std::uint32_t i = 0; i < 20000; ++i) {
      const float u = hashed(i, 1, 1) + 0.5f, decades = std::pow(10.0f, -8 * (hashed(i, 2, 1) + 0.5f));
      const float x = (low < 0 && i % 2 == 0 ? -u : u) * decades;
      const double got = std::abs(static_cast<double>(map.value[map.nearest(x)] - x));
      double best = 2;
      for (const float value : map.value)
        if (x >= 0 ? value >= 0 : value <= 0) best = std::min(best, std::abs(static_cast<double>(value - x)));
      CHECK(got <= best + 1e-9);
    }
    CHECK(map.value[map.nearest(0)] == 0);
    CHECK(map.value[map.nearest(1)] == 1);
    CHECK(map.nearest(std::numeric_limits<float>::quiet_NaN()) == map.zero);
    for (unsigned code = map.zero; code < 255; ++code) {  // on both sides of what is half way to the next
      CAPTURE(code);
      const float middle = 0.5f * (map.value[code] + map.value[code + 1]);
      const float below = middle * (1 - 1e-6f), above = middle * (1 + 1e-6f);
      CHECK(map.nearest(below) == code);
      CHECK(map.nearest(above) == code + 1);
      if (low == 0) continue;
      CHECK(map.nearest(-below) == 2 * map.zero - code);
      CHECK(map.nearest(-above) == (code == 254 ? 0 : 2 * map.zero - code - 1));
    }
  };
  check(gr::dynamic_map_of<true>, "map.signed");
  check(gr::dynamic_map_of<false>, "map.unsigned");
}

TEST_CASE("8-bit AdamW follows bitsandbytes'") {
  // Where a number is halfway between two codes, one of both may be taken here and the other there; that moves a
  // parameter by a part of a step, of 1e-3.
  const difference d = after_50_steps("adamw_8bit", [](auto& net) { return gr::adamw_8bit{net, {.lr = 1e-3}}; });
  CHECK(d.mean < 2e-5);
  CHECK(d.most < 1e-3);
}

TEST_CASE("the steps of 8-bit AdamW are within 6e-5 of those with states in float, in the mean") {
  // As bitsandbytes' own test: after each step, both go on from the same parameters.
  world<gr::fp32> small, full;
  gr::adamw_8bit in_8_bits{small.net, {.lr = 1e-3, .beta2 = 0.999}};
  gr::adamw in_float{full.net, {.lr = 1e-3, .beta2 = 0.999}};
  for (std::uint32_t t = 1; t <= 50; ++t) {
    small.give_gradients(t);
    full.give_gradients(t);
    in_8_bits.step(small.ctx);
    in_float.step(full.ctx);
    double sum = 0;
    auto a = small.net.large.edit().values();
    const auto b = full.net.large.value().values();
    for (std::size_t i = 0; i < a.size(); ++i) sum += std::abs(static_cast<double>(a[i] - b[i]));
    CHECK(sum / static_cast<double>(a.size()) < 6e-5);
    std::copy(b.begin(), b.end(), a.begin());
    CHECK(gr::to_host(small.net.tall.value()) == gr::to_host(full.net.tall.value()));  // few values: in float
  }
}

TEST_CASE("Adafactor follows Hugging Face's, with relative steps, with a rate and with an average of updates") {
  const auto everywhere = [](const gr::param_info&) { return gr::param_settings{}; };
  CHECK(after_50_steps("adafactor", [](auto& net) { return gr::adafactor{net}; }).most < 1e-6);
  CHECK(after_50_steps("adafactor_warmup", [](auto& net) { return gr::adafactor{net, {.warmup = true}}; }).most < 1e-6);
  CHECK(after_50_steps("adafactor_lr", [](auto& net) {
          return gr::adafactor{net, {.lr = 1e-3, .scale_parameter = false, .weight_decay = 0.1}};
        }).most < 1e-6);
  CHECK(after_50_steps("adafactor_beta1", [&](auto& net) {
          return gr::adafactor{net, {.lr = 1e-3, .scale_parameter = false, .beta1 = 0.9}, everywhere};
        }).most < 1e-6);
}

TEST_CASE("Muon follows its formula in float, on wide and tall matrices, and AdamW's steps go beside it") {
  CHECK(after_50_steps("muon", [](auto& net) { return gr::muon{net, {.weight_decay = 0.01}}; }).most < 1e-6);
}

TEST_CASE("overflow in chosen steps gives PyTorch's scale, skips and weights, step by step") {
  struct model {
    gr::param<gr::on<gr::cpu>, 13> b;
    GRADUS_MEMBERS(b)
  };
  gr::stream stream;
  gr::host_resource heap;
  gr::context<gr::cpu> ctx{stream, heap};
  model net;
  auto start = gr::empty<float, gr::shape<13>>(ctx);
  for (std::uint32_t i = 0; i < 13; ++i) start.data()[i] = hashed(i, 0, 1);
  net.b.set(std::move(start));
  gr::sgd optimizer{net, {.lr = 0.1, .momentum = 0.9}};
  gr::loss_scaler scaler{ctx, {.growth_interval = 3}};
  const auto bad = recorded().values("scaler.bad"), scale = recorded().values("scaler.scale");
  const auto skipped = recorded().values("scaler.skipped"), weights = recorded().values("scaler.weights");
  for (std::uint32_t t = 0; t < 30; ++t) {
    CAPTURE(t);
    auto g = gr::empty<float, gr::shape<13>>(ctx);
    for (std::uint32_t i = 0; i < 13; ++i)
      g.data()[i] = (hashed(i, t, 1) - 0.1f) * gr::item(scaler.scale(gr::ones<float, gr::shape<>>(ctx)));
    if (bad[t] != 0) g.data()[t % 13] = static_cast<float>(bad[t]);
    net.b.slot().give(std::move(g));
    optimizer.unscale(scaler);
    optimizer.clip(ctx, 1.0);
    optimizer.step(ctx);
    scaler.update(ctx);
    CHECK(static_cast<double>(gr::item(scaler.value())) == scale[t]);
    CHECK(static_cast<double>(optimizer.skipped()) == skipped[t]);
    CHECK(optimizer.steps() == t + 1 - optimizer.skipped());
    for (gr::index_t i = 0; i < 13; ++i)
      CHECK(std::abs(static_cast<double>(net.b.value().values()[i]) - weights[t * 13 + i]) < 1e-6);
  }
}
