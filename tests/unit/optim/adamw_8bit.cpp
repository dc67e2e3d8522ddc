// Moments of 8 bits share the scale of 256 values: what one of them may do to another.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <gradus/gradus.hpp>

namespace gr = gradus;

namespace {

using X = gr::on<gr::cpu>;
constexpr gr::index_t size = 4100;  // the last block is a short one

struct model {
  gr::param<X, size> w;
  GRADUS_MEMBERS(w)
};
constexpr auto with_8bit = [](model& m) { return gr::adamw_8bit{m, {.lr = 1, .weight_decay = 0}}; };
constexpr auto in_float = [](model& m) {
  return gr::adamw_8bit{
      m, {.lr = 1, .weight_decay = 0}, [](const gr::param_info&) { return gr::param_settings{.float_states = true}; }};
};
constexpr auto with_adamw = [](model& m) { return gr::adamw{m, {.lr = 1, .weight_decay = 0}}; };

template <class Optimizer>
struct world {
  gr::stream stream;
  gr::host_resource heap;
  gr::stats_resource stats{heap};
  gr::context<gr::cpu> ctx{stream, stats};
  model net;
  Optimizer optimizer;

  template <class Make>
  explicit world(const Make& make) : optimizer(make(net)) {
    gr::init(net, ctx, gr::normal_init{});
  }
  std::vector<float> values() const { return {net.w.value().values().begin(), net.w.value().values().end()}; }
  // Takes a step by gradients gradient(i), and returns the values after it.
  std::vector<float> step(const std::function<float(gr::index_t)>& gradient) {
    auto g = gr::empty<float, gr::shape<size>>(ctx);
    for (gr::index_t i = 0; i < size; ++i) g.data()[i] = gradient(i);
    net.w.slot().give(std::move(g));
    optimizer.step(ctx);
    return values();
  }
};
template <class Make>
world(const Make&) -> world<decltype(std::declval<Make>()(std::declval<model&>()))>;

std::size_t not_finite(const std::vector<float>& values) {
  std::size_t count = 0;
  for (const float v : values) count += !std::isfinite(v);
  return count;
}

}  // namespace

TEST_CASE("an element whose gradients are small beside its block's takes no long step when it has none for once") {
  world w(with_8bit);
  const auto gradient = [](gr::index_t i) {
    return i % 256 == 3 ? 1.0f : std::pow(10.0f, -6.0f * static_cast<float>(i % 256) / 256);
  };
  for (int step = 0; step < 12; ++step) {
    const auto before = w.values();
    const auto after = w.step([&](gr::index_t i) { return step % 4 == 3 && i % 256 != 3 ? 0.0f : gradient(i); });
    double longest = 0;
    for (gr::index_t i = 0; i < size; ++i)
      longest = std::max(longest, std::abs(static_cast<double>(after[i]) - static_cast<double>(before[i])));
    CAPTURE(step);
    CHECK(longest < 1.3);  // of rates; AdamW's is 1
  }
}

TEST_CASE("a mean of squares is coded as 0 where it is 0, and nowhere else") {
  world w(with_8bit);
  const auto gradient = [](gr::index_t i) { return i % 5 == 0 ? 0.0f : i % 5 == 1 ? 1.0f : 1e-6f; };
  w.step(gradient);
  w.step([](gr::index_t i) { return i % 5 == 1 ? 1.0f : 0.0f; });
  w.optimizer.for_each_state(w.ctx, w.net, [&](const gr::named_state<gr::cpu>& s) {
    if (s.state != "exp_avg_sq") return;
    REQUIRE(s.dtype == "u8");
    std::size_t wrong = 0;
    for (gr::index_t i = 0; i < size; ++i)
      wrong += (static_cast<const std::uint8_t*>(s.data)[i] == 0) != (gradient(i) == 0);
    CHECK(wrong == 0);
  });
}

TEST_CASE("a gradient that is not finite, or whose square is not, does nothing to the other elements of its block") {
  constexpr float huge = std::numeric_limits<float>::infinity();
  for (const float bad : {huge, -huge, std::numeric_limits<float>::quiet_NaN(), 1e20f, -3e38f}) {
    CAPTURE(bad);
    world plain(with_8bit), spoiled(with_8bit);
    for (int step = 0; step < 5; ++step) {
      const auto gradient = [&](gr::index_t i) {
        return i == 700 ? 0.0f : 0.1f + static_cast<float>((i * 7 + static_cast<gr::index_t>(step)) % 11);
      };
      auto expected = plain.step(gradient);
      auto found = spoiled.step([&](gr::index_t i) { return i == 700 && step == 1 ? bad : gradient(i); });
      CHECK(not_finite(found) == (std::isfinite(bad) || step == 0 ? 0 : 1));
      expected[700] = found[700] = 0;
      CHECK(expected == found);
    }
  }
}

TEST_CASE("a parameter may keep its moments in float, and then takes AdamW's steps bit for bit") {
  world of_8bit(in_float);
  world of_adamw(with_adamw);
  for (int step = 0; step < 4; ++step) {
    const auto gradient = [&](gr::index_t i) { return std::sin(static_cast<float>(i) + static_cast<float>(step)); };
    CHECK(of_8bit.step(gradient) == of_adamw.step(gradient));
  }
  CHECK(of_8bit.stats.of(gr::category::optimizer_state).live == 8 * size);
  std::vector<std::string> states;
  of_8bit.optimizer.for_each_state(of_8bit.ctx, of_8bit.net, [&](const gr::named_state<gr::cpu>& s) {
    states.push_back(std::string(s.state) + " " + std::string(s.dtype));
  });
  CHECK(states == std::vector<std::string>{"exp_avg f32", "exp_avg_sq f32"});
}
