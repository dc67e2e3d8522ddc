#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "../../core/config.hpp"
#include "../../core/error.hpp"
#include "../../cpu/parallel.hpp"
#include "../../cpu/simd_math.hpp"
#include "../../cpu/rows.hpp"
#include "cross_entropy.hpp"

namespace gradus {

template <index_t Vocabulary>
struct kernel<op::cross_entropy<Vocabulary>, cpu> {
  /// `gradient` may be null (not wanted) or the logits themselves.
  template <class C, class T, class X, class Rows, class I, class Targets>
  static void forward(context<cpu>& ctx, long long ignore, view<C, shape<>> loss, view<T, X> gradient,
                      view<double, Rows> row_losses, view<const T, X> logits, view<const I, Targets> targets) {
    const index_t count = counted("cross_entropy(logits, targets)", ignore, targets);
    rows<columns_of<X>, op::cross_entropy<Vocabulary>::template kept<T>::value>(
        ctx, ignore, count, rows_of<X>, gradient.data(), row_losses.data(), logits.data(), targets.data());
    *loss.data() = mean<C>(row_losses, count);
  }

  /// gradient *= dloss / kept; no pass at all when that is 1.
  template <class T, class X, class C, int Kept = 1>
  static void backward(context<cpu>& ctx, view<T, X> gradient, view<const C, shape<>> dloss,
                       std::integral_constant<int, Kept> = {}) {
    using A = compute_type<T>;
    const auto scale = static_cast<A>(static_cast<compute_type<C>>(*dloss.data())) / A(Kept);
    if (scale == A(1)) return;
    cpu_kit::parallel_elements(ctx, X::size, 1 << 15, [=](index_t first, index_t last) {
      cpu_kit::for_packs<A>(last - first, [&](index_t i, auto n) {
        T* at = gradient.data() + first + i;
        cpu_kit::store(cpu_kit::load<A>(at, n) * pack<A>(scale), at, n);
      });
    });
  }

  // The parts of forward, for losses that meet their logits a few rows at a time.

  /// Rows that count; throws, in the name of `call`, before anything is written.
  template <class I, class Targets>
  static index_t counted(const char* call, long long ignore, view<const I, Targets> targets) {
    index_t count = 0;
    for (index_t r = 0; r < Targets::size; ++r) {
      if (std::cmp_equal(targets[r], ignore)) continue;
      if (std::cmp_less(targets[r], 0) || std::cmp_greater_equal(targets[r], Vocabulary)) [[unlikely]]
        throw error(std::string(call) + ": target " + std::to_string(targets[r]) + " of row " + std::to_string(r) +
                    " is outside 0 .. " + std::to_string(Vocabulary - 1) + " and is not the ignored " +
                    std::to_string(ignore));
      ++count;
    }
    return count;
  }
  /// Losses and gradients (times Kept) of `n` rows, for the mean of `count` rows in all. `gradient` may be null (not
  /// wanted) or the logits themselves.
  template <index_t Columns, int Kept = 1, class T, class I>
  static void rows(context<cpu>& ctx, long long ignore, index_t count, index_t n, T* gradient, double* row_losses,
                   const T* logits, const I* targets) {
    using C = compute_type<T>;
    cpu_kit::parallel_elements(ctx, n, Columns >= 8192 ? 1 : 8192 / Columns, [=](index_t first, index_t last) {
      for (index_t r = first; r < last; ++r) {
        T* to = gradient == nullptr ? nullptr : gradient + r * Columns;
        if (std::cmp_equal(targets[r], ignore)) {
          row_losses[r] = 0;
          if (to != nullptr) std::fill_n(to, Columns, T(0.0f));
        } else {
          row_losses[r] =
              row(logits + r * Columns, static_cast<index_t>(targets[r]), to, C(Kept) / static_cast<C>(count));
          if (to != nullptr) std::fill_n(to + Vocabulary, Columns - Vocabulary, T(0.0f));
        }
      }
    });
  }
  template <class C, class Rows>
  static C mean(view<double, Rows> row_losses, index_t count) {
    double total = 0;
    for (const double loss : row_losses) total += loss;
    const double result = count == 0 ? 0 : total / static_cast<double>(count);
    return static_cast<C>(static_cast<compute_type<C>>(result));
  }

 private:
  static constexpr index_t unroll = 4;

  // Loss of one row; leaves (softmax - onehot) * weight in `to`, where the exponentials stand meanwhile. The row comes
  // from memory in the first pass and is in the cache for the others.
  template <class T, class C = compute_type<T>>
  static double row(const T* x, index_t target, T* to, C weight) {
    const C largest = row_max<C>(x);
    const C at_target = static_cast<C>(x[target]);
    const pack<C> shift(largest);
    std::array<pack<C>, unroll> sums;
    sums.fill(pack<C>(0));
    const auto step = [&](index_t i, pack<C>& sum, auto n) {
      const pack<C> e = cpu_kit::inside_or(falling_exp<T>(cpu_kit::load<C>(x + i, n) - shift), C(0), n);
      if (to != nullptr) cpu_kit::store(e, to + i, n);
      sum = sum + e;
    };
    each<C>(step, sums);
    const C sum = sum_lanes((sums[0] + sums[1]) + (sums[2] + sums[3]));
    if (to != nullptr) {
      const pack<C> scale(weight / sum);
      const C right = static_cast<C>(to[target]) * (weight / sum) - weight;
      cpu_kit::for_packs<C>(Vocabulary,
                            [&](index_t i, auto n) { cpu_kit::store(cpu_kit::load<C>(to + i, n) * scale, to + i, n); });
      to[target] = static_cast<T>(right);
    }
    return std::log(static_cast<double>(sum)) + (static_cast<double>(largest) - static_cast<double>(at_target));
  }

  template <class C, class T>
  static C row_max(const T* x) {
    constexpr C lowest = -std::numeric_limits<C>::infinity();
    std::array<pack<C>, unroll> best;
    best.fill(pack<C>(lowest));
    each<C>(
        [&](index_t i, pack<C>& b, auto n) {
          const pack<C> v = cpu_kit::inside_or(cpu_kit::load<C>(x + i, n), lowest, n);
          b = select(v > b, v, b);
        },
        best);
    for (index_t u = 1; u < unroll; ++u) best[0] = select(best[u] > best[0], best[u], best[0]);
    return max_lanes(best[0]);
  }

  // Runs step(i, one of several sums in turn, lanes) over the row: several, so that one addition need not wait for the
  // last.
  template <class C, class Step>
  static GRADUS_INLINE void each(const Step& step, std::array<pack<C>, unroll>& sums) {
    constexpr index_t stride = unroll * lanes<C>;
    index_t i = 0;
    for (; i + stride <= Vocabulary; i += stride) {
      step(i, sums[0], cpu_kit::all_lanes{});
      step(i + lanes<C>, sums[1], cpu_kit::all_lanes{});
      step(i + 2 * lanes<C>, sums[2], cpu_kit::all_lanes{});
      step(i + 3 * lanes<C>, sums[3], cpu_kit::all_lanes{});
    }
    cpu_kit::for_packs<C>(Vocabulary - i, [&](index_t k, auto n) { step(i + k, sums[0], n); });
  }
};

}  // namespace gradus
