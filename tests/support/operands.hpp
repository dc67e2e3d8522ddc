// What tests of operations share: memory that is full of NaN, fresh random operands, and comparisons.
#pragma once

#include <gradus/gradus.hpp>
#include <gradus/testing/tolerances.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <random>
#include <span>
#include <tuple>
#include <type_traits>
#include <vector>

#include "reference.hpp"
#include "seed.hpp"

namespace gradus_test {

/// Memory whose every byte is 0xFF: NaN as a float, so that an element that is read before it is written shows.
class poisoned_resource final : public gradus::memory_resource {
 private:
  void* do_allocate(const gradus::memory_request& request, gradus::stream& on) override {
    void* memory = heap_.allocate(request, on);
    std::memset(memory, 0xFF, request.bytes);
    return memory;
  }
  void do_deallocate(void* memory, const gradus::memory_request& request, gradus::stream& on) noexcept override {
    heap_.deallocate(memory, request, on);
  }
  gradus::host_resource heap_;
};

/// A context on poisoned memory that counts its bytes.
struct workplace {
  gradus::stream stream;
  poisoned_resource poisoned;
  gradus::stats_resource stats{poisoned};
  gradus::context<gradus::cpu> ctx{stream, stats};
};

/// Elements of a tensor or a vector, as doubles. Templates on shapes end here: what draws and compares is compiled
/// once.
template <class Elements>
values numbers(const Elements& from) {
  if constexpr (requires { from.values(); }) {
    return numbers(std::span(from.values()));
  } else {
    values to(from.size());
    std::transform(from.begin(), from.end(), to.begin(), [](const auto& v) {
      return static_cast<double>(static_cast<gradus::compute_type<std::remove_cvref_t<decltype(v)>>>(v));
    });
    return to;
  }
}
/// Puts numbers into a tensor's elements, rounded once.
template <class T>
void put(const values& from, std::span<T> to) {
  std::transform(from.begin(), from.end(), to.begin(),
                 [](double v) { return static_cast<T>(static_cast<gradus::compute_type<T>>(v)); });
}

inline values draw_normal(std::size_t count, double scale, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> draw(0.0, scale);
  values x(count);
  for (double& v : x) v = draw(engine);
  return x;
}
inline values draw_integers(std::size_t count, int low, int high, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_int_distribution<int> draw(low, high);
  values x(count);
  for (double& v : x) v = draw(engine);
  return x;
}

/// Normal values, different in every run of the tests unless a seed is given; see fresh_seed().
template <class T, class Shape>
gradus::tensor<T, Shape> normal(gradus::context<gradus::cpu>& ctx, double scale = 1, unsigned seed = fresh_seed()) {
  gradus::tensor<T, Shape> x(ctx);
  put(draw_normal(Shape::size, scale, seed), std::span<T>(x.values()));
  return x;
}

/// Integers in low .. high.
template <class T, class Shape>
gradus::tensor<T, Shape> integers(gradus::context<gradus::cpu>& ctx, int low, int high, unsigned seed = fresh_seed()) {
  gradus::tensor<T, Shape> x(ctx);
  put(draw_integers(Shape::size, low, high, seed), std::span<T>(x.values()));
  return x;
}

inline double worst_error_of(const values& found, const values& wanted) {
  if (found.size() != wanted.size()) return INFINITY;
  double mean = 0;
  for (const double w : wanted) mean += std::abs(w) / static_cast<double>(wanted.size());
  double worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double difference = std::abs(found[i] - wanted[i]);
    if (difference == 0) continue;
    const double e = difference / (std::abs(wanted[i]) + mean);
    worst = std::isnan(e) ? INFINITY : std::max(worst, e);
  }
  return worst;
}
/// Largest error of `found`, each relative to the wanted element plus the mean magnitude of all; infinite when one is
/// NaN.
template <class A, class B>
double worst_error(const A& found, const B& wanted) {
  return worst_error_of(numbers(found), numbers(wanted));
}

inline double error_in_norm_of(const values& found, const values& wanted) {
  if (found.size() != wanted.size()) return INFINITY;
  double error = 0, length = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    error += std::pow(found[i] - wanted[i], 2);
    length += wanted[i] * wanted[i];
  }
  if (error == 0) return 0;
  return std::isnan(error) ? INFINITY : std::sqrt(error / length);
}
/// Length of the error of `found` relative to the length of `wanted`; infinite when an element is NaN.
template <class A, class B>
double error_in_norm(const A& found, const B& wanted) {
  return error_in_norm_of(numbers(found), numbers(wanted));
}

template <class X>
bool same_bits(const X& a, const X& b) {
  // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): bits are meant
  return std::memcmp(a.data(), b.data(), X::bytes) == 0;
}

/// A number of threads of a context for as long as it lives.
struct threads {
  threads(gradus::context<gradus::cpu>& ctx, int n) : on(ctx.stream()), before(gradus::thread_count(on)) {
    gradus::set_thread_count(on, n);
  }
  ~threads() { gradus::set_thread_count(on, before); }
  threads(const threads&) = delete;
  threads& operator=(const threads&) = delete;
  gradus::stream& on;
  int before;
};

/// Output and gradients of an operation: its result y for tape variables, and what backward leaves for gradient dy.
template <class Y, class... Xs>
struct evaluation {
  Y y;
  std::tuple<Xs...> gradients;
};
/// f applied to variables xs..., unwound from output gradient dy (`times` contributions of it, one use of f each).
template <class F, class G, class... Xs>
auto evaluate(gradus::context<gradus::cpu>& ctx, const F& f, const G& dy, const Xs&... xs) {
  gradus::tape<gradus::cpu> tape(ctx);
  auto run = [&](auto... vs) {
    auto y = f(vs...);
    y.slot()->give(gradus::clone(dy));
    auto value = y.value();
    tape.unwind();
    return evaluation<decltype(value), Xs...>{value, {vs.gradient()...}};
  };
  const auto watched = [&](const auto& x) {
    using X = std::remove_cvref_t<decltype(x)>;
    return tape.variable(X(x));
  };
  return run(watched(xs)...);
}
template <class Y, class... Xs>
outcome numbers(const evaluation<Y, Xs...>& of) {
  return {numbers(of.y),
          std::apply([](const auto&... gs) { return std::vector<values>{numbers(gs)...}; }, of.gradients)};
}

}  // namespace gradus_test
