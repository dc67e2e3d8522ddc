#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "../../support/message_of.hpp"
#include "../../support/operands.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {

// Outputs of lstm that gradients are tested from: y, and the last c.
const auto y_of_lstm = [](const auto&... x) { return std::get<0>(gr::lstm(x...)); };
const auto c_of_lstm = [](const auto&... x) { return std::get<2>(gr::lstm(x...)); };
const auto y_of_gru = [](const auto&... x) { return std::get<0>(gr::gru(x...)); };

// By the largest error of an element, or by the error's length where each element is rounded to 16 bits on its way.
void compare(const outcome& found, const outcome& wanted, std::size_t first, double within, bool by_norm) {
  const auto error = [&](const values& f, const values& w) {
    return by_norm ? error_in_norm(f, w) : worst_error(f, w);
  };
  const auto begin = wanted.y.begin() + static_cast<std::ptrdiff_t>(first);
  CHECK(error(found.y, values(begin, begin + static_cast<std::ptrdiff_t>(found.y.size()))) < within);
  std::size_t at = 0;
  for (const values& w : wanted.gradients)
    if (!w.empty()) CHECK(error(found.gradients.at(at++), w) < within);
}

template <class T, gr::index_t B, gr::index_t N, gr::index_t H>
void check(double within, const gr::recurrent_options<>& how = {}, std::vector<std::size_t> lengths = {}) {
  workplace at;
  if (lengths.empty()) lengths.assign(B, N);
  using C = gr::compute_type<T>;
  const auto h = normal<T, gr::shape<B, H>>(at.ctx);
  const auto c = normal<C, gr::shape<B, H>>(at.ctx);
  const auto dy = normal<T, gr::shape<B, N, H>>(at.ctx);
  const auto dc = normal<C, gr::shape<B, H>>(at.ctx);
  const auto with_options = [&](const auto& f) { return [&](const auto&... x) { return f(x..., how); }; };
  {
    const auto x = normal<T, gr::shape<B, N, 4 * H>>(at.ctx);
    const auto w = normal<T, gr::shape<H, 4 * H>>(at.ctx, 0.5);
    const reference::recurrence wanted{B,  N,          H,          numbers(x), numbers(w),
                                       {}, numbers(h), numbers(c), lengths,    how.reversed};
    const auto y = numbers(evaluate(at.ctx, with_options(y_of_lstm), dy, x, w, h, c));
    compare(y, wanted.run(numbers(dy), {}), 0, within, sizeof(T) == 2);
    const auto last = numbers(evaluate(at.ctx, with_options(c_of_lstm), dc, x, w, h, c));
    compare(last, wanted.run(values(dy.size), numbers(dc)), dy.size, within, sizeof(T) == 2);
  }
  const auto x = normal<T, gr::shape<B, N, 3 * H>>(at.ctx);
  const auto w = normal<T, gr::shape<H, 3 * H>>(at.ctx, 0.5);
  const auto b = normal<T, gr::shape<3 * H>>(at.ctx);
  const reference::recurrence wanted{B,          N,          H,  numbers(x), numbers(w),
                                     numbers(b), numbers(h), {}, lengths,    how.reversed};
  const auto y = numbers(evaluate(at.ctx, with_options(y_of_gru), dy, x, w, b, h));
  compare(y, wanted.run(numbers(dy), {}), 0, within, sizeof(T) == 2);
}

template <gr::index_t B, gr::index_t N, gr::index_t H>
struct operands {
  workplace at;
  gr::tensor<float, gr::shape<B, N, 4 * H>> gates = normal<float, gr::shape<B, N, 4 * H>>(at.ctx);
  gr::tensor<float, gr::shape<H, 4 * H>> w = normal<float, gr::shape<H, 4 * H>>(at.ctx);
  gr::tensor<float, gr::shape<B, N, 3 * H>> gates_of_gru = normal<float, gr::shape<B, N, 3 * H>>(at.ctx);
  gr::tensor<float, gr::shape<H, 3 * H>> u = normal<float, gr::shape<H, 3 * H>>(at.ctx);
  gr::tensor<float, gr::shape<3 * H>> b = normal<float, gr::shape<3 * H>>(at.ctx);
  gr::tensor<float, gr::shape<B, H>> h = normal<float, gr::shape<B, H>>(at.ctx);
};

}  // namespace

TEST_CASE("lstm and gru are what they are defined to be, at odd sizes too") {
  check<float, 2, 3, 5>(1e-4);
  check<float, 1, 7, 1>(1e-2);  // sums of a few numbers, which may cancel
  check<float, 37, 2, 33>(1e-4);
  check<double, 3, 4, 19>(1e-12);
}

TEST_CASE("lstm and gru of bf16 compute in float, and round what they return and what they multiply") {
  check<gr::bf16, 3, 4, 19>(0.02);
}

TEST_CASE("lstm and gru run in reverse, and keep the state of a row after its last step") {
  workplace at;
  const auto lengths = gr::from_values<std::int32_t, gr::shape<4>>(at.ctx, {3, 0, 5, 1});
  check<float, 4, 5, 17>(1e-4, {.reversed = true});
  check<float, 4, 5, 17>(1e-4, {.lengths = lengths}, {3, 0, 5, 1});
  check<float, 4, 5, 17>(1e-4, {.reversed = true, .lengths = lengths}, {3, 0, 5, 1});
}

TEST_CASE("lstm and gru without a state start from zeros, with the same bits") {
  operands<3, 4, 9> x;
  const auto zeros = gr::zeros<float, gr::shape<3, 9>>(x.at.ctx);
  const auto [y, last_h, last_c] = gr::lstm(x.gates, x.w, zeros, zeros);
  CHECK(same_bits(gr::lstm(x.gates, x.w), y));
  CHECK(same_bits(gr::gru(x.gates_of_gru, x.u, x.b), std::get<0>(gr::gru(x.gates_of_gru, x.u, x.b, zeros))));
}

TEST_CASE("a sequence in two calls has the bits of one call") {
  operands<3, 5, 9> x;
  const auto [y, h, c] = gr::lstm(x.gates, x.w, x.h, x.h);
  const auto [y1, h1, c1] = gr::lstm(gr::slice<1, 0, 2>(x.gates), x.w, x.h, x.h);
  const auto [y2, h2, c2] = gr::lstm(gr::slice<1, 2, 3>(x.gates), x.w, h1, c1);
  CHECK(same_bits(gr::concat<1>(y1, y2), y));
  CHECK(same_bits(h2, h));
  CHECK(same_bits(c2, c));
  const auto [z, g] = gr::gru(x.gates_of_gru, x.u, x.b, x.h);
  const auto [z1, g1] = gr::gru(gr::slice<1, 0, 4>(x.gates_of_gru), x.u, x.b, x.h);
  const auto [z2, g2] = gr::gru(gr::slice<1, 4, 1>(x.gates_of_gru), x.u, x.b, g1);
  CHECK(same_bits(gr::concat<1>(z1, z2), z));
  CHECK(same_bits(g2, g));
}

TEST_CASE("lstm and gru do not depend on the number of threads") {
  operands<40, 3, 70> x;
  const auto dy = normal<float, gr::shape<40, 3, 70>>(x.at.ctx);
  const auto run = [&](int n) {
    const threads t(x.at.ctx, n);
    return std::tuple(evaluate(x.at.ctx, y_of_lstm, dy, x.gates, x.w, x.h, x.h),
                      evaluate(x.at.ctx, y_of_gru, dy, x.gates_of_gru, x.u, x.b, x.h));
  };
  const auto one = run(1), two = run(2);
  const auto same = [](const auto& a, const auto& b) {
    CHECK(same_bits(a.y, b.y));
    CHECK(numbers(a).gradients == numbers(b).gradients);
  };
  same(std::get<0>(one), std::get<0>(two));
  same(std::get<1>(one), std::get<1>(two));
}

TEST_CASE("lstm and gru add to gradients that are there already") {
  operands<2, 3, 5> x;
  const auto dy = normal<float, gr::shape<2, 3, 5>>(x.at.ctx);
  const auto check_doubled = [&](const auto& f, const auto&... xs) {
    const auto once = numbers(evaluate(x.at.ctx, f, dy, xs...));
    const auto twice = numbers(evaluate(
        x.at.ctx, [&](const auto&... v) { return f(v...) + f(v...); }, dy, xs...));
    for (std::size_t i = 0; i < once.gradients.size(); ++i) {
      values doubled = once.gradients[i];
      for (double& v : doubled) v *= 2;
      CHECK(worst_error(twice.gradients[i], doubled) < 1e-5);
    }
  };
  check_doubled(y_of_lstm, x.gates, x.w, x.h, x.h);
  check_doubled(y_of_gru, x.gates_of_gru, x.u, x.b, x.h);
}

TEST_CASE("lstm and gru whose weights are constants have the gradients of their gates") {
  operands<3, 4, 9> x;
  const auto dy = normal<float, gr::shape<3, 4, 9>>(x.at.ctx);
  const auto first = [](const auto& of) { return std::get<0>(of.gradients); };
  const auto zeros = gr::zeros<float, gr::shape<3, 9>>(x.at.ctx);
  CHECK(same_bits(first(evaluate(
                      x.at.ctx, [&](auto gates) { return gr::lstm(gates, x.w); }, dy, x.gates)),
                  first(evaluate(x.at.ctx, y_of_lstm, dy, x.gates, x.w, zeros, zeros))));
  CHECK(same_bits(first(evaluate(
                      x.at.ctx, [&](auto gates) { return gr::gru(gates, x.u, x.b); }, dy, x.gates_of_gru)),
                  first(evaluate(x.at.ctx, y_of_gru, dy, x.gates_of_gru, x.u, x.b, zeros))));
}

TEST_CASE("a step of lstm keeps the activated gates in the memory of the gates, and the cells") {
  operands<8, 6, 16> x;
  gr::tape tape{x.at.ctx};
  auto gates = tape.variable(x.gates) * 2.0f;
  const auto before = x.at.stats.all().live;
  {
    const auto y = gr::lstm(std::move(gates), tape.variable(x.w));
    const std::size_t states = 8 * 6 * 16 * sizeof(float);
    CHECK(x.at.stats.all().live - before == 2 * states);  // y and c
  }
}

TEST_CASE("lstm and gru in a checkpoint region have the bits of the plain ones") {
  operands<3, 4, 9> x;
  const auto dy = normal<float, gr::shape<3, 4, 9>>(x.at.ctx);
  const auto check_region = [&](const auto& f, const auto&... xs) {
    const auto plain = numbers(evaluate(x.at.ctx, f, dy, xs...));
    const auto region = numbers(evaluate(
        x.at.ctx, [&](const auto&... v) { return gr::checkpoint(gr::save_none{}, f, v...); }, dy, xs...));
    CHECK(plain.y == region.y);
    CHECK(plain.gradients == region.gradients);
    const auto kept = numbers(evaluate(
        x.at.ctx, [&](const auto&... v) { return gr::checkpoint(gr::save_all{}, f, v...); }, dy, xs...));
    CHECK(plain.gradients == kept.gradients);
    using only = gr::save_only<gr::op::recurrent>;
    const auto listed = numbers(evaluate(
        x.at.ctx, [&](const auto&... v) { return gr::checkpoint(only{}, f, v...); }, dy, xs...));
    CHECK(plain.gradients == listed.gradients);
  };
  check_region([](auto g, auto w, auto h, auto c) { return std::get<0>(gr::lstm(g * 2.0f, w, h, c)) * 2.0f; }, x.gates,
               x.w, x.h, x.h);
  check_region([](auto g, auto w, auto b, auto h) { return std::get<0>(gr::gru(g * 2.0f, w, b, h)) * 2.0f; },
               x.gates_of_gru, x.u, x.b, x.h);
}

TEST_CASE("lengths that do not fit are an error") {
  operands<3, 4, 5> x;
  const auto message = [&](const auto& lengths) {
    return message_of([&] { gr::lstm(x.gates, x.w, {.lengths = lengths}); });
  };
  CHECK(message(gr::from_values<std::int32_t, gr::shape<3>>(x.at.ctx, {1, 5, 2})) ==
        "lstm(gates, w, ..., options): lengths[1] is 5; it must be 0 to T = 4");
  CHECK(message(gr::from_values<std::int32_t, gr::shape<2>>(x.at.ctx, {1, 2})) ==
        "lstm(gates, w, ..., options): lengths is [2]; it must be [B] = [3]");
}
