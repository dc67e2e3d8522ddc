// One operation held against everything that is known of it. A table, such as rows.hpp, is a template of a runner. On
// the CPU this one holds each case:
//   - its values against a reference in double, which shares nothing with the library;
//   - its gradients in double against central differences, and those of other element types against double's;
//   - its bits without a tape, on three threads, replayed in a region, with the gradient of one operand alone; and the
//     sum of two contributions.
// Memory is full of NaN. On a GPU a runner of tests/cuda/cases.hpp compares the same cases with the CPU's.
#pragma once

#include <gradus/testing/gradcheck.hpp>

#include <cstddef>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "../support/operands.hpp"
#include "drawn.hpp"

namespace gradus_test {

/// What a case does with its operands.
enum class applied { plainly, on_a_tape, in_a_region, to_a_first_variable, to_a_last_variable, twice };

/// A function of tensors of one element type and fixed shapes.
class op_under_test {
 public:
  op_under_test() = default;
  op_under_test(const op_under_test&) = delete;
  op_under_test& operator=(const op_under_test&) = delete;
  virtual ~op_under_test() = default;
  /// Output and gradients for the output's gradient dy; both rounded to the element type, as the operands are.
  virtual outcome run(const std::vector<values>& operands, const values& dy, applied how, int thread_count = 1) = 0;
  /// Rounds numbers to the element type.
  virtual values rounded(values numbers) const = 0;
};

template <class T, bool Regions, class F, class... Shapes>
class op_of_type final : public op_under_test {
 public:
  explicit op_of_type(const F& f) : f_(f) {}

  outcome run(const std::vector<values>& operands, const values& dy, applied how, int thread_count) override {
    return with(
        operands, [&](const auto& x, const auto&... others) { return run_on(x.owner(), dy, how, x, others...); },
        thread_count);
  }
  /// g(tensors...) with these elements.
  template <class G>
  auto with(const std::vector<values>& operands, const G& g, int thread_count = 1) {
    workplace at;
    const threads n(at.ctx, thread_count);
    const values* next = operands.data();
    const auto operand = [&]<class S>(S) {
      gradus::tensor<T, S> x(at.ctx);
      put(*next++, std::span<T>(x.values()));
      return x;
    };
    const std::tuple xs{operand(Shapes{})...};
    return std::apply(g, xs);
  }
  values rounded(values all) const override {
    for (double& v : all) v = static_cast<double>(static_cast<C>(static_cast<T>(static_cast<C>(v))));
    return all;
  }

 private:
  using C = gradus::compute_type<T>;
  outcome run_on(gradus::context<gradus::cpu>& ctx, const values& dy, applied how, const auto&... x) {
    if (how == applied::plainly) return {numbers(f_(x...)), {}};
    gradus::tape<gradus::cpu> tape(ctx);
    std::size_t number = 0;
    const auto begin = [&](const auto& of) {
      const std::size_t i = number++;
      const bool frozen = (how == applied::to_a_first_variable && i > 0) ||
                          (how == applied::to_a_last_variable && i + 1 < sizeof...(Shapes));
      return frozen ? tape.watch(of) : tape.variable(of);
    };
    const auto vs = std::tuple{begin(x)...};
    return std::apply([&](const auto&... v) { return finish(tape, dy, how, v...); }, vs);
  }
  outcome finish(gradus::tape<gradus::cpu>& tape, const values& dy, applied how, const auto&... v) {
    outcome found;
    const auto give = [&](const auto& y) {
      using Y = std::remove_cvref_t<decltype(y.value())>;
      Y gradient(tape.owner());
      put(dy, std::span<typename Y::value_type>(gradient.values()));
      found.y = numbers(y.value());
      y.slot()->give(std::move(gradient));
    };
    const auto result = [&] {
      if constexpr (Regions)
        if (how == applied::in_a_region) return give(gradus::checkpoint(f_, v...));
      give(f_(v...));
      if (how == applied::twice) give(f_(v...));
    };
    result();
    tape.unwind();
    const auto keep = [&](const auto& of) {
      if (of.slot() == nullptr) found.gradients.emplace_back();
      else if (const auto& g = of.gradient()) found.gradients.push_back(numbers(g));
      else found.gradients.emplace_back(of.value().size);
    };
    (keep(v), ...);
    return found;
  }
  F f_;
};

/// The comparisons, compiled once. `differences` is gradcheck's message, empty if the gradients are right.
void hold(const std::string& name, const drawn& how, const reference_of_values& reference,
          const std::vector<values>& operands, op_under_test* in_double, op_under_test& in_float,
          op_under_test* in_half, const std::string& differences);
/// Operands of these sizes.
std::vector<values> draw(const drawn& how, const std::vector<std::size_t>& sizes);

/// Holds the cases of a table on the CPU.
class truth {
 public:
  /// A case on every device.
  template <class... Shapes, class F>
  void hold(const char* name, const F& f, const reference_of_values& reference = {}, const drawn& how = {}) {
    op_of_type<gradus::bf16, false, F, Shapes...> in_half(f);
    hold_floats<true, Shapes...>(name, f, reference, how, how.halves ? &in_half : nullptr);
  }
  /// More shapes of a case, in float and double on the CPU.
  template <class... Shapes, class F>
  void also(const char* name, const F& f, const reference_of_values& reference = {}, const drawn& how = {}) {
    hold_floats<false, Shapes...>(name, f, reference, how, nullptr);
  }
  /// Large shapes in float on the CPU: gradients have the same bits in all ways, but nothing to compare them with.
  template <class... Shapes, class F>
  void large(const char* name, const F& f, const reference_of_values& reference, const drawn& how = {}) {
    op_of_type<float, false, F, Shapes...> in_float(f);
    gradus_test::hold(name + (" of" + (... + text_of(Shapes{}))), how, reference, draw(how, {Shapes::size...}), nullptr,
                      in_float, nullptr, "");
  }
  /// A shape or a type for which the GPU alone has a kernel of its own.
  template <class T, class... Shapes, class F>
  void on_gpu(const char*, const F&, double = -2, double = 2) {}

 private:
  template <bool Regions, class... Shapes, class F>
  void hold_floats(const char* name, const F& f, const reference_of_values& reference, const drawn& how,
                   op_under_test* in_half) {
    const auto operands = draw(how, {Shapes::size...});
    op_of_type<double, false, F, Shapes...> in_double(f);
    op_of_type<float, Regions, F, Shapes...> in_float(f);
    std::string differences;
    if constexpr ((Shapes::size + ...) <= 400)
      if (how.offset == 0)
        differences = in_double.with(operands, [&](const auto&... x) { return gradus::gradcheck(f, x...).message; });
    gradus_test::hold(name + (" of" + (... + text_of(Shapes{}))), how, reference, operands, &in_double, in_float,
                      in_half, differences);
  }
  template <class S>
  static std::string text_of(S) {
    std::string text = " [";
    for (const auto e : S::extents) text += (text.back() == '[' ? "" : ", ") + std::to_string(e);
    return text + "]";
  }
};

}  // namespace gradus_test
