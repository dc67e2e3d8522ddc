// bincount, sort_by_group, dispatch_rows and combine_rows against plain loops.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "../../support/message_of.hpp"
#include "../../support/operands.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {

using integer_list = std::vector<std::int32_t>;

struct plain_order {
  integer_list places, offsets, counts;
};
// By std::stable_sort: the entries that fit, then the others.
plain_order sorted(const integer_list& groups, std::size_t number, std::size_t capacity) {
  plain_order r{integer_list(groups.size()), {0}, integer_list(number)};
  std::vector<std::size_t> kept, dropped, order(groups.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return groups[a] < groups[b]; });
  for (const std::size_t i : order) {
    auto& count = r.counts[static_cast<std::size_t>(groups[i])];
    (static_cast<std::size_t>(count) < capacity ? kept : dropped).push_back(i);
    ++count;
  }
  for (const auto count : r.counts)
    r.offsets.push_back(r.offsets.back() +
                        static_cast<std::int32_t>(std::min(static_cast<std::size_t>(count), capacity)));
  kept.insert(kept.end(), dropped.begin(), dropped.end());
  for (std::size_t place = 0; place < kept.size(); ++place) r.places[kept[place]] = static_cast<std::int32_t>(place);
  return r;
}

template <class I, class S>
void check_order(int highest, gr::index_t capacity) {
  workplace at;
  const auto groups = integers<I, S>(at.ctx, 0, highest);
  const auto found = gr::sort_by_group<5>(groups, capacity);
  integer_list list;
  for (const I g : groups.values()) list.push_back(static_cast<std::int32_t>(g));
  const auto wanted = sorted(list, 5, capacity);
  CHECK(gr::to_host(found.places) == wanted.places);
  CHECK(numbers(found.offsets) == values(wanted.offsets.begin(), wanted.offsets.end()));
  CHECK(gr::to_host(found.counts) == wanted.counts);
  CHECK(gr::to_host(gr::bincount<5>(groups)) == wanted.counts);
}

outcome dispatched(const values& places, std::size_t columns, const values& x, const values& dy) {
  const std::size_t tokens = x.size() / columns, copies = places.size() / tokens;
  outcome r{values(dy.size()), {values(x.size())}};
  for (std::size_t i = 0; i < places.size(); ++i)
    for (std::size_t c = 0; c < columns; ++c) {
      const std::size_t to = static_cast<std::size_t>(places[i]) * columns + c, from = i / copies * columns + c;
      r.y[to] = x[from];
      r.gradients[0][from] += dy[to];
    }
  return r;
}
outcome combined(const values& places, std::size_t columns, const values& x, const values& weights, const values& dy) {
  outcome r{values(dy.size()), {values(x.size()), values(weights.size())}};
  const std::size_t copies = places.size() * columns / dy.size();
  for (std::size_t i = 0; i < places.size(); ++i)
    for (std::size_t c = 0; c < columns; ++c) {
      const std::size_t from = static_cast<std::size_t>(places[i]) * columns + c, to = i / copies * columns + c;
      r.y[to] += weights[i] * x[from];
      r.gradients[0][from] = weights[i] * dy[to];
      r.gradients[1][i] += dy[to] * x[from];
    }
  return r;
}

template <class T, class W, gr::index_t Tokens, gr::index_t Copies, gr::index_t Columns>
void check_rows(double near, int threads) {
  workplace at;
  const struct threads some(at.ctx, threads);
  const auto groups = integers<std::int32_t, gr::shape<Tokens, Copies>>(at.ctx, 0, 4);
  const auto places = gr::sort_by_group<5>(groups, 3).places;
  const auto x = normal<T, gr::shape<Tokens, Columns>>(at.ctx);
  const auto rows = normal<T, gr::shape<Tokens * Copies, Columns>>(at.ctx);
  const auto weights = normal<W, gr::shape<Tokens, Copies>>(at.ctx);

  const auto there = numbers(evaluate(
      at.ctx, [&](auto v) { return gr::dispatch_rows(v, places); }, rows, x));
  const auto wanted = dispatched(numbers(places), Columns, numbers(x), numbers(rows));
  CHECK(there.y == wanted.y);
  CHECK(worst_error(there.gradients[0], wanted.gradients[0]) < near);

  const auto back = numbers(evaluate(
      at.ctx, [&](auto v, auto w) { return gr::combine_rows(v, w, places); }, x, rows, weights));
  const auto sums = combined(numbers(places), Columns, numbers(rows), numbers(weights), numbers(x));
  CHECK(worst_error(back.y, sums.y) < near);
  CHECK(worst_error(back.gradients[0], sums.gradients[0]) < near);
  CHECK(worst_error(back.gradients[1], sums.gradients[1]) < near);
}

}  // namespace

TEST_CASE("sort_by_group is a stable sort, with and without empty groups and a capacity") {
  check_order<std::int32_t, gr::shape<40, 2>>(4, 80);
  check_order<std::int32_t, gr::shape<40, 2>>(4, 13);
  check_order<std::int32_t, gr::shape<40, 2>>(4, std::numeric_limits<gr::index_t>::max());
  check_order<std::uint8_t, gr::shape<7>>(2, 3);
  check_order<std::int64_t, gr::shape<1>>(0, 1);
  check_order<std::int32_t, gr::shape<90, 1>>(3, 0);
}

TEST_CASE("a group out of range is an error that names it") {
  workplace at;
  const auto groups = gr::from_values<std::int32_t, gr::shape<3>>(at.ctx, {0, 5, 1});
  CHECK(message_of([&] { gr::sort_by_group<5>(groups); }) == "bincount: index 5 at position 1 is outside 0 .. 4");
}

TEST_CASE("dispatch_rows and combine_rows move, weight and add rows, and so do their gradients") {
  check_rows<float, float, 1, 1, 1>(1e-6, 1);
  check_rows<float, float, 37, 2, 19>(1e-5, 2);
  check_rows<float, float, 300, 3, 70>(1e-5, 3);
  check_rows<double, double, 9, 4, 5>(1e-14, 1);
  check_rows<gr::bf16, float, 20, 2, 35>(1.0 / 128, 2);
}

TEST_CASE("dispatch_rows and combine_rows of bounded rows move those that are there") {
  workplace at;
  using some = gr::shape<gr::upto<50>, 2>;
  const auto groups = integers<std::int32_t, gr::shape<6, 2>>(at.ctx, 0, 2);
  const auto bounded = gr::from_host<std::int32_t, some>(at.ctx, groups.data(), 6);
  const auto x = normal<float, gr::shape<6, 3>>(at.ctx);
  const auto w = normal<float, gr::shape<6, 2>>(at.ctx);
  const auto through = [&](const auto& v, const auto& by, const auto& g) {
    const auto places = gr::sort_by_group<3>(g).places;
    return numbers(gr::combine_rows(gr::dispatch_rows(v, places), by, places));
  };
  CHECK(through(gr::from_host<float, gr::shape<gr::upto<50>, 3>>(at.ctx, x.data(), 6),
                gr::from_host<float, some>(at.ctx, w.data(), 6), bounded) == through(x, w, groups));
}
