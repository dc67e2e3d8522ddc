#pragma once
// The CPU kernels of pooling: plane by plane (an image of one channel), first over the rows of a window with SIMD, then
// over its columns.

#include <algorithm>
#include <limits>

#include "../../core/config.hpp"
#include "../../cpu/rows.hpp"
#include "../reduce/cpu.hpp"
#include "../reduce/cpu_extremes.hpp"
#include "pool.hpp"

namespace gradus {

namespace cpu_kit::inline GRADUS_BUILD {

/// Calls f(plane, memory) for all planes, with `bytes` of scratch.
template <class F>
void for_planes(context<cpu>& ctx, const pooled_planes& of, std::size_t bytes, const F& f) {
  const index_t together = std::max<index_t>(1, (index_t{1} << 14) / (of.rows.entries * of.columns.entries));
  parallel_tasks(ctx, (of.planes + together - 1) / together, bytes, [&](index_t task, void* memory) {
    for (index_t p = task * together; p < std::min(of.planes, (task + 1) * together); ++p) f(p, memory);
  });
}

/// The largest elements of the rows of a window by column, and the row of each, counted from the window's first.
template <class C>
struct column_extremes_of_window {
  using places = lane_extremes<C, true>;
  using place = typename pack<C>::integer;
  static constexpr std::size_t bytes = sizeof(C) + sizeof(place);
  C* value;
  place* at;

  /// Reduces `count` rows of n columns, `first` being the number of the first one in its window.
  template <class T>
  void find(const T* from, index_t n, index_t first, index_t count) const {
    for_packs<C>(n, [&](index_t i, auto which) {
      const auto number = [&](index_t k) { return typename places::places{} + static_cast<place>(first + k); };
      places best{load<C>(from + i, which), number(0)};
      for (index_t k = 1; k < count; ++k) best.offer(load<C>(from + k * n + i, which), number(k));
      store(best.value, value + i, which);
      store(pack<place>(best.at), at + i, which);
    });
  }
  /// Replaces each of n columns by the best of it and the size - 1 after it, `at` by its place in a window of such
  /// rows. Of equal ones, the first counts, row by row.
  void join(index_t n, index_t size) const {
    for (index_t i = 0; i < n; i += lanes<C>) {
      const auto candidate = [&](index_t k) {
        const auto row = pack<place>::load(at + i + k).v;
        return places{pack<C>::load(value + i + k), row * static_cast<place>(size) + static_cast<place>(k)};
      };
      places best = candidate(0);
      for (index_t k = 1; k < size; ++k) best.merge(candidate(k));
      best.value.store(value + i);
      pack<place>(best.at).store(at + i);
    }
  }
};

}  // namespace cpu_kit::inline GRADUS_BUILD

template <>
struct kernel<op::max_pool<>, cpu> {
  /// The largest elements of windows and their places in them, row by row. `places` may be null.
  template <class T, class P>
  static void forward(context<cpu>& ctx, const pooled_planes& of, T* y, P* places, const T* x) {
    using namespace cpu_kit;
    const pool_windows rows = of.rows, columns = of.columns;
    using C = compute_type<T>;
    using extremes = column_extremes_of_window<C>;
    using place = typename extremes::place;
    const index_t n = columns.entries, before = columns.adaptive ? 0 : columns.padding;
    const index_t room = n + 2 * before + columns.size + lanes<C>;  // of columns, with those that whole packs touch
    for_planes(ctx, of, room * extremes::bytes, [=](index_t p, void* memory) {
      const extremes best{static_cast<C*>(memory), reinterpret_cast<place*>(static_cast<C*>(memory) + room)};
      const auto put = [&](index_t output, index_t i, index_t at) {
        y[output] = static_cast<T>(best.value[i]);
        if (places != nullptr) places[output] = static_cast<P>(at);
      };
      for (index_t r = 0; r < rows.outputs; ++r) {
        const index_t first = rows.begin(r), count = rows.end(r) - first;
        std::fill_n(best.value, room, -std::numeric_limits<C>::infinity());
        std::fill_n(best.at, room,
                    std::numeric_limits<place>::max() / static_cast<place>(2 * columns.size));  // the last
        const extremes inside{best.value + before, best.at + before};
        inside.find(x + (p * rows.entries + first) * n, n, rows.number_of(first, r), count);
        const index_t output = (p * rows.outputs + r) * columns.outputs;
        if (columns.adaptive) {
          for (index_t c = 0; c < columns.outputs; ++c) {
            const index_t begin = columns.begin(c);
            index_t at = begin;
            for (index_t i = begin + 1; i < columns.end(c); ++i) {
              const bool larger = better<true>(best.value[i], best.value[at]);
              const bool smaller = better<true>(best.value[at], best.value[i]);
              if (larger || (!smaller && best.at[i] < best.at[at])) at = i;
            }
            put(output + c, at, static_cast<index_t>(best.at[at]) * columns.size + at - begin);
          }
        } else {
          best.join((columns.outputs - 1) * columns.stride + 1, columns.size);
          for (index_t c = 0; c < columns.outputs; ++c)
            put(output + c, c * columns.stride, static_cast<index_t>(best.at[c * columns.stride]));
        }
      }
    });
  }
  /// dx (+)= dy at the places of the largest elements, summed in a plane of scratch.
  template <class T, class TY, class P>
  static void backward(context<cpu>& ctx, const pooled_planes& of, T* dx, bool accumulate, const TY* dy,
                       const P* places) {
    using namespace cpu_kit;
    const pool_windows rows = of.rows, columns = of.columns;
    using C = compute_type<T>;
    const index_t n = columns.entries, plane = rows.entries * n, window = rows.size * columns.size;
    for_planes(ctx, of, window * sizeof(index_t) + plane * sizeof(C), [=](index_t p, void* memory) {
      index_t* const from_first = static_cast<index_t*>(memory);  // of a window's elements, to the window's first
      C* const sum = reinterpret_cast<C*>(from_first + window);
      for (index_t i = 0; i < rows.size; ++i)
        for (index_t j = 0; j < columns.size; ++j) from_first[i * columns.size + j] = i * n + j;
      std::fill_n(sum, plane, C(0));
      index_t output = p * rows.outputs * columns.outputs;
      for (index_t r = 0; r < rows.outputs; ++r)
        for (index_t c = 0; c < columns.outputs; ++c, ++output) {
          const index_t first = rows.entry_of(0, r) * n + columns.entry_of(0, c);  // of padding: below 0, which wraps
          sum[first + from_first[static_cast<index_t>(places[output])]] += static_cast<C>(dy[output]);
        }
      T* const to = dx + p * plane;
      for_packs<C>(plane, [&](index_t i, auto which) { put(load<C>(sum + i, which), to + i, accumulate, which); });
    });
  }
};

template <>
struct kernel<op::avg_pool<>, cpu> {
  template <class T>
  static void forward(context<cpu>& ctx, const pooled_planes& of, T* y, const T* x) {
    using namespace cpu_kit;
    const pool_windows rows = of.rows, columns = of.columns;
    using C = compute_type<T>;
    const index_t n = columns.entries;
    for_planes(ctx, of, n * sizeof(C), [=](index_t p, void* memory) {
      C* const sum = static_cast<C*>(memory);
      for (index_t r = 0; r < rows.outputs; ++r) {
        const index_t first = rows.begin(r), count = rows.end(r) - first;
        const T* const from = x + (p * rows.entries + first) * n;
        for_packs<C>(n, [&](index_t i, auto which) {
          pack<C> of_column = load<C>(from + i, which);
          for (index_t k = 1; k < count; ++k) of_column = of_column + load<C>(from + k * n + i, which);
          store(of_column, sum + i, which);
        });
        for (index_t c = 0; c < columns.outputs; ++c) {
          C total = 0;
          for (index_t i = columns.begin(c); i < columns.end(c); ++i) total += sum[i];
          y[(p * rows.outputs + r) * columns.outputs + c] =
              static_cast<T>(total / static_cast<C>(rows.divisor(r) * columns.divisor(c)));
        }
      }
    });
  }
  /// Each row of dx is summed from the rows of windows that have it, and rounded once.
  template <class T, class TY>
  static void backward(context<cpu>& ctx, const pooled_planes& of, T* dx, bool accumulate, const TY* dy) {
    using namespace cpu_kit;
    const pool_windows rows = of.rows, columns = of.columns;
    using C = compute_type<T>;
    const index_t n = columns.entries;
    for_planes(ctx, of, (n + columns.outputs) * sizeof(C), [=](index_t p, void* memory) {
      C *const sum = static_cast<C*>(memory), *const share = sum + n;
      for (index_t row = 0; row < rows.entries; ++row) {
        std::fill_n(sum, n + columns.outputs, C(0));
        for (index_t r = rows.first_with(row); r < rows.end_with(row); ++r) {
          const TY* const from = dy + (p * rows.outputs + r) * columns.outputs;
          const pack<C> height(static_cast<C>(rows.divisor(r)));
          for_packs<C>(columns.outputs,
                       [&](index_t c, auto which) { put(load<C>(from + c, which) / height, share + c, true, which); });
        }
        for (index_t c = 0; c < columns.outputs; ++c) {
          const C one = share[c] / static_cast<C>(columns.divisor(c));
          for (index_t i = columns.begin(c); i < columns.end(c); ++i) sum[i] += one;
        }
        T* const to = dx + (p * rows.entries + row) * n;
        for_packs<C>(n, [&](index_t i, auto which) { put(load<C>(sum + i, which), to + i, accumulate, which); });
      }
    });
  }
};

}  // namespace gradus
