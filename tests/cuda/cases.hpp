#pragma once
// The same computations for both devices: instantiated for the CPU in .cpp files, by the compiler that users' CPU code
// sees, and for the GPU in .cu files, which include cuda.hpp alone.

#include <cmath>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include <gradus/autodiff/backward.hpp>
#include <gradus/ops/comparison/comparison.hpp>
#include <gradus/ops/elementwise/arithmetic.hpp>
#include <gradus/ops/elementwise/functions.hpp>
#include <gradus/ops/elementwise/selection.hpp>
#include <gradus/ops/reduce/reduce.hpp>
#include <gradus/tensor/creation.hpp>

#include "../ops/drawn.hpp"

namespace gr = gradus;

/// One result of a computation, and how close another device must come to it.
struct record {
  std::string name;
  std::vector<double> values;
  double tolerance;
};

/// ||got - expected|| / ||expected||; NaN if anything in them is.
inline double relative_error(const std::vector<double>& got, const std::vector<double>& expected) {
  double error = 0;
  double size = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    error += (got[i] - expected[i]) * (got[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return std::sqrt(error) / (std::sqrt(size) + 1e-30);
}

/// Runs computations on the context's device with inputs that depend on the seed alone, and keeps what they give.
template <class D>
class runner {
 public:
  runner(gr::context<D>& ctx, unsigned seed) : ctx_(&ctx), engine_(seed) {}
  gr::context<D>& ctx() { return *ctx_; }
  std::vector<record> records;

  template <class T>
  std::vector<T> random(std::size_t n, double low = -2, double high = 2) {
    std::uniform_real_distribution<double> draw(low, high);
    std::vector<T> values(n);
    for (T& v : values) v = static_cast<T>(static_cast<gr::compute_type<T>>(draw(engine_)));
    return values;
  }
  template <class T>
  void keep(std::string name, const std::vector<T>& values, double tolerance) {
    std::vector<double> wide(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) wide[i] = static_cast<double>(values[i]);
    records.push_back({std::move(name), std::move(wide), tolerance});
  }

  /// f(variables...) of the given shapes: its value and, after backward from a random gradient of it, each gradient.
  template <class T, class... Shapes, class F>
  void differentiate(const std::string& name, const F& f, double low = -2, double high = 2) {
    constexpr double tolerance = std::is_same_v<T, double> ? 1e-12 : sizeof(T) == 2 ? 1e-2 : 2e-5;
    gr::tape tape{*ctx_};
    auto variables =
        std::tuple{tape.variable(gr::from_host<T, Shapes>(*ctx_, random<T>(Shapes::size, low, high).data()))...};
    auto y = std::apply(f, variables);
    using S = gr::shape_of<decltype(y)>;
    keep(name + ": value", gr::to_host(y.value()), tolerance);
    y.slot()->give(
        gr::from_host<gr::value_of_t<decltype(y)>, S>(*ctx_, random<gr::value_of_t<decltype(y)>>(S::size).data()));
    tape.unwind();
    int number = 0;
    std::apply(
        [&](const auto&... x) {
          (keep(name + ": gradient " + std::to_string(number++), gr::to_host(x.gradient()), tolerance), ...);
        },
        variables);
  }

  // A table of tests/ops has its cases by these names; `also` and `large` are shapes for the CPU.
  template <class... Shapes, class F>
  void hold(const char* name, const F& f, const gradus_test::reference_of_values& = {},
            const gradus_test::drawn& how = {}) {
    const bool uniform = how.low < how.high;
    differentiate<float, Shapes...>(name, f, uniform ? how.low : -2, uniform ? how.high : 2);
  }
  template <class... Shapes, class F>
  void also(const char*, const F&, const gradus_test::reference_of_values& = {}, const gradus_test::drawn& = {}) {}
  template <class... Shapes, class F>
  void large(const char*, const F&, const gradus_test::reference_of_values& = {}, const gradus_test::drawn& = {}) {}
  template <class T, class... Shapes, class F>
  void on_gpu(const char* name, const F& f, double low = -2, double high = 2) {
    differentiate<T, Shapes...>(name, f, low, high);
  }

 private:
  gr::context<D>* ctx_;
  std::mt19937 engine_;
};
