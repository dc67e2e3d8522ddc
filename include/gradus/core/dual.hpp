#pragma once
// Forward-mode derivatives of elementwise functors: a value and its partial derivatives with respect to N operands.

#include <cstddef>
#include <limits>
#include <type_traits>

#include "config.hpp"
#include "functor_number.hpp"
#include "math.hpp"

namespace gradus {

/// A value of type V (scalar or pack) with N partial derivatives. A functor evaluated on duals yields its own gradient.
template <class V, int N>
struct dual : functor_number {
  V value;
  V partial[N];

  dual() = default;
  /// A constant: all partials are zero.
  template <class U>
    requires(std::is_arithmetic_v<U> || std::is_same_v<U, V>)
  GRADUS_HD explicit(detail::converts_when_asked<U> || std::is_same_v<U, V>) dual(U x) : value(V(x)) {
    for (int i = 0; i < N; ++i) partial[i] = V(0);
  }
  /// Operand number `operand`.
  GRADUS_HD dual(V x, int operand) : value(x) {
    for (int i = 0; i < N; ++i) partial[i] = V(i == operand ? 1 : 0);
  }
};

namespace detail {
/// slope * partial, but 0 if the partial is 0: a result that does not depend on an operand has derivative 0, even if
/// the slope is infinite or NaN. The test is optimized away for constant partials.
template <class V>
GRADUS_HD inline V contribution(V slope, V partial) {
  using math::select;
  return select(partial == V(0), V(0), slope * partial);
}
/// x limited to [-bound, bound].
template <class V>
GRADUS_HD inline V held(V x, int bound) {
  using math::select;
  return select(x > V(bound), V(bound), select(x < V(-bound), V(-bound), x));
}
/// f(x) with derivative `slope`: the chain rule.
template <class V, int N>
GRADUS_HD inline dual<V, N> chain(V value, const dual<V, N>& x, V slope) {
  dual<V, N> r;
  r.value = value;
  for (int i = 0; i < N; ++i) r.partial[i] = contribution(slope, x.partial[i]);
  return r;
}
template <class V, int N>
GRADUS_HD inline dual<V, N> chain(V value, const dual<V, N>& x, V dx, const dual<V, N>& y, V dy) {
  dual<V, N> r;
  r.value = value;
  for (int i = 0; i < N; ++i) r.partial[i] = contribution(dx, x.partial[i]) + contribution(dy, y.partial[i]);
  return r;
}
}  // namespace detail

/// Sums, products, quotients and signs, by the rules of differentiation.
template <class V, int N>
GRADUS_HD inline dual<V, N> operator+(const dual<V, N>& a, const dual<V, N>& b) {
  dual<V, N> r;
  r.value = a.value + b.value;
  for (int i = 0; i < N; ++i) r.partial[i] = a.partial[i] + b.partial[i];
  return r;
}
template <class V, int N>
GRADUS_HD inline dual<V, N> operator-(const dual<V, N>& a, const dual<V, N>& b) {
  dual<V, N> r;
  r.value = a.value - b.value;
  for (int i = 0; i < N; ++i) r.partial[i] = a.partial[i] - b.partial[i];
  return r;
}
template <class V, int N>
GRADUS_HD inline dual<V, N> operator*(const dual<V, N>& a, const dual<V, N>& b) {
  return detail::chain(a.value * b.value, a, b.value, b, a.value);
}
template <class V, int N>
GRADUS_HD inline dual<V, N> operator/(const dual<V, N>& a, const dual<V, N>& b) {
  const V q = a.value / b.value;
  return detail::chain(q, a, V(1) / b.value, b, -(q / b.value));  // 1/b^2 could overflow although the quotients do not
}
template <class V, int N>
GRADUS_HD inline dual<V, N> operator-(const dual<V, N>& a) {
  return detail::chain(-a.value, a, V(-1));
}

/// Comparisons compare values.
template <class V, int N>
GRADUS_HD inline auto operator<(const dual<V, N>& a, const dual<V, N>& b) {
  return a.value < b.value;
}
template <class V, int N>
GRADUS_HD inline auto operator>(const dual<V, N>& a, const dual<V, N>& b) {
  return a.value > b.value;
}
template <class V, int N>
GRADUS_HD inline auto operator<=(const dual<V, N>& a, const dual<V, N>& b) {
  return a.value <= b.value;
}
template <class V, int N>
GRADUS_HD inline auto operator>=(const dual<V, N>& a, const dual<V, N>& b) {
  return a.value >= b.value;
}
template <class V, int N>
GRADUS_HD inline auto operator==(const dual<V, N>& a, const dual<V, N>& b) {
  return a.value == b.value;
}
template <class V, int N>
GRADUS_HD inline auto operator!=(const dual<V, N>& a, const dual<V, N>& b) {
  return a.value != b.value;
}

/// `a` where the condition holds, else `b`, with its partial derivatives.
template <class M, class V, int N>
GRADUS_HD inline dual<V, N> select(M condition, const dual<V, N>& a, const dual<V, N>& b) {
  using math::select;
  dual<V, N> r;
  r.value = select(condition, a.value, b.value);
  for (int i = 0; i < N; ++i) r.partial[i] = select(condition, a.partial[i], b.partial[i]);
  return r;
}
/// exp, log, sqrt, tanh and erf, by the chain rule.
template <class V, int N>
GRADUS_HD inline dual<V, N> exp(const dual<V, N>& x) {
  using math::exp;
  const V e = exp(x.value);
  return detail::chain(e, x, e);
}
template <class V, int N>
GRADUS_HD inline dual<V, N> log(const dual<V, N>& x) {
  using math::log;
  return detail::chain(log(x.value), x, V(1) / x.value);
}
template <class V, int N>
GRADUS_HD inline dual<V, N> sqrt(const dual<V, N>& x) {
  using math::sqrt;
  const V s = sqrt(x.value);
  return detail::chain(s, x, V(0.5) / s);
}
template <class V, int N>
GRADUS_HD inline dual<V, N> tanh(const dual<V, N>& x) {
  using math::tanh;
  const V t = tanh(x.value);
  return detail::chain(t, x, V(1) - t * t);
}
template <class V, int N>
GRADUS_HD inline dual<V, N> erf(const dual<V, N>& x) {
  using math::erf;
  using math::exp;
  return detail::chain(erf(x.value), x, V(1.12837916709551257390) * exp(-(x.value * x.value)));
}
/// |x|; the derivative at 0 is 0.
template <class V, int N>
GRADUS_HD inline dual<V, N> abs(const dual<V, N>& x) {
  using math::abs;
  using math::select;
  return detail::chain(abs(x.value), x, select(x.value > V(0), V(1), select(x.value < V(0), V(-1), V(0))));
}
/// sin, cos, log1p, expm1 and softplus, by the chain rule.
template <class V, int N>
GRADUS_HD inline dual<V, N> sin(const dual<V, N>& x) {
  using math::cos;
  using math::sin;
  return detail::chain(sin(x.value), x, cos(x.value));
}
template <class V, int N>
GRADUS_HD inline dual<V, N> cos(const dual<V, N>& x) {
  using math::cos;
  using math::sin;
  return detail::chain(cos(x.value), x, -sin(x.value));
}
template <class V, int N>
GRADUS_HD inline dual<V, N> log1p(const dual<V, N>& x) {
  using math::log1p;
  return detail::chain(log1p(x.value), x, V(1) / (V(1) + x.value));
}
template <class V, int N>
GRADUS_HD inline dual<V, N> expm1(const dual<V, N>& x) {
  using math::exp;
  using math::expm1;
  return detail::chain(expm1(x.value), x, exp(x.value));
}
template <class V, int N>
GRADUS_HD inline dual<V, N> softplus(const dual<V, N>& x) {
  using math::sigmoid;
  using math::softplus;
  return detail::chain(softplus(x.value), x, sigmoid(x.value));
}
/// The angle of the point (x, y). The derivatives are computed from y/h and x/h, where h is the longer side, and
/// divided by h: no square overflows. They are 0 at the origin, and where a coordinate is infinite.
template <class V, int N>
GRADUS_HD inline dual<V, N> atan2(const dual<V, N>& y, const dual<V, N>& x) {
  using math::abs;
  using math::atan2;
  using math::select;
  const V longer = select(abs(x.value) > abs(y.value), abs(x.value), abs(y.value));
  const V h = select(longer == V(0), V(1), longer);
  const V infinity(std::numeric_limits<float>::infinity());
  const V u = select(abs(x.value) == infinity, V(1), x.value / h);
  const V v = select(abs(y.value) == infinity, V(1), y.value / h);
  const V d = select(longer == V(0), V(1), (u * u + v * v) * h);  // infinite as h is
  return detail::chain(atan2(y.value, x.value), y, u / d, x, -(v / d));
}
/// Functions in steps: their derivative is 0, also at a step.
template <class V, int N>
GRADUS_HD inline dual<V, N> floor(const dual<V, N>& x) {
  using math::floor;
  return detail::chain(floor(x.value), x, V(0));
}
template <class V, int N>
GRADUS_HD inline dual<V, N> ceil(const dual<V, N>& x) {
  using math::ceil;
  return detail::chain(ceil(x.value), x, V(0));
}
template <class V, int N>
GRADUS_HD inline dual<V, N> round(const dual<V, N>& x) {
  using math::round;
  return detail::chain(round(x.value), x, V(0));
}
template <class V, int N>
GRADUS_HD inline dual<V, N> sign(const dual<V, N>& x) {
  using math::sign;
  return detail::chain(sign(x.value), x, V(0));
}
/// x^y. The derivative in y is 0 if x is 0, and the derivative of x^0 in x is 0.
template <class V, int N>
GRADUS_HD inline dual<V, N> pow(const dual<V, N>& x, const dual<V, N>& y) {
  using math::log;
  using math::pow;
  using math::select;
  const V p = pow(x.value, y.value);
  const V dx = select(y.value == V(0), V(0), y.value * pow(x.value, y.value - V(1)));
  const V dy = select(x.value > V(0), p * log(select(x.value > V(0), x.value, V(1))), V(0));
  return detail::chain(p, x, dx, y, dy);
}
/// sigmoid(x); the derivative e / (1 + e)^2, with e = e^-|x|, is accurate in both tails.
template <class V, int N>
GRADUS_HD inline dual<V, N> sigmoid(const dual<V, N>& x) {
  using math::abs;
  using math::exp;
  using math::select;
  const V e = exp(-abs(x.value));
  const V d = V(1) / (V(1) + e);
  return detail::chain(select(x.value < V(0), e * d, d), x, e * d * d);
}
/// x sigmoid(x), both forms of gelu, and the normal distribution; their derivatives are right at infinity, too.
template <class V, int N>
GRADUS_HD inline dual<V, N> silu(const dual<V, N>& x) {
  using math::silu;
  const dual<V, 1> at(detail::held(x.value, 800), 0);
  return detail::chain(silu(x.value), x, (at * sigmoid(at)).partial[0]);
}
template <class V, int N>
GRADUS_HD inline dual<V, N> gelu(const dual<V, N>& x) {
  using math::gelu;
  const dual<V, 1> at(detail::held(x.value, 40), 0);
  const dual<V, 1> v = at * (dual<V, 1>(1.59576912160573071176) + dual<V, 1>(0.07135481627260024878) * at * at);
  return detail::chain(gelu(x.value), x, (at * sigmoid(v)).partial[0]);
}
template <class V, int N>
GRADUS_HD inline dual<V, N> gelu_erf(const dual<V, N>& x) {
  using math::exp;
  using math::gelu_erf;
  using math::normal_cdf;
  const V at = detail::held(x.value, 40);
  const V density = V(0.39894228040143267794) * exp(V(-0.5) * at * at);
  return detail::chain(gelu_erf(x.value), x, normal_cdf(at) + at * density);
}
template <class V, int N>
GRADUS_HD inline dual<V, N> normal_cdf(const dual<V, N>& x) {
  using math::exp;
  using math::normal_cdf;
  return detail::chain(normal_cdf(x.value), x, V(0.39894228040143267794) * exp(V(-0.5) * x.value * x.value));
}

}  // namespace gradus
