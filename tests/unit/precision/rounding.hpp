// An operation on bf16 or f16 against its definition on the same values in double: outputs and gradients.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "../../support/operands.hpp"

namespace gradus_test {

// Half a unit in the last place, relative: what one rounding costs.
template <class T>
constexpr double rounding = std::is_same_v<T, gradus::bf16> ? 0x1p-8 : 0x1p-11;

// A tensor with the numbers that are given, rounded.
template <class T, class Shape>
gradus::tensor<T, Shape> holding(gradus::context<gradus::cpu>& ctx, const values& from) {
  gradus::tensor<T, Shape> x(ctx);
  put(from, std::span<T>(x.values()));
  return x;
}
template <class T>
values rounded(values x) {
  std::vector<T> to(x.size());
  put(x, std::span<T>(to));
  return numbers(to);
}
// An operand of type T; integers stay what they are.
template <class T, class X>
auto in(const X& x) {
  if constexpr (gradus::is_floating<typename X::value_type>)
    return holding<T, typename X::shape>(x.owner(), numbers(x));
  else return x;
}

// What an operation is defined to be: of the gradient dy of the output and the operands.
using definition = std::function<outcome(const values& dy, const std::vector<values>& xs)>;

// `roundings`: how many of them an element of the result goes through, about. They bound the error of the whole; a
// single element may have lost more, where large terms cancel.
inline void compare(const char* what, double within, const outcome& found, const outcome& wanted) {
  CAPTURE(std::string(what));
  const auto near = [&](const values& got, const values& right) {
    CHECK(error_in_norm(got, right) < within);
    CHECK(worst_error(got, right) < 8 * within);
  };
  near(found.y, wanted.y);
  for (std::size_t i = 0; i < found.gradients.size(); ++i) {
    CAPTURE(i);
    if (!found.gradients[i].empty()) near(found.gradients[i], wanted.gradients[i]);
  }
}

template <class T, class F, class... Xs>
void check(const char* what, double roundings, const F& f, const definition& wanted, const Xs&... xs) {
  workplace at;
  gradus::tape tape{at.ctx};
  const auto variable = [&](const auto& x) {
    if constexpr (gradus::is_floating<typename std::remove_cvref_t<decltype(x)>::value_type>) return tape.variable(x);
    else return x;
  };
  // The values are those that T has, so that only the operation's own errors are seen.
  const auto operands = std::make_tuple(in<T>(xs)...);
  const auto variables = std::apply([&](const auto&... x) { return std::make_tuple(variable(x)...); }, operands);
  const auto y = std::apply(f, variables);
  using Y = gradus::value_of_t<decltype(y)>;
  using shape = gradus::shape_of<decltype(y)>;
  auto dy = draw_normal(shape::size, 1, fresh_seed());
  for (double& v : dy) v += std::copysign(0.5, v);  // a tiny one would leave f16's range
  dy = rounded<T>(dy);
  outcome found{numbers(y.value()), {}};
  y.slot()->give(holding<Y, shape>(at.ctx, dy));
  tape.unwind();
  const auto gradient = [](const auto& v) {
    if constexpr (gradus::is_traced<std::remove_cvref_t<decltype(v)>>) return numbers(v.gradient());
    else return values{};
  };
  std::apply([&](const auto&... v) { (found.gradients.push_back(gradient(v)), ...); }, variables);
  const auto inputs = std::apply([](const auto&... x) { return std::vector<values>{numbers(x)...}; }, operands);
  compare(what, roundings * rounding<T>, found, wanted(dy, inputs));
}

}  // namespace gradus_test
