#pragma once
// Accurate sums: within blocks in the compute type, over blocks in double.

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "cpu_grid.hpp"

namespace gradus::cpu_kit::inline GRADUS_BUILD {

/// The type in which extreme values are compared: small integers widen.
template <class T>
using reduce_type =
    std::conditional_t<is_floating<T>, compute_type<T>, std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>>;
/// The type of sums within a block: 32 bits cannot overflow for integers of up to 16 bits; other integers wrap at 64.
template <class T>
using sum_type = std::conditional_t<is_floating<T>, compute_type<T>,
                                    std::conditional_t<sizeof(T) <= 2, std::int32_t, std::uint64_t>>;
/// The type of sums over blocks.
template <class C>
using wide_type = std::conditional_t<std::is_floating_point_v<C>, double, std::uint64_t>;

template <class W>
struct row_sum {
  W value = 0;
  void merge(const row_sum& o) { value += o.value; }
};
template <class W>
struct column_sums {
  W value[reduction_grid::block];
  index_t width;
  void begin(const void*, index_t, index_t n) {
    width = n;
    std::fill_n(value, n, W(0));
  }
  void merge(const column_sums& o) {
    for (index_t i = 0; i < width; ++i) value[i] += o.value[i];
  }
};

/// The terms of a sum that are the elements.
template <class C>
struct elements {
  GRADUS_INLINE pack<C> of_row(pack<C> x, index_t) const { return x; }
  GRADUS_INLINE pack<C> of_columns(pack<C> x, index_t, auto) const { return x; }
};
/// The terms of a sum that are squares of the elements' differences from the middles, one value per output.
template <class C>
struct squared_distances {
  const C* middles;
  GRADUS_INLINE pack<C> of_row(pack<C> x, index_t output) const {
    const pack<C> d = x - pack<C>(middles[output]);
    return d * d;
  }
  GRADUS_INLINE pack<C> of_columns(pack<C> x, index_t output, auto which) const {
    const pack<C> d = x - load<C>(middles + output, which);
    return d * d;
  }
};

/// The sum of term(x) over a run short enough for type C.
template <class C, class T, class Term>
GRADUS_INLINE wide_type<C> sum_run(const T* from, index_t n, const Term& term) {
  using W = wide_type<C>;
  pack<C> a(0), b(0), c(0), d(0);  // four independent sums hide the latency
  index_t i = 0;
  for (; i + 4 * lanes<C> <= n; i += 4 * lanes<C>) {
    a = a + term(pack<C>::load(from + i));
    b = b + term(pack<C>::load(from + i + lanes<C>));
    c = c + term(pack<C>::load(from + i + 2 * lanes<C>));
    d = d + term(pack<C>::load(from + i + 3 * lanes<C>));
  }
  for (; i + lanes<C> <= n; i += lanes<C>) a = a + term(pack<C>::load(from + i));
  W total = n >= lanes<C> ? static_cast<W>(sum_lanes((a + b) + (c + d))) : W(0);
  if (i < n) {
    C rest[lanes<C>];
    term(pack<C>::load(from + i, n - i)).store(rest);
    for (index_t k = 0; k < n - i; ++k) total += static_cast<W>(rest[k]);
  }
  return total;
}

/// Calls finish(output, sum of its terms) for every output.
template <class C, class T, class Terms, class Finish>
void sum_terms(context<cpu>& ctx, const reduction_grid& grid, const T* x, const Terms& terms, const Finish& finish) {
  using W = wide_type<C>;
  if (std::is_same_v<Terms, elements<C>> && grid.inner_reduced && grid.steps == 1 && grid.inner < lanes<C>) {
    for_rows(ctx, grid.outputs, grid.inner, 1 << 14, [=, n = grid.inner](index_t row) {
      W sum(0);
      for (index_t i = 0; i < n; ++i) sum += static_cast<W>(static_cast<C>(x[row * n + i]));
      finish(row, sum);
    });
  } else if (grid.inner_reduced) {
    const auto take = [=](row_sum<W>& sum, index_t output, const T* from, index_t n, index_t) {
      // Sixteen additions in C, then in W: the same number for narrow and wide registers.
      constexpr index_t run = 64 * lanes<C>;
      const auto term = [&](pack<C> v) { return terms.of_row(v, output); };
      for (index_t i = 0; i < n; i += run) sum.value += sum_run<C>(from + i, std::min(run, n - i), term);
    };
    reduce_rows<row_sum<W>>(ctx, grid, x, take, [&](index_t o, const row_sum<W>& sum) { finish(o, sum.value); });
  } else {
    const auto take = [=](column_sums<W>& sums, const reduced_rows<T>& first, index_t count, index_t column,
                          index_t width, index_t output) {
      for_strips<C>(
          width, [&]<index_t P>(std::integral_constant<index_t, P>, index_t c,
                                auto which) __attribute__((always_inline)) {
            const index_t ahead = 16 * first.walk.step_stride;
            pack<C> part[P];
            unrolled<P>([&](index_t p) __attribute__((always_inline)) { part[p] = pack<C>(0); });
            first.for_next(
                count, [&](const T* row, index_t) __attribute__((always_inline)) {
                  unrolled<P>([&](index_t p) __attribute__((always_inline)) {
                    const T* const from = row + column + c + p * lanes<C>;
                    if constexpr (P > 1) __builtin_prefetch(from + ahead);  // hardware prefetchers miss runs this short
                    part[p] = part[p] + terms.of_columns(load<C>(from, which), output + c + p * lanes<C>, which);
                  });
                });
            C flat[P * lanes<C>];
            unrolled<P>([&](index_t p) __attribute__((always_inline)) { part[p].store(flat + p * lanes<C>); });
            for (index_t i = 0; i < std::min(P * lanes<C>, width - c); ++i)
              sums.value[c + i] += static_cast<W>(flat[i]);
          });
    };
    reduce_columns<column_sums<W>>(ctx, grid, x, take, [&](index_t o, const column_sums<W>& sums, index_t width) {
      for (index_t i = 0; i < width; ++i) finish(o + i, sums.value[i]);
    });
  }
}

/// to (+)= factor * the sums of `from`.
template <class T, class U>
void sum_into(context<cpu>& ctx, const reduction_grid& grid, T* to, const U* from, bool accumulate, double factor) {
  using C = sum_type<U>;
  using W = wide_type<C>;
  sum_terms<C>(ctx, grid, from, elements<C>{}, [=](index_t i, W sum) {
    if constexpr (std::is_floating_point_v<C>) {
      const W before = accumulate ? static_cast<W>(static_cast<reduce_type<T>>(to[i])) : W(0);
      to[i] = static_cast<T>(static_cast<reduce_type<T>>(before + sum * factor));
    } else {
      to[i] = static_cast<T>(sum);
    }
  });
}

/// The mean squared differences from the means, and the means.
template <class TY, class C, class T>
void variance_into(context<cpu>& ctx, const reduction_grid& grid, TY* y, C* mean, const T* x) {
  const double share = 1.0 / static_cast<double>(grid.count);
  sum_into(ctx, grid, mean, x, false, share);
  sum_terms<C>(ctx, grid, x, squared_distances<C>{mean},
               [=](index_t i, double sum) { y[i] = static_cast<TY>(static_cast<C>(sum * share)); });
}

}  // namespace gradus::cpu_kit::inline GRADUS_BUILD
