#pragma once
// AdamW as a first program writes it: operations on tensors, each a pass over memory, with states in float.

#include <algorithm>
#include <any>
#include <cmath>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradus/gradus.hpp>

#include "sizes.hpp"

namespace bench {

inline constexpr double most_gradient_norm = 1;

/// The shapes of a model's parameters, with and without padding.
template <sizes S>
using parameter_shapes =
    std::tuple<gr::shape<S.vocabulary, S.width>, gr::shape<S.padded_vocabulary(), S.width>,
               gr::shape<S.context, S.width>, gr::shape<S.width>, gr::shape<S.width, 3 * S.width>,
               gr::shape<3 * S.width>, gr::shape<S.width, S.width>, gr::shape<S.width, 4 * S.width>,
               gr::shape<4 * S.width>, gr::shape<4 * S.width, S.width>>;
/// Number of a shape among them.
template <class Shapes, class Shape, std::size_t I = 0>
constexpr std::size_t number_of_shape() {
  if constexpr (std::is_same_v<std::tuple_element_t<I, Shapes>, Shape>) return I;
  else return number_of_shape<Shapes, Shape, I + 1>();
}

/// What is done to one parameter, of shape number `Which` of parameter_shapes. A program compiles these functions once,
/// in unfused_adamw.cpp.
template <sizes S, std::size_t Which, class D>
struct unfused_passes {
  using shape = std::tuple_element_t<Which, parameter_shapes<S>>;
  using tensor = gr::tensor<float, shape, D>;
  static tensor scaled(const tensor& gradient, double factor);
  static gr::tensor<float, gr::shape<>, D> squares(const tensor& gradient);
  /// Of the gradients, or of their squares: m * decay + g * (1 - decay).
  static tensor moment(const tensor& m, const tensor& g, double decay, bool squared);
  static tensor updated(const tensor& value, const tensor& m, const tensor& v, double keep, double lr,
                        double correction1, double correction2, double eps);
};
template <sizes S, std::size_t Which, class D>
auto unfused_passes<S, Which, D>::scaled(const tensor& gradient, double factor) -> tensor {
  return gradient * factor;
}
template <sizes S, std::size_t Which, class D>
auto unfused_passes<S, Which, D>::squares(const tensor& gradient) -> gr::tensor<float, gr::shape<>, D> {
  return gr::sum(gradient * gradient);
}
template <sizes S, std::size_t Which, class D>
auto unfused_passes<S, Which, D>::moment(const tensor& m, const tensor& g, double decay, bool squared) -> tensor {
  const tensor of = squared ? g * g : g;
  return m * decay + of * (1 - decay);
}
template <sizes S, std::size_t Which, class D>
auto unfused_passes<S, Which, D>::updated(const tensor& value, const tensor& m, const tensor& v, double keep, double lr,
                                          double correction1, double correction2, double eps) -> tensor {
  const tensor update = m * (1 / correction1) / (gr::sqrt(v * (1 / correction2)) + eps);
  return value * keep - update * lr;
}

#ifdef TRAIN_MODEL
extern template struct unfused_passes<model_sizes, 0, device>;
extern template struct unfused_passes<model_sizes, 1, device>;
extern template struct unfused_passes<model_sizes, 2, device>;
extern template struct unfused_passes<model_sizes, 3, device>;
extern template struct unfused_passes<model_sizes, 4, device>;
extern template struct unfused_passes<model_sizes, 5, device>;
extern template struct unfused_passes<model_sizes, 6, device>;
extern template struct unfused_passes<model_sizes, 7, device>;
extern template struct unfused_passes<model_sizes, 8, device>;
extern template struct unfused_passes<model_sizes, 9, device>;
#endif

template <class Network, sizes S, class D>
class unfused_adamw {
 public:
  gr::adamw_options options;

  /// @param gradient_scale what gradients are multiplied by first
  unfused_adamw(Network& net, double gradient_scale) : net_(&net), scale_(gradient_scale) {}

  void step(gr::context<D>& persistent) {
    std::vector<std::any> gradients;
    gr::visit_params(*net_, [&](auto& p) {
      gradients.emplace_back(passes<decltype(p)>::scaled(gr::cast<float>(p.gradient()), scale_));
      p.clear_gradient();
    });
    double squares = 0;
    each(gradients, [&]<class P>(const P&, std::any& gradient) {
      const auto sum = P::passes::squares(P::in(gradient));
      if constexpr (D::computes) squares += static_cast<double>(gr::item(sum));
    });
    const double factor = std::min(1.0, most_gradient_norm / (std::sqrt(squares) + 1e-6));
    each(gradients, [&]<class P>(const P&, std::any& g) { P::in(g) = P::passes::scaled(P::in(g), factor); });
    for (std::vector<std::any>* moments : {&first_, &second_})
      if (moments->empty())
        gr::visit_params(*net_, [&](auto& p) {
          using S_of_p = typename std::remove_reference_t<decltype(p)>::shape;
          moments->emplace_back(gr::zeros<float, S_of_p>(persistent, gr::category::optimizer_state));
        });
    ++steps_;
    each(gradients, [&]<class P>(const P& p, std::any& g) {
      P::in(first_[p.number]) = P::passes::moment(P::in(first_[p.number]), P::in(g), options.beta1, false);
    });
    each(gradients, [&]<class P>(const P& p, std::any& g) {
      P::in(second_[p.number]) = P::passes::moment(P::in(second_[p.number]), P::in(g), options.beta2, true);
    });
    const double correction1 = 1 - std::pow(options.beta1, steps_), correction2 = 1 - std::pow(options.beta2, steps_);
    each(first_, [&]<class P>(const P& p, std::any& m) {
      const double keep = p.param.rank() >= 2 ? 1 - options.lr * options.weight_decay : 1.0;
      p.param.set(gr::cast<typename P::value_type>(P::passes::updated(gr::cast<float>(p.param.value()), P::in(m),
                                                                      P::in(second_[p.number]), keep, options.lr,
                                                                      correction1, correction2, options.eps)));
    });
  }

 private:
  template <class P>
  using passes =
      unfused_passes<S, number_of_shape<parameter_shapes<S>, typename std::remove_reference_t<P>::shape>(), D>;
  template <class Param>
  struct parameter {
    using value_type = typename Param::value_type;
    using passes = unfused_adamw::passes<Param>;
    Param& param;
    std::size_t number;
    static auto& in(std::any& any) { return *std::any_cast<typename passes::tensor>(&any); }
  };

  // f(parameter, what the list has for it).
  void each(std::vector<std::any>& list, const auto& f) {
    std::size_t number = 0;
    gr::visit_params(*net_, [&](auto& p) {
      f(parameter<std::remove_reference_t<decltype(p)>>{p, number}, list[number]);
      ++number;
    });
  }

  Network* net_;
  double scale_;
  int steps_ = 0;
  std::vector<std::any> first_, second_;  // moments
};

}  // namespace bench
