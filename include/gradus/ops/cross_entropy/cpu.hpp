#pragma once
// The CPU kernels of cross_entropy.

#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>
#include <utility>

#include "../../core/config.hpp"
#include "../../core/error.hpp"
#include "../../cpu/rows.hpp"
#include "../../cpu/simd_math.hpp"
#include "cross_entropy.hpp"

namespace gradus {

namespace cpu_kit::inline GRADUS_BUILD {

/// The number of rows not ignored; throws, in the name of `call`, before anything is written.
template <class Id>
index_t counted_targets(const char* call, long long ignore, index_t vocabulary, const Id* targets, index_t rows) {
  index_t count = 0;
  for (index_t r = 0; r < rows; ++r) {
    if (std::cmp_equal(targets[r], ignore)) continue;
    if (std::cmp_less(targets[r], 0) || std::cmp_greater_equal(targets[r], vocabulary)) [[unlikely]]
      throw error(std::string(call) + ": target " + std::to_string(targets[r]) + " of row " + std::to_string(r) +
                  " is outside 0 .. " + std::to_string(vocabulary - 1) + " and is not the ignored " +
                  std::to_string(ignore));
    ++count;
  }
  return count;
}

/// The loss of one row of `n` logits; stores (softmax - onehot) * weight in `to`, which also holds the exponentials.
/// Reads the row from memory in the first pass, from the cache in the others.
template <class T, class C = compute_type<T>>
double cross_entropy_row(const T* x, index_t n, index_t target, T* to, C weight) {
  const C largest = largest_of<C>(x, n);
  const C at_target = static_cast<C>(x[target]);
  const pack<C> shift(largest);
  const C sum = sum_packs<C, 4>(n, [&](index_t i, auto which) {
    const pack<C> e = inside_or(falling_exp<T>(load<C>(x + i, which) - shift), C(0), which);
    if (to != nullptr) store(e, to + i, which);
    return e;
  });
  if (to != nullptr) {
    const pack<C> scale(weight / sum);
    const C right = static_cast<C>(to[target]) * (weight / sum) - weight;
    for_packs<C>(n, [&](index_t i, auto which) { store(load<C>(to + i, which) * scale, to + i, which); });
    to[target] = static_cast<T>(right);
  }
  return std::log(static_cast<double>(sum)) + (static_cast<double>(largest) - static_cast<double>(at_target));
}

/// Losses and gradients (times `kept`) of `rows` rows, for a mean over `count`. `gradient` may be null or the logits.
template <class T, class Id>
void cross_entropy_rows(context<cpu>& ctx, long long ignore, int kept, index_t count, T* gradient, double* row_losses,
                        const T* logits, const Id* targets, index_t rows, index_t columns, index_t vocabulary) {
  using C = compute_type<T>;
  for_rows(ctx, rows, columns, 8192, [=](index_t r) {
    T* to = gradient == nullptr ? nullptr : gradient + r * columns;
    if (std::cmp_equal(targets[r], ignore)) {
      row_losses[r] = 0;
      if (to != nullptr) std::fill_n(to, columns, T(0.0f));
    } else {
      row_losses[r] = cross_entropy_row(logits + r * columns, vocabulary, static_cast<index_t>(targets[r]), to,
                                        static_cast<C>(kept) / static_cast<C>(count));
      if (to != nullptr) std::fill_n(to + vocabulary, columns - vocabulary, T(0.0f));
    }
  });
}

/// The mean of the losses over `count` rows.
template <class C>
C mean_loss(const double* row_losses, index_t rows, index_t count) {
  double total = 0;
  for (index_t r = 0; r < rows; ++r) total += row_losses[r];
  const double result = count == 0 ? 0 : total / static_cast<double>(count);
  return static_cast<C>(static_cast<compute_type<C>>(result));
}

/// gradient *= dloss / kept; nothing if the quotient is 1.
template <class T, class C>
void scale_gradient(context<cpu>& ctx, T* gradient, index_t size, C dloss, int kept) {
  using A = compute_type<T>;
  const auto scale = static_cast<A>(static_cast<compute_type<C>>(dloss)) / static_cast<A>(kept);
  if (scale == A(1)) return;
  parallel_elements(ctx, size, 1 << 15, [=](index_t first, index_t last) {
    for_packs<A>(last - first, [&](index_t i, auto which) {
      T* at = gradient + first + i;
      store(load<A>(at, which) * pack<A>(scale), at, which);
    });
  });
}

}  // namespace cpu_kit::inline GRADUS_BUILD

template <index_t Vocabulary>
struct kernel<op::cross_entropy<Vocabulary>, cpu> {
  /// `gradient` may be null (not needed) or the logits themselves.
  template <class L, class T, class Id>
  static void forward(context<cpu>& ctx, long long ignore, matrix_extents of, L* loss, T* gradient, double* row_losses,
                      const T* logits, const Id* targets) {
    using namespace cpu_kit;
    const index_t count = counted_targets("cross_entropy(logits, targets)", ignore, Vocabulary, targets, of.rows);
    cross_entropy_rows(ctx, ignore, op::cross_entropy<Vocabulary>::template kept<T>::value, count, gradient, row_losses,
                       logits, targets, of.rows, of.columns, Vocabulary);
    *loss = mean_loss<L>(row_losses, of.rows, count);
  }
  template <class T, class L, int Kept>
  static void backward(context<cpu>& ctx, index_t size, T* gradient, const L* dloss,
                       std::integral_constant<int, Kept>) {
    cpu_kit::scale_gradient(ctx, gradient, size, *dloss, Kept);
  }
};

}  // namespace gradus
