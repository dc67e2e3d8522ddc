// Runs one recorded case of ops.safetensors: an operation's output and gradients against PyTorch's.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "../support/operands.hpp"
#include "fixture.hpp"

namespace gradus_test {

/// The file that has the array: one of those named below.
inline const fixture& recorded_ops(const std::string& name) {
  static const fixture ops(GRADUS_TEST_DATA "/parity/ops.safetensors");
  static const fixture functions(GRADUS_TEST_DATA "/parity/functions.safetensors");
  static const fixture indexing(GRADUS_TEST_DATA "/parity/indexing.safetensors");
  static const fixture convolutions(GRADUS_TEST_DATA "/parity/convolutions.safetensors");
  static const fixture images(GRADUS_TEST_DATA "/parity/images.safetensors");
  for (const fixture* file : {&functions, &indexing, &convolutions, &images})
    if (file->has(name)) return *file;
  return ops;
}

/// A recorded array as a tensor of T.
template <class T, class Shape>
gradus::tensor<T, Shape> recorded(gradus::context<gradus::cpu>& ctx, const std::string& name) {
  const auto elements = recorded_ops(name).values_as<T>(name);
  REQUIRE(elements.size() == Shape::size);
  return gradus::from_host<T, Shape>(ctx, elements.data());
}

template <class X>
void check_recorded(const X& found, const std::string& name) {
  using T = typename X::value_type;
  CAPTURE(name);
  CHECK(recorded_ops(name).shape(name) == std::vector<std::size_t>(X::shape::extents.begin(), X::shape::extents.end()));
  const double error = worst_error(found.values(), recorded_ops(name).values(name));
  CHECK(error < (std::is_same_v<T, double> ? gradus::testing::tolerances{}.f64 : gradus::testing::tolerances{}.f32));
}

/// An operand of a case: its name there and its shape.
template <class Shape>
struct given {
  using shape = Shape;
  const char* name;
};

/// f(operands...) in T: its output, and the gradients for the recorded gradient of the output.
template <class T, class F, class... Given>
void check_case(const std::string& name, const F& f, const Given&... operands) {
  workplace at;
  const auto inputs = std::make_tuple(recorded<T, typename Given::shape>(at.ctx, name + "." + operands.name)...);
  const auto plain = std::apply(f, inputs);
  check_recorded(plain, name + ".y");
  using Y = std::remove_cvref_t<decltype(plain)>;
  const auto dy = recorded<T, typename Y::shape>(at.ctx, name + ".dy");
  std::apply(
      [&](const auto&... xs) {
        const auto found = evaluate(at.ctx, f, dy, xs...);
        CHECK(same_bits(found.y, plain));
        std::apply([&](const auto&... gradients) { (check_recorded(gradients, name + ".d" + operands.name), ...); },
                   found.gradients);
      },
      inputs);
}

}  // namespace gradus_test
