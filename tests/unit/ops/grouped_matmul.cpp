// grouped_matmul against a plain product for each group.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "../../support/message_of.hpp"
#include "../../support/operands.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {

using offsets = std::vector<std::int32_t>;

// The rows first .. last - 1 of a matrix of `columns`.
values rows_of(const values& x, std::size_t columns, std::size_t first, std::size_t last) {
  return {x.begin() + static_cast<std::ptrdiff_t>(first * columns),
          x.begin() + static_cast<std::ptrdiff_t>(last * columns)};
}
void put_rows(values& to, std::size_t at, const values& from) {
  std::copy(from.begin(), from.end(), to.begin() + static_cast<std::ptrdiff_t>(at));
}
outcome plain_groups(const offsets& at, std::size_t in, std::size_t out, const values& x, const values& w,
                     const values& dy) {
  outcome r{values(dy.size()), {values(x.size()), values(w.size())}};
  for (std::size_t g = 0; g + 1 < at.size(); ++g) {
    const auto first = static_cast<std::size_t>(at[g]), last = static_cast<std::size_t>(at[g + 1]);
    const auto own = reference::matmul({last - first, in, out}, 1, rows_of(x, in, first, last),
                                       rows_of(w, out, g * in, (g + 1) * in), rows_of(dy, out, first, last));
    put_rows(r.y, first * out, own.y);
    put_rows(r.gradients[0], first * in, own.gradients[0]);
    put_rows(r.gradients[1], g * in * out, own.gradients[1]);
  }
  return r;
}

template <class T, gr::index_t Rows, gr::index_t In, gr::index_t Out, std::size_t N>
void check(const std::int32_t (&at)[N], double near, int threads = 1) {
  CAPTURE(Rows);
  workplace here;
  const struct threads few(here.ctx, threads);
  const auto x = normal<T, gr::shape<Rows, In>>(here.ctx);
  const auto w = normal<T, gr::shape<N - 1, In, Out>>(here.ctx);
  const auto dy = normal<T, gr::shape<Rows, Out>>(here.ctx);
  const auto ends = gr::from_host<std::int32_t, gr::shape<N>>(here.ctx, at);
  const auto found = numbers(evaluate(
      here.ctx, [&](auto a, auto b) { return gr::grouped_matmul(a, b, ends); }, dy, x, w));
  const auto wanted = plain_groups({at, at + N}, In, Out, numbers(x), numbers(w), numbers(dy));
  CHECK(worst_error(found.y, wanted.y) < near);
  CHECK(worst_error(found.gradients[0], wanted.gradients[0]) < near);
  CHECK(worst_error(found.gradients[1], wanted.gradients[1]) < near);
}

}  // namespace

TEST_CASE("grouped_matmul is a product for each group, at odd sizes, with empty groups and rows outside of groups") {
  check<float, 1, 1, 1>({0, 1}, 1e-6);
  check<float, 23, 19, 5>({0, 7, 7, 20, 23}, 1e-5);
  check<float, 40, 17, 33>({2, 2, 2, 31}, 1e-5, 2);
  check<float, 700, 70, 65>({0, 0, 1, 300, 690, 690}, 1e-4, 3);
  check<double, 90, 33, 31>({3, 80, 81}, 1e-13, 2);
  check<float, 9, 8, 16>({0, 0, 0}, 1e-5);  // nothing to do
}

TEST_CASE("grouped_matmul in 16 bits sums in float and rounds once") {
  check<gr::bf16, 61, 34, 36>({0, 29, 30, 61}, 1.0 / 128);
  check<gr::f16, 61, 33, 35>({0, 29, 30, 60}, 1.0 / 1024);
}

TEST_CASE("grouped_matmul has the bits of matmul on each group, on one thread and on three") {
  workplace at;
  using X = gr::shape<900, 48>;
  using W = gr::shape<3, 48, 64>;
  using Y = gr::shape<900, 64>;
  const auto x = normal<float, X>(at.ctx);
  const auto w = normal<float, W>(at.ctx);
  const auto dy = normal<float, Y>(at.ctx);
  const auto ends = gr::from_values<std::int32_t, gr::shape<4>>(at.ctx, {0, 10, 400, 900});
  const auto run = [&](int n) {
    const struct threads some(at.ctx, n);
    return evaluate(
        at.ctx, [&](auto a, auto b) { return gr::grouped_matmul(a, b, ends); }, dy, x, w);
  };
  const auto one = run(1), three = run(3);
  CHECK(same_bits(one.y, three.y));
  CHECK(same_bits(std::get<0>(one.gradients), std::get<0>(three.gradients)));
  CHECK(same_bits(std::get<1>(one.gradients), std::get<1>(three.gradients)));
  const auto group = evaluate(
      at.ctx, [](auto a, auto b) { return gr::matmul(a, b); }, gr::slice<0, 400, 500>(dy), gr::slice<0, 400, 500>(x),
      gr::reshape<48, 64>(gr::slice<0, 2, 1>(w)));
  CHECK(same_bits(group.y, gr::slice<0, 400, 500>(one.y)));
  CHECK(same_bits(std::get<0>(group.gradients), gr::slice<0, 400, 500>(std::get<0>(one.gradients))));
  CHECK(same_bits(std::get<1>(group.gradients), gr::reshape<48, 64>(gr::slice<0, 2, 1>(std::get<1>(one.gradients)))));
}

TEST_CASE("gradients of grouped_matmul are added to those that are there") {
  workplace at;
  const auto x = normal<float, gr::shape<6, 3>>(at.ctx);
  const auto w = normal<float, gr::shape<2, 3, 4>>(at.ctx);
  const auto dy = normal<float, gr::shape<6, 4>>(at.ctx);
  const auto ends = gr::from_values<std::int64_t, gr::shape<3>>(at.ctx, {0, 4, 5});
  const auto once = evaluate(
      at.ctx, [&](auto a, auto b) { return gr::grouped_matmul(a, b, ends); }, dy, x, w);
  const auto twice = evaluate(
      at.ctx, [&](auto a, auto b) { return gr::grouped_matmul(a, b, ends) + gr::grouped_matmul(a, b, ends); }, dy, x,
      w);
  CHECK(worst_error(std::get<0>(twice.gradients), 2.0f * std::get<0>(once.gradients)) < 1e-6);
  CHECK(worst_error(std::get<1>(twice.gradients), 2.0f * std::get<1>(once.gradients)) < 1e-6);
}

TEST_CASE("grouped_matmul of a bounded matrix computes the rows that are there") {
  workplace at;
  const auto w = normal<float, gr::shape<2, 3, 4>>(at.ctx);
  const auto ends = gr::from_values<std::int32_t, gr::shape<3>>(at.ctx, {0, 4, 5});
  const auto x = normal<float, gr::shape<5, 3>>(at.ctx);
  const auto some = gr::from_host<float, gr::shape<gr::upto<20>, 3>>(at.ctx, x.data(), 5);
  CHECK(numbers(gr::grouped_matmul(some, w, ends)) == numbers(gr::grouped_matmul(x, w, ends)));
}

TEST_CASE("grouped_matmul rejects offsets that descend or exceed the rows, in one line") {
  workplace at;
  const auto x = normal<float, gr::shape<6, 3>>(at.ctx);
  const auto w = normal<float, gr::shape<2, 3, 4>>(at.ctx);
  for (const auto& bad : {std::array{0, 4, 7}, std::array{0, 4, 3}, std::array{-1, 4, 6}}) {
    const auto ends = gr::from_host<std::int32_t, gr::shape<3>>(at.ctx, bad.data());
    CHECK(message_of([&] { gr::grouped_matmul(x, w, ends); }) ==
          "grouped_matmul(x, w, offsets): offsets must ascend, from 0 or more to at most the rows of x");
  }
}
