#pragma once
// Optimizers whose step treats every element alike: a rule says what becomes of one, and one kernel per device runs any
// rule.

#include <array>
#include <concepts>
#include <cstddef>
#include <string_view>
#include <type_traits>

#include "../core/config.hpp"
#include "optimizer.hpp"

namespace gradus {

namespace detail {
// What the states of a rule are stored in, for parameters that are computed in C.
template <class Rule, class C>
struct rule_state {
  using type = C;
};
template <class Rule, class C>
  requires requires { typename Rule::state_type; }
struct rule_state<Rule, C> {
  using type = typename Rule::state_type;
};
// Whether what rounding takes from values of type T is kept.
template <class Rule, class T>
inline constexpr bool is_compensated = requires { requires Rule::compensated; } && !std::is_same_v<T, compute_type<T>>;
}  // namespace detail

/// States of a rule for all parameters: element i of a tensor has state k at at[k][first + i].
template <class T, class S, std::size_t N>
struct rule_states {
  S* at[N == 0 ? 1 : N] = {};  ///< null: not in use; see states_in_use()
  T* rest = nullptr;           ///< what the rounding of values has taken from them; null: it is lost
};

/// An optimizer made of a rule for one element. A rule is a struct of settings that has
///
///   - `lr` and `weight_decay`, numbers that may be changed between steps;
///   - `static constexpr std::array states{"exp_avg", ...}`, the names of its states, each of one value a parameter,
///     which start at 0;
///   - `template <class C> GRADUS_HD auto at(tensor_step s) const`, which gives the update of a tensor: an object of
///     constants of type C (float or double) whose `operator()(V& value, V gradient, V& state...)` changes one element.
///     On the CPU, V is a pack of elements: write constants as V(c), and choose with select() in place of `if`.
///
/// It may also have `name`, printed in memory tables; `state_type`, what states are stored in (else what parameters are
/// computed in); `compensated = true`: where values are stored in 16 bits, what their rounding takes is kept in one
/// more state of that type; and `states_in_use()`, how many of its states the settings need.
/// examples/10_own_optimizer.cpp is one.
///
/// A step reads each array once and writes it once.
/// @tparam T what parameters are stored in
/// @tparam G what their gradients accumulate in
template <class Rule, class T, class D, class G = T>
class element_optimizer : public optimizer<T, D, G> {
 public:
  static constexpr std::size_t most_states = Rule::states.size();
  /// What states are stored in.
  using stored_state = typename detail::rule_state<Rule, compute_type<T>>::type;
  static constexpr bool compensated = detail::is_compensated<Rule, T>;

  Rule options;  ///< may be changed between steps (a schedule sets `lr`)

  template <class Model>
  constexpr explicit element_optimizer(Model& model, Rule rule = {}) : optimizer<T, D, G>(model), options(rule) {}
  /// @param settings_of param_info -> param_settings: which parameters learn or decay otherwise
  template <class Model, class Settings>
  constexpr element_optimizer(Model& model, Rule rule, const Settings& settings_of)
      : optimizer<T, D, G>(model, settings_of), options(rule) {}

  /// Not with a number: settings are named.
  template <class Model, std::convertible_to<double> Number, class... Settings>
  constexpr element_optimizer(Model& model, Number, const Settings&...) : element_optimizer(model) {
    static_assert(detail::settings_are_named<Number>, "optimizer(model, 1e-3): settings are named; write {.lr = 1e-3}");
  }

  /// Updates every parameter that has a gradient, then forgets the gradients. State is made in `ctx` in the first step.
  GRADUS_OF_BUILD constexpr void step(context<D>& ctx) {
    const rule_states<T, stored_state, most_states> states = make_states(ctx);
    this->prepare(ctx);
    const std::size_t n = this->params_.total_size();
    const std::size_t written = sizeof(T) + states_in_use() * sizeof(stored_state) + (compensated ? sizeof(T) : 0);
    const typename context<D>::running now(
        ctx, activity{name(), phase::update, {14 * n, n * (sizeof(G) + written), n * written}});
    if constexpr (D::computes)
      kernel<op::element_step, D>::forward(ctx, this->params_.spans(this->missed()), options, states, this->inputs());
    this->finish(ctx);
  }

  /// Calls f(named_state) for every state of every parameter, parameter by parameter; states that are not there yet are
  /// made in `ctx`. To be saved with steps(), and loaded.
  template <class Model, class F>
  void for_each_state(context<D>& ctx, const Model& model, const F& f) {
    const auto states = make_states(ctx);
    std::size_t at = 0;
    std::size_t next = 0;
    for (const std::string& parameter : param_names(model)) {
      const index_t size = this->params_.all()[next++].param->size();
      for (std::size_t k = 0; k < states_in_use(); ++k)
        f(named_state<D>{parameter, Rule::states[k], dtype_name<stored_state>(), size, states.at[k] + at});
      if constexpr (compensated) f(named_state<D>{parameter, "compensation", dtype_name<T>(), size, states.rest + at});
      at += size;
    }
  }

 private:
  static constexpr std::string_view name() {
    if constexpr (requires { Rule::name; }) return Rule::name;
    else return "optimizer step";
  }
  constexpr std::size_t states_in_use() const {
    if constexpr (requires { options.states_in_use(); }) return options.states_in_use();
    else return most_states;
  }
  constexpr rule_states<T, stored_state, most_states> make_states(context<D>& ctx) {
    const typename context<D>::running now(ctx, activity{name(), phase::update, {}});
    rule_states<T, stored_state, most_states> all;
    const std::size_t n = this->params_.total_size();
    for (std::size_t k = 0; k < states_in_use(); ++k)
      all.at[k] = this->template state<stored_state>(ctx, states_[k], n);
    if constexpr (compensated) all.rest = this->template state<T>(ctx, rest_, n);
    return all;
  }

  std::array<buffer<D>, most_states> states_;
  [[no_unique_address]] std::conditional_t<compensated, buffer<D>, std::false_type> rest_;
};

template <class Model, class Rule, class... Settings>
element_optimizer(Model&, Rule, const Settings&...)
    -> element_optimizer<Rule, typename model_traits<Model>::value_type, typename model_traits<Model>::device,
                         typename model_traits<Model>::gradient_value_type>;

}  // namespace gradus
