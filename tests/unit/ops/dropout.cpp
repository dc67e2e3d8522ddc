#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <tuple>
#include <utility>

#include "../../support/operands.hpp"

namespace gr = gradus;
using namespace gradus_test;

TEST_CASE("dropout's mask is a function of the key and the element alone") {
  workplace at;
  using S = gr::shape<10007>;
  constexpr std::uint64_t seed = 0x123456789ABCDEFu;
  gr::tape tape{at.ctx, seed};
  tape.set_random(seed, 5);
  const auto x = normal<float, S>(at.ctx);
  for (std::uint32_t ordinal = 0; ordinal < 2; ++ordinal) {
    const auto y = gr::dropout(tape.watch(x), 0.3).value();
    const gr::random_key key{seed, 5, ordinal, gr::random_domain::tape};
    constexpr std::uint32_t below = 19661;  // 0.3 in 2^16ths
    std::size_t wrong = 0;
    std::size_t fallen = 0;
    for (gr::index_t i = 0; i < S::size; ++i) {
      const bool falls = key.half(i) < below;
      fallen += falls;
      wrong += falls ? y(i) != 0 : std::abs(y(i) - x(i) * (65536.0f / (65536 - below))) > 1e-6f * std::abs(x(i));
    }
    CHECK(wrong == 0);
    CHECK(std::abs(static_cast<double>(fallen) / S::size - 0.3) < 0.03);
  }
}

TEST_CASE("eight draws at once are those of their groups, beyond the first 2^32 too") {
  std::mt19937_64 draw(fresh_seed());
  using at_once = gr::cpu_kit::philox_lanes;
  const gr::random_key key{draw(), static_cast<std::uint32_t>(draw()), static_cast<std::uint32_t>(draw()),
                           gr::random_domain::tape};
  constexpr std::uint64_t edge = std::uint64_t{1} << 32;
  for (const std::uint64_t first : {std::uint64_t{0}, edge - 3, edge, draw() % (edge << 16)}) {
    std::uint16_t found[at_once::halves];
    at_once::draw(key, first).store(found);
    std::size_t wrong = 0;
    for (std::uint64_t i = 0; i < at_once::halves; ++i) wrong += found[i] != key.half(8 * first + i);
    CAPTURE(first);
    CHECK(wrong == 0);
  }
}

TEST_CASE(
    "dropout's gradient has the mask of its output, keeps no mask, and does not depend on the number of threads") {
  workplace at;
  using S = gr::shape<33, 1000>;
  const auto x = gr::ones<float, S>(at.ctx);
  const auto f = [](auto v) { return gr::dropout(v, 0.5); };
  const auto run = [&](int n) {
    const threads some(at.ctx, n);
    return evaluate(at.ctx, f, x, x);
  };
  const auto one = run(1);
  const auto two = run(2);
  CHECK(same_bits(one.y, two.y));
  CHECK(same_bits(one.y, std::get<0>(one.gradients)));
  CHECK(same_bits(one.y, std::get<0>(two.gradients)));

  gr::tape tape{at.ctx};
  const auto before = at.stats.all().live;
  auto v = tape.variable(gr::ones<float, S>(at.ctx));
  const auto y = gr::dropout(std::move(v), 0.5);  // in place: nobody else holds it
  CHECK(at.stats.all().live - before == decltype(x)::bytes);
}

TEST_CASE("a tape's draws have nothing in common with those of keys that a program writes down") {
  workplace at;
  using S = gr::shape<4000>;
  gr::tape tape{at.ctx};
  const auto kept = gr::dropout(tape.watch(gr::ones<float, S>(at.ctx)), 0.5).value();
  const gr::random_key written{};  // seed, step and ordinal are those of the tape's draw
  int agree = 0;
  for (gr::index_t i = 0; i < S::size; ++i) agree += (kept(i) != 0) == (written.half(i) >= 0x8000u);
  CHECK(agree > 1800);
  CHECK(agree < 2200);
}

TEST_CASE("dropout changes nothing without a tape or with p = 0") {
  workplace at;
  const auto x = normal<float, gr::shape<5>>(at.ctx);
  const auto same = gr::dropout(x, 0.9);
  CHECK(same.data() == x.data());
  gr::tape tape{at.ctx};
  const auto kept = gr::dropout(tape.watch(x), 0.0);
  CHECK(kept.value().data() == x.data());
}

TEST_CASE("dropout refuses what is no probability below 1") {
  workplace at;
  gr::tape tape{at.ctx};
  const auto x = tape.watch(normal<float, gr::shape<5>>(at.ctx));
  CHECK_THROWS_WITH_AS(gr::dropout(x, 1.0), "dropout(x, p): p is 1.000000; it must be at least 0 and less than 1",
                       gr::error);
  CHECK_THROWS_AS(gr::dropout(x, -0.1), gr::error);
  CHECK_THROWS_AS(gr::dropout(x, NAN), gr::error);
}
