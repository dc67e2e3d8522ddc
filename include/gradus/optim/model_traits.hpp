#pragma once
// The element types and the device of the parameters that an optimizer updates.

#include <type_traits>

#include "../core/config.hpp"
#include "../memory/buffer.hpp"
#include "../model/parameters.hpp"

namespace gradus {

namespace detail {

template <class Model>
inline constexpr bool model_has_parameters = !std::is_same_v<typename contents_of<Model>::kinds, types<>> ||
                                             !all_parameters_are_found<typename contents_of<Model>::hidden>;
template <class Kinds>
inline constexpr bool parameters_are_of_one_type_and_device = false;
template <class T, class D, class G>
inline constexpr bool parameters_are_of_one_type_and_device<types<param_kind<T, D, G>>> = true;

template <class Model, class Kinds>
struct only_kind {
  using type = param_kind<float, cpu>;  // a placeholder after the error
  static_assert(parameters_are_of_one_type_and_device<Kinds>,
                "optimizer(model): all parameters of the model must be of one element type and on one device");
};
template <class Model, class T, class D, class G>
struct only_kind<Model, types<param_kind<T, D, G>>> {
  using type = param_kind<T, D, G>;
};
template <class Model>
struct only_kind<Model, types<>> {
  using type = param_kind<float, cpu>;
  static_assert(model_has_parameters<Model>,
                "optimizer(model): the model has no parameters; its members must be gradus::param, or hold some");
};

// The kind of what an optimizer takes; param_pieces has a specialization.
template <class Model>
struct kind_of_parameters : only_kind<Model, typename contents_of<Model>::kinds> {};

}  // namespace detail

/// Element types and device of a model's parameters, or of param_pieces: `value_type`, `gradient_value_type` and
/// `device`. A model without parameters, or with parameters of several types, does not compile.
template <class Model>
using model_traits = typename detail::kind_of_parameters<Model>::type;

}  // namespace gradus
