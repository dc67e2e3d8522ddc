#pragma once
// Is a gradient right? The tape against central differences, for any function of tensors.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "../autodiff/tape.hpp"
#include "../tensor/creation.hpp"
#include "tolerances.hpp"

namespace gradus {

/// What gradcheck found.
struct gradcheck_result {
  bool ok = true;
  double worst = 0;         ///< largest relative error
  std::size_t input = 0;    ///< the operand it was found in, from 0
  std::size_t element = 0;  ///< the operand's element, in row-major order
  double from_tape = 0;     ///< the two values that differ there
  double from_differences = 0;
  std::string message;  ///< one line, empty when ok
  explicit operator bool() const { return ok; }
};

namespace detail {

// A weight in [0.5, 1.5) for output element i, so that no two elements can make up for one another's errors.
inline double gradcheck_weight(std::uint64_t i) {
  std::uint64_t z = (i + 1) * 0x9E3779B97F4A7C15u;  // splitmix64 (Steele, Lea and Flood 2014)
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return 0.5 + static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

// The output of f on constants, as doubles. Everything recorded is forgotten, so that random draws repeat.
template <class F, class... Xs>
std::vector<double> gradcheck_value(tape<cpu>& t, const F& f, const Xs&... xs) {
  std::vector<double> out;
  {
    const auto y = f(t.watch(xs)...);
    for (const auto v : y.value().values()) out.push_back(static_cast<double>(v));
  }
  t.clear();
  return out;
}

// Weights for the elements of a tensor.
template <class X>
X gradcheck_weights(context<cpu>& ctx) {
  X weights(ctx, category::gradient);
  for (std::size_t i = 0; i < X::size; ++i)
    weights.data()[i] = static_cast<typename X::value_type>(gradcheck_weight(i));
  return weights;
}

// Gradients of the weighted sum of f's output; an operand that is not wanted, or is of integers, has an empty vector.
// If `add`, each operand's gradient holds gradcheck_weights before backward.
template <class F, class... Xs, std::size_t... I>
auto gradcheck_gradients(tape<cpu>& t, const F& f, std::size_t only, bool add, std::index_sequence<I...>,
                         const Xs&... xs) {
  std::array<std::vector<double>, sizeof...(Xs)> found;
  {
    const auto begin = [&](const auto& x, std::size_t i) {
      using X = std::remove_cvref_t<decltype(x)>;
      if constexpr (is_floating<typename X::value_type>)
        if (only == sizeof...(Xs) || only == i) return t.variable(x);
      return t.watch(x);
    };
    const auto inputs = std::make_tuple(begin(xs, I)...);
    const auto y = std::apply(f, inputs);
    const auto fill = [&](const auto& v) {
      if (v.slot() != nullptr) v.slot()->give(gradcheck_weights<std::remove_cvref_t<decltype(v.value())>>(t.owner()));
    };
    if (add) (fill(std::get<I>(inputs)), ...);
    fill(y);
    y.recorder().unwind();
    const auto read = [](const auto& x, std::vector<double>& to) {
      if (x.slot() == nullptr) return;
      to.assign(x.value().size, 0.0);
      if (!x.gradient()) return;  // nothing depends on it
      for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<double>(x.gradient().data()[i]);
    };
    (read(std::get<I>(inputs), found[I]), ...);
  }
  t.clear();
  t.set_random(0, 0);
  return found;
}

template <std::size_t I, class F, class... Xs>
void gradcheck_input(gradcheck_result& result, tape<cpu>& t, const testing::tolerances& within, const F& f,
                     const std::vector<double>& gradient, const Xs&... xs) {
  using X = std::tuple_element_t<I, std::tuple<Xs...>>;
  if constexpr (std::is_same_v<typename X::value_type, double>) {
    const auto evaluate = [&](std::size_t element, double value) {
      const auto moved = [&](const auto& x, auto number) {
        if constexpr (decltype(number)::value == I) {
          auto copy = clone(x);
          copy.data()[element] = value;
          return copy;
        } else {
          return x;
        }
      };
      return [&]<std::size_t... K>(std::index_sequence<K...>) {
        return gradcheck_value(t, f, moved(xs, std::integral_constant<std::size_t, K>{})...);
      }(std::index_sequence_for<Xs...>{});
    };
    const X& x = std::get<I>(std::tie(xs...));
    for (std::size_t e = 0; e < X::size; ++e) {
      const double at = x.data()[e];
      const double h = within.step * std::max(1.0, std::abs(at));
      const double above = at + h;
      const double below = at - h;
      const auto high = evaluate(e, above);
      const auto low = evaluate(e, below);
      double slope = 0;  // differences first, then the sum: less is lost to cancellation
      for (std::size_t i = 0; i < high.size(); ++i) slope += gradcheck_weight(i) * (high[i] - low[i]);
      slope /= above - below;
      const double error = within.error(gradient[e], slope);
      if (std::isnan(error) || error > result.worst) {
        result.worst = error;
        result.input = I;
        result.element = e;
        result.from_tape = gradient[e];
        result.from_differences = slope;
        if (std::isnan(error)) return;
      }
    }
  }
}

}  // namespace detail

/// Compares the tape's gradients of sum(weights * f(x...)), with fixed random weights, to central differences in
/// float64, for every element of every floating-point operand; and checks that an operand's gradient is the same, bit
/// for bit, when no other operand's is wanted, and is added to a gradient that is there already.
///
/// `f` takes traced values and returns one: `gradcheck([](auto x) { return gr::tanh(x); }, x)`. The operands are double
/// tensors on the CPU (integer ones are constants). `f` is run twice an element, so keep the operands small; it must be
/// smooth at the point, away from kinks.
template <class F, class... Xs>
gradcheck_result gradcheck(const testing::tolerances& within, const F& f, const Xs&... xs) {
  static_assert(sizeof...(Xs) >= 1 && (is_tensor<Xs> && ...), "gradcheck(f, x...): the operands must be tensors");
  static_assert(((std::is_same_v<typename Xs::value_type, double> || !is_floating<typename Xs::value_type>)&&...),
                "gradcheck(f, x...): floating-point operands must be of double");
  gradcheck_result result;
  tape<cpu> t(std::get<0>(std::tie(xs...)).owner());
  constexpr auto all = std::index_sequence_for<Xs...>{};
  const auto gradients = detail::gradcheck_gradients(t, f, sizeof...(Xs), false, all, xs...);
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (detail::gradcheck_input<I>(result, t, within, f, gradients[I], xs...), ...);
  }(all);
  const std::string where =
      "gradcheck: input " + std::to_string(result.input) + ", element " + std::to_string(result.element);
  if (!(result.worst <= within.gradient)) {
    result.ok = false;
    result.message = where + ": the tape says " + std::to_string(result.from_tape) + ", central differences say " +
                     std::to_string(result.from_differences) + " (relative error " + std::to_string(result.worst) +
                     ", allowed " + std::to_string(within.gradient) + ")";
    return result;
  }
  const auto added = detail::gradcheck_gradients(t, f, sizeof...(Xs), true, all, xs...);
  for (std::size_t i = 0; i < sizeof...(Xs); ++i)
    for (std::size_t e = 0; e < added[i].size(); ++e) {
      const double wanted = gradients[i][e] + detail::gradcheck_weight(e);
      if (within.error(added[i][e], wanted) <= within.gradient) continue;
      result.ok = false;
      result.input = i;
      result.element = e;
      result.message = "gradcheck: input " + std::to_string(i) + ", element " + std::to_string(e) +
                       ": its gradient is not added to the one that is there already (" + std::to_string(added[i][e]) +
                       " instead of " + std::to_string(wanted) + ")";
      return result;
    }
  for (std::size_t i = 0; sizeof...(Xs) > 1 && i < sizeof...(Xs); ++i) {
    const auto alone = detail::gradcheck_gradients(t, f, i, false, all, xs...);
    if (alone[i] == gradients[i]) continue;
    result.ok = false;
    result.input = i;
    result.message = "gradcheck: input " + std::to_string(i) + ": its gradient differs when no other input's is wanted";
    return result;
  }
  return result;
}

/// The same with the library's usual tolerances.
template <class F, class... Xs>
  requires(!std::is_same_v<F, testing::tolerances>)
gradcheck_result gradcheck(const F& f, const Xs&... xs) {
  return gradcheck(testing::tolerances{}, f, xs...);
}

}  // namespace gradus
