#pragma once
// Dropout: operation and gradient.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "../../autodiff/apply.hpp"
#include "../../core/config.hpp"
#include "../../core/cost.hpp"
#include "../../core/error.hpp"
#include "../../core/philox.hpp"
#include "../../core/shape_algebra.hpp"

namespace gradus {

namespace op::inline GRADUS_BUILD {

/// Sets each element to 0 with probability p and scales the others by 1/(1-p) (Srivastava et al. 2014). Drops element i
/// if its random bits, key.half(i), are below p * 2^16. Saves only the key: the gradient draws the same bits again.
struct dropout {
  double p;
  random_key key;

  static constexpr std::string_view name = "dropout";
  static constexpr save_rule saves = save_nothing();
  static constexpr flop_counts flops_per_element{1, 1};

  /// Drops elements whose random bits are below this.
  constexpr std::uint32_t threshold() const {
    return std::min(std::uint32_t{0xFFFF}, (static_cast<std::uint32_t>(p * 0x1p17) + 1) / 2);
  }
  /// The factor of the others, which preserves the mean.
  constexpr double scale() const { return 0x1p16 / (0x1p16 - threshold()); }

  template <class Call, class X>
  constexpr X forward(Call how, X x) const {
    return masked(how.owner(), std::move(x));
  }
  template <class Saved, class Y, class X>
  constexpr void backward(const Saved&, Y dy, const gradient_sink<X>& dx) const {
    auto& ctx = dy.owner();
    if (dx) dx.give(masked(ctx, std::move(dy)));
  }

 private:
  // In place if x has no other owner.
  template <class X>
  constexpr X masked(context<typename X::device>& ctx, X x) const {
    using on_device = kernel<dropout, typename X::device>;
    const auto* const from = std::as_const(x).data();
    if (x.unique()) {
      on_device::forward(ctx, key, threshold(), scale(), as_matrix(x.extents()), x.data(), from);
      return x;
    }
    X y(ctx, x.extents());
    on_device::forward(ctx, key, threshold(), scale(), as_matrix(x.extents()), y.data(), from);
    return y;
  }
};

}  // namespace op::inline GRADUS_BUILD

namespace detail {
[[noreturn]] inline void dropout_rejects(double p) {
  throw error("dropout(x, p): p is " + std::to_string(p) + "; it must be at least 0 and less than 1");
}
}  // namespace detail

/// On a traced value, sets elements to 0 with probability p and scales the others by 1/(1-p), with the recorder's next
/// key. Plain values (inference), and p = 0, pass unchanged. Throws gradus::error unless 0 <= p < 1.
template <operand X>
GRADUS_OF_BUILD constexpr auto dropout(X&& x, double p) {
  if (!(p >= 0 && p < 1)) detail::dropout_rejects(p);
  if constexpr (is_traced<std::remove_cvref_t<X>>) {
    using result = std::remove_cvref_t<X>;
    GRADUS_REQUIRE("dropout(x, p): x must have floating-point elements", is_floating<value_of_t<X>>)
    {
      if (p == 0) return result(std::forward<X>(x));
      const op::dropout drop{p, x.recorder().next_key()};
      return apply(drop, std::forward<X>(x));
    }
  } else {
    return tensor_of<X>(plain(std::forward<X>(x)));
  }
}

}  // namespace gradus
