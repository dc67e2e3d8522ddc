#pragma once
// Checks the tape's gradients of a function against central differences.

#include <algorithm>
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

/// The result of gradcheck.
struct gradcheck_result {
  bool ok = true;
  double worst = 0;         ///< largest relative error
  std::size_t input = 0;    ///< its operand, from 0
  std::size_t element = 0;  ///< its element in the operand, row-major
  double from_tape = 0;     ///< the two values there
  double from_differences = 0;
  std::string message;  ///< one line, empty when ok
  explicit operator bool() const { return ok; }
};

namespace detail {

// A weight in [0.5, 1.5) for output element i, so that errors of different elements do not cancel.
inline double gradcheck_weight(std::uint64_t i) {
  std::uint64_t z = (i + 1) * 0x9E3779B97F4A7C15u;  // splitmix64 (Steele, Lea and Flood 2014)
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return 0.5 + static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

template <class T>
void gradcheck_fill(T* weights, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) weights[i] = static_cast<T>(gradcheck_weight(i));
}
template <class T>
std::vector<double> gradcheck_numbers(const T* from, std::size_t n) {
  std::vector<double> to(n);
  for (std::size_t i = 0; i < n; ++i) to[i] = static_cast<double>(from[i]);
  return to;
}

// A function and copies of its operands, type-erased: the comparison is compiled once for all functions.
class gradcheck_problem {
 public:
  struct elements {
    double* data;  // null for integers
    std::size_t size;
  };
  static constexpr std::size_t all = static_cast<std::size_t>(-1);  // operands

  gradcheck_problem() = default;
  gradcheck_problem(const gradcheck_problem&) = delete;
  gradcheck_problem& operator=(const gradcheck_problem&) = delete;
  virtual ~gradcheck_problem() = default;

  virtual const std::vector<elements>& operands() const = 0;
  // The function's output. With `gradients`, also the gradients of its weighted sum, empty for operands that are not
  // wanted or have integers. If `add`, each gradient starts with gradcheck_weight()s.
  virtual std::vector<double> run(std::size_t wanted, bool add, std::vector<std::vector<double>>* gradients) = 0;

  std::vector<double> value() { return run(all, false, nullptr); }
  std::vector<std::vector<double>> gradients(std::size_t wanted, bool add) {
    std::vector<std::vector<double>> found(operands().size());
    run(wanted, add, &found);
    return found;
  }
};

// The part that depends only on the operands' types.
template <class... Xs>
class gradcheck_operands : public gradcheck_problem {
 public:
  explicit gradcheck_operands(const Xs&... xs)
      : tape_(std::get<0>(std::tie(xs...)).owner()),
        xs_(clone(xs)...),
        operands_{elements{nullptr, xs.extents().size}...} {
    set_data(numbers);
  }
  const std::vector<elements>& operands() const final { return operands_; }

 protected:
  static constexpr std::index_sequence_for<Xs...> numbers{};

  // The operands for f; those whose gradients are wanted are variables.
  auto inputs(std::size_t wanted, bool with_gradients) { return inputs(numbers, wanted, with_gradients); }
  // The result of run() for f's output y; clears the recording, so that random draws repeat.
  template <class V, class Y>
  std::vector<double> finish(V& in, Y& y, bool add, std::vector<std::vector<double>>* gradients) {
    return finish(numbers, in, y, add, gradients);
  }
  void forget(bool gradients) {
    tape_.clear();
    if (gradients) tape_.set_random(0, 0);
  }

 private:
  template <std::size_t... Is>
  void set_data(std::index_sequence<Is...>) {
    const auto set = []<class X>(X& x, elements& of) {
      if constexpr (is_floating<typename X::value_type>) of.data = x.data();
    };
    (set(std::get<Is>(xs_), operands_[Is]), ...);
  }
  template <class X>
  auto begin(const X& x, bool wanted) {
    if constexpr (is_floating<typename X::value_type>)
      if (wanted) return tape_.variable(x);
    return tape_.watch(x);
  }
  template <std::size_t... Is>
  auto inputs(std::index_sequence<Is...>, std::size_t wanted, bool with_gradients) {
    return std::tuple{begin(std::get<Is>(xs_), with_gradients && (wanted == all || wanted == Is))...};
  }
  template <class V>
  void give_weights(const V& v) {
    using X = std::remove_cvref_t<decltype(v.value())>;
    if (v.slot() == nullptr) return;
    X weights(tape_.owner(), v.value().extents(), category::gradient);
    gradcheck_fill(weights.data(), weights.extents().size);
    v.slot()->give(std::move(weights));
  }
  template <class V>
  static std::vector<double> gradient_of_input(const V& v) {
    if (v.slot() == nullptr) return {};
    const index_t size = v.value().extents().size;
    const auto& gradient = v.gradient();
    if (!gradient) return std::vector<double>(size);  // not an ancestor of the output
    return gradcheck_numbers(gradient.data(), size);
  }
  template <std::size_t... Is, class V, class Y>
  std::vector<double> finish(std::index_sequence<Is...>, V& in, Y& y, bool add,
                             std::vector<std::vector<double>>* gradients) {
    if (gradients != nullptr) {
      if (add) (give_weights(std::get<Is>(in)), ...);
      give_weights(y);
      y.recorder().unwind();
      (((*gradients)[Is] = gradient_of_input(std::get<Is>(in))), ...);
    }
    return gradcheck_numbers(y.value().data(), y.value().extents().size);
  }

  tape<cpu> tape_;
  std::tuple<Xs...> xs_;
  std::vector<elements> operands_;
};

template <class F, class... Xs>
class gradcheck_of final : public gradcheck_operands<Xs...> {
 public:
  explicit gradcheck_of(const F& f, const Xs&... xs) : gradcheck_operands<Xs...>(xs...), f_(f) {}

  std::vector<double> run(std::size_t wanted, bool add, std::vector<std::vector<double>>* gradients) override {
    std::vector<double> y = record(wanted, add, gradients);
    this->forget(gradients != nullptr);
    return y;
  }

 private:
  std::vector<double> record(std::size_t wanted, bool add, std::vector<std::vector<double>>* gradients) {
    auto in = this->inputs(wanted, gradients != nullptr);
    auto y = std::apply(f_, in);
    return this->finish(in, y, add, gradients);
  }

  const F& f_;
};

// Compares the gradient of input i with differences, and stores the largest error.
inline void gradcheck_input(gradcheck_result& result, const testing::tolerances& within, gradcheck_problem& problem,
                            std::size_t i, const std::vector<double>& gradient) {
  const auto [data, size] = problem.operands()[i];
  for (std::size_t e = 0; data != nullptr && e < size; ++e) {
    const double at = data[e];
    const double h = within.step * std::max(1.0, std::abs(at));
    const double above = at + h;
    const double below = at - h;
    data[e] = above;
    const auto high = problem.value();
    data[e] = below;
    const auto low = problem.value();
    data[e] = at;
    double slope = 0;  // differences first, then the sum: less cancellation
    for (std::size_t k = 0; k < high.size(); ++k) slope += gradcheck_weight(k) * (high[k] - low[k]);
    slope /= above - below;
    const double error = within.error(gradient[e], slope);
    if (!std::isnan(error) && error <= result.worst) continue;
    result.worst = error;
    result.input = i;
    result.element = e;
    result.from_tape = gradient[e];
    result.from_differences = slope;
    if (std::isnan(error)) return;
  }
}

inline gradcheck_result gradcheck_problem_of(const testing::tolerances& within, gradcheck_problem& problem) {
  gradcheck_result result;
  const std::size_t inputs = problem.operands().size();
  const auto gradients = problem.gradients(gradcheck_problem::all, false);
  for (std::size_t i = 0; i < inputs; ++i) gradcheck_input(result, within, problem, i, gradients[i]);
  const auto fail = [&](std::size_t input, const std::string& what) {
    result.ok = false;
    result.input = input;
    result.message = "gradcheck: input " + std::to_string(input) + what;
    return result;
  };
  if (!(result.worst <= within.gradient))
    return fail(result.input, ", element " + std::to_string(result.element) + ": the tape computes " +
                                  std::to_string(result.from_tape) + ", central differences " +
                                  std::to_string(result.from_differences) + " (relative error " +
                                  std::to_string(result.worst) + ", allowed " + std::to_string(within.gradient) + ")");
  const auto added = problem.gradients(gradcheck_problem::all, true);
  for (std::size_t i = 0; i < inputs; ++i)
    for (std::size_t e = 0; e < added[i].size(); ++e) {
      const double wanted = gradients[i][e] + gradcheck_weight(e);
      if (within.error(added[i][e], wanted) <= within.gradient) continue;
      result.element = e;
      return fail(i, ", element " + std::to_string(e) + ": its gradient is not added to an existing one (" +
                         std::to_string(added[i][e]) + " instead of " + std::to_string(wanted) + ")");
    }
  for (std::size_t i = 0; inputs > 1 && i < inputs; ++i)
    if (problem.gradients(i, false)[i] != gradients[i])
      return fail(i, ": its gradient differs if no other input's is computed");
  return result;
}

}  // namespace detail

/// Compares the tape's gradients of sum(weights * f(x...)), with fixed random weights, to central differences in
/// float64, for every element of every floating-point operand. Also checks that each gradient is the same, bit for bit,
/// if no other one is computed, and that it is added to an existing gradient.
///
/// `f` takes traced values and returns one: `gradcheck([](auto x) { return gr::tanh(x); }, x)`. The operands are double
/// tensors on the CPU (integer ones are constants), and small: `f` runs twice per element. `f` must be smooth.
template <class F, class... Xs>
gradcheck_result gradcheck(const testing::tolerances& within, const F& f, const Xs&... xs) {
  static_assert(sizeof...(Xs) >= 1 && (is_tensor<Xs> && ...), "gradcheck(f, x...): the operands must be tensors");
  static_assert(((std::is_same_v<typename Xs::value_type, double> || !is_floating<typename Xs::value_type>)&&...),
                "gradcheck(f, x...): floating-point operands must be of double");
  detail::gradcheck_of<F, Xs...> problem(f, xs...);
  return detail::gradcheck_problem_of(within, problem);
}

/// gradcheck(within, f, x...) with the library's default tolerances.
template <class F, class... Xs>
  requires(!std::is_same_v<F, testing::tolerances>)
gradcheck_result gradcheck(const F& f, const Xs&... xs) {
  return gradcheck(testing::tolerances{}, f, xs...);
}

}  // namespace gradus
