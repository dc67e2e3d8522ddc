// gradcheck as a test.
#pragma once

#include <doctest/doctest.h>

#include <gradus/testing/gradcheck.hpp>

#include "../support/operands.hpp"

namespace gradus_test {

template <class F, class... Xs>
void check_gradient(const char* what, const F& f, const Xs&... xs) {
  const auto r = gradus::gradcheck(f, xs...);
  CHECK_MESSAGE(r.ok, what, ": ", r.message);
}

/// Values in [low, high).
template <class Shape>
gradus::tensor<double, Shape> between(gradus::context<gradus::cpu>& ctx, double low, double high) {
  std::mt19937 engine(fresh_seed());
  std::uniform_real_distribution<double> draw(low, high);
  gradus::tensor<double, Shape> x(ctx);
  for (double& v : x.values()) v = draw(engine);
  return x;
}
/// Distinct values with gaps of 0.01 and none nearer than 0.005 to 0, in random order: nothing is near a kink.
template <class Shape>
gradus::tensor<double, Shape> apart(gradus::context<gradus::cpu>& ctx) {
  gradus::tensor<double, Shape> x(ctx);
  constexpr gradus::index_t below_zero = Shape::size / 2;
  double next = 0.005 - 0.01 * static_cast<double>(below_zero);
  for (double& v : x.values()) {
    v = next;
    next += 0.01;
  }
  std::shuffle(x.values().begin(), x.values().end(), std::mt19937(fresh_seed()));
  return x;
}

}  // namespace gradus_test
