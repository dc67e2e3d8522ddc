#pragma once
// The number types of functors in map(), packs and duals: how they mix with plain numbers, and the errors of misuse.

#include <type_traits>

#include "config.hpp"
#include "math.hpp"

namespace gradus {

/// The base of packs and duals. Declares unsupported conversions, so the compiler prints one message, from map().
struct functor_number {
  /// Rejects std::exp(x).
  template <class Double = double>
    requires std::is_same_v<Double, double>
  GRADUS_HD constexpr operator Double() const {
    static_assert(
        !std::is_same_v<Double, double>,
        "map(f, x...): x holds several elements, and goes into no function of one number: in place of std::exp(x) "
        "write `using gradus::math::exp;` and exp(x)");
    return {};
  }
};
/// The base of the results of comparisons: true or false for each element.
struct functor_condition {
  /// Rejects `c ? a : b`.
  template <class To = bool>
    requires std::is_same_v<To, bool>
  GRADUS_HD constexpr explicit operator To() const {
    static_assert(!std::is_same_v<To, bool>,
                  "map(f, x...): x holds several elements, and a condition on it has several answers: in place of "
                  "c ? a : b, if (c) and std::max write `using gradus::math::select;` and select(c, a, b)");
    return {};
  }
};

namespace detail {
template <class X>
concept functor_numbers = std::is_base_of_v<functor_number, X>;
template <class C>
concept plain_number = std::is_arithmetic_v<C>;
// Plain numbers convert to packs and duals implicitly, except double: `c ? x : 0.0` would be ambiguous.
template <class C>
inline constexpr bool converts_when_asked = std::is_same_v<C, double>;
}  // namespace detail

// clang-format off
/// Arithmetic and comparisons with plain numbers, which are constants: `x * x + 1`, `x > 0`, `select(x > 0, x, 0.1 *
/// x)`.
template <detail::functor_numbers X, detail::plain_number C>
GRADUS_HD GRADUS_INLINE X operator+(const X& x, C c) { return x + X(c); }
template <detail::functor_numbers X, detail::plain_number C>
GRADUS_HD GRADUS_INLINE X operator+(C c, const X& x) { return X(c) + x; }
template <detail::functor_numbers X, detail::plain_number C>
GRADUS_HD GRADUS_INLINE X operator-(const X& x, C c) { return x - X(c); }
template <detail::functor_numbers X, detail::plain_number C>
GRADUS_HD GRADUS_INLINE X operator-(C c, const X& x) { return X(c) - x; }
template <detail::functor_numbers X, detail::plain_number C>
GRADUS_HD GRADUS_INLINE X operator*(const X& x, C c) { return x * X(c); }
template <detail::functor_numbers X, detail::plain_number C>
GRADUS_HD GRADUS_INLINE X operator*(C c, const X& x) { return X(c) * x; }
template <detail::functor_numbers X, detail::plain_number C>
GRADUS_HD GRADUS_INLINE X operator/(const X& x, C c) { return x / X(c); }
template <detail::functor_numbers X, detail::plain_number C>
GRADUS_HD GRADUS_INLINE X operator/(C c, const X& x) { return X(c) / x; }
template <detail::functor_numbers X, detail::plain_number C>
GRADUS_HD GRADUS_INLINE auto operator<(const X& x, C c) { return x < X(c); }
template <detail::functor_numbers X, detail::plain_number C>
GRADUS_HD GRADUS_INLINE auto operator<(C c, const X& x) { return X(c) < x; }
template <detail::functor_numbers X, detail::plain_number C>
GRADUS_HD GRADUS_INLINE auto operator>(const X& x, C c) { return x > X(c); }
template <detail::functor_numbers X, detail::plain_number C>
GRADUS_HD GRADUS_INLINE auto operator>(C c, const X& x) { return X(c) > x; }
template <detail::functor_numbers X, detail::plain_number C>
GRADUS_HD GRADUS_INLINE auto operator<=(const X& x, C c) { return x <= X(c); }
template <detail::functor_numbers X, detail::plain_number C>
GRADUS_HD GRADUS_INLINE auto operator<=(C c, const X& x) { return X(c) <= x; }
template <detail::functor_numbers X, detail::plain_number C>
GRADUS_HD GRADUS_INLINE auto operator>=(const X& x, C c) { return x >= X(c); }
template <detail::functor_numbers X, detail::plain_number C>
GRADUS_HD GRADUS_INLINE auto operator>=(C c, const X& x) { return X(c) >= x; }
template <detail::functor_numbers X, detail::plain_number C>
GRADUS_HD GRADUS_INLINE auto operator==(const X& x, C c) { return x == X(c); }
template <detail::functor_numbers X, detail::plain_number C>
GRADUS_HD GRADUS_INLINE auto operator!=(const X& x, C c) { return x != X(c); }
template <detail::functor_numbers X, detail::plain_number C>
GRADUS_HD GRADUS_INLINE auto operator==(C c, const X& x) { return X(c) == x; }
template <detail::functor_numbers X, detail::plain_number C>
GRADUS_HD GRADUS_INLINE auto operator!=(C c, const X& x) { return X(c) != x; }
template <class M, detail::functor_numbers X, detail::plain_number C>
GRADUS_HD GRADUS_INLINE X select(M m, const X& x, C c) { return select(m, x, X(c)); }
template <class M, detail::functor_numbers X, detail::plain_number C>
GRADUS_HD GRADUS_INLINE X select(M m, C c, const X& x) { return select(m, X(c), x); }
template <detail::functor_numbers X, detail::plain_number C>
GRADUS_HD GRADUS_INLINE X pow(const X& x, C c) { return pow(x, X(c)); }
template <detail::functor_numbers X, detail::plain_number C>
GRADUS_HD GRADUS_INLINE X pow(C c, const X& x) { return pow(X(c), x); }
// clang-format on

namespace detail {
// Stands for a pack when map() checks a functor, so that errors point there, not into a kernel.
struct any_pack : functor_number {
  struct condition : functor_condition {
    constexpr condition operator!() const { return {}; }
    constexpr condition operator&&(condition) const { return {}; }
    constexpr condition operator||(condition) const { return {}; }
  };
  any_pack() = default;
  template <plain_number C>
  constexpr explicit(converts_when_asked<C>) any_pack(C) {}

  // clang-format off
  friend constexpr any_pack operator+(any_pack, any_pack) { return {}; }
  friend constexpr any_pack operator-(any_pack, any_pack) { return {}; }
  friend constexpr any_pack operator*(any_pack, any_pack) { return {}; }
  friend constexpr any_pack operator/(any_pack, any_pack) { return {}; }
  friend constexpr any_pack operator-(any_pack) { return {}; }
  friend constexpr condition operator<(any_pack, any_pack) { return {}; }
  friend constexpr condition operator>(any_pack, any_pack) { return {}; }
  friend constexpr condition operator<=(any_pack, any_pack) { return {}; }
  friend constexpr condition operator>=(any_pack, any_pack) { return {}; }
  friend constexpr condition operator==(any_pack, any_pack) { return {}; }
  friend constexpr condition operator!=(any_pack, any_pack) { return {}; }
  friend constexpr any_pack select(condition, any_pack, any_pack) { return {}; }
  friend constexpr any_pack exp(any_pack) { return {}; }
  friend constexpr any_pack log(any_pack) { return {}; }
  friend constexpr any_pack sqrt(any_pack) { return {}; }
  friend constexpr any_pack tanh(any_pack) { return {}; }
  friend constexpr any_pack erf(any_pack) { return {}; }
  friend constexpr any_pack abs(any_pack) { return {}; }
  friend constexpr any_pack sin(any_pack) { return {}; }
  friend constexpr any_pack cos(any_pack) { return {}; }
  friend constexpr any_pack atan2(any_pack, any_pack) { return {}; }
  friend constexpr any_pack log1p(any_pack) { return {}; }
  friend constexpr any_pack expm1(any_pack) { return {}; }
  friend constexpr any_pack softplus(any_pack) { return {}; }
  friend constexpr any_pack floor(any_pack) { return {}; }
  friend constexpr any_pack ceil(any_pack) { return {}; }
  friend constexpr any_pack round(any_pack) { return {}; }
  friend constexpr any_pack sign(any_pack) { return {}; }
  friend constexpr any_pack pow(any_pack, any_pack) { return {}; }
  friend constexpr any_pack sigmoid(any_pack) { return {}; }
  friend constexpr any_pack silu(any_pack) { return {}; }
  friend constexpr any_pack gelu(any_pack) { return {}; }
  friend constexpr any_pack gelu_erf(any_pack) { return {}; }
  friend constexpr any_pack normal_cdf(any_pack) { return {}; }
  // clang-format on
};
}  // namespace detail

}  // namespace gradus
