#pragma once
// Makes an optimizer of a rule for one element, which one kernel per device runs on all elements.

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "../core/config.hpp"
#include "optimizer.hpp"

namespace gradus {

namespace detail {
// The type of a rule's states, for parameters with compute type C.
template <class Rule, class C>
struct rule_state {
  using type = C;
};
template <class Rule, class C>
  requires requires { typename Rule::state_type; }
struct rule_state<Rule, C> {
  using type = typename Rule::state_type;
};
// Whether a state holds the rounding errors of values of type T.
template <class Rule, class T>
inline constexpr bool is_compensated = requires { requires Rule::compensated; } && !std::is_same_v<T, compute_type<T>>;
}  // namespace detail

/// States of a rule for all parameters: element i of a tensor has state k at at[k][first + i].
template <class T, class S, std::size_t N>
struct rule_states {
  S* at[N == 0 ? 1 : N] = {};  ///< null: unused; see states_in_use()
  T* compensation = nullptr;   ///< rounding errors of the values; null: none kept
};

/// An optimizer whose step updates every element by a rule. A rule is a struct of settings that has
///
///   - `lr` and `weight_decay`, numbers that may change between steps;
///   - `static constexpr std::array states{"exp_avg", ...}`, the names of its states. A state has one value a parameter
///     and starts at 0;
///   - `template <class C> GRADUS_HD auto at(tensor_step s) const`, which returns the update of a tensor: an object of
///     constants of type C (float or double) whose `operator()(V& value, V gradient, V& state...)` updates one element.
///     On the CPU, V is a pack of elements: write constants as V(c), and select() instead of `if`.
///
/// It may also have `name`, printed in memory tables; `state_type`, the type that states are stored in (default: the
/// compute type of the parameters); `compensated = true`, which adds a state for the rounding errors of values stored
/// in 16 bits; and `states_in_use()`, the number of states that its settings need. examples/10_own_optimizer.cpp has
/// one.
///
/// A step reads each array once and writes it once.
/// @tparam T type that parameters are stored in
/// @tparam G type that their gradients accumulate in
template <class Rule, class T, class D, class G = T>
class element_optimizer : public optimizer_with<Rule, T, D, G> {
  using base = optimizer_with<Rule, T, D, G>;

 public:
  using base::options;
  static constexpr std::size_t most_states = Rule::states.size();
  /// Type that states are stored in.
  using stored_state = typename detail::rule_state<Rule, compute_type<T>>::type;
  static constexpr bool compensated = detail::is_compensated<Rule, T>;

  using base::base;

  /// Updates every parameter that has a gradient, then frees the gradients. The first step allocates the state in
  /// `ctx`.
  GRADUS_OF_BUILD constexpr void step(context<D>& ctx) {
    const rule_states<T, stored_state, most_states> states = make_states(ctx);
    this->prepare(ctx);
    const std::size_t n = this->params_.total_size();
    const std::size_t written = sizeof(T) + states_in_use() * sizeof(stored_state) + (compensated ? sizeof(T) : 0);
    const typename context<D>::running now(
        ctx, activity{name(), phase::update, {14 * n, n * (sizeof(G) + written), n * written}});
    if constexpr (D::computes) {
      const auto update = [&](const std::vector<update_span<T, G>>& spans) {
        kernel<op::element_step, D>::forward(ctx, spans, options, states, this->inputs());
      };
      const auto& spans = this->params_.spans(this->missed(), true);
      if constexpr (D::host_addressable)
        if (const auto& rows = this->params_.row_spans(this->missed()); !rows.empty())
          kernel<op::element_step, D>::forward(ctx, rows, options, states, this->inputs());
      if (this->parts_ == nullptr) update(spans);
      else
        detail::update_in_parts(
            *this->parts_, spans, [&](const auto& span, auto& to) { add_ranges(span, states, to); }, update);
    }
    this->finish(ctx);
  }

  /// Divides later steps into parts, also the values within a parameter: bits stay. `by` is notified of the memory that
  /// each part uses (its values and states, not gradients) and must live until the last step; null ends that.
  void divide_by(update_parts* by) { this->parts_ = by; }

  /// Calls f(named_state) for every state of every parameter or piece, one after another. `model` is what the optimizer
  /// was made of. Missing states are allocated in `ctx`. Save and load them together with steps().
  template <class Model, class F>
  void for_each_state(context<D>& ctx, const Model& model, const F& f) {
    const auto states = make_states(ctx);
    const std::vector<std::string> names = this->params_.names(model);
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto& e = this->params_.all()[i];
      const auto pass = [&](std::string_view state, std::string_view dtype, void* data) {
        f(named_state<D>{names[i], state, dtype, e.param->size(), data, e.begin, e.whole});
      };
      for (std::size_t k = 0; k < states_in_use(); ++k)
        pass(Rule::states[k], dtype_name<stored_state>(), states.at[k] + e.first);
      if constexpr (compensated) pass("compensation", dtype_name<T>(), states.compensation + e.first);
    }
  }

 private:
  // Adds the memory of a span's values and states.
  void add_ranges(const update_span<T, G>& span, const rule_states<T, stored_state, most_states>& states,
                  std::vector<memory_range>& to) const {
    to.push_back({span.value, span.size * sizeof(T)});
    for (std::size_t k = 0; k < states_in_use(); ++k)
      to.push_back({states.at[k] + span.first, span.size * sizeof(stored_state)});
    if constexpr (compensated) to.push_back({states.compensation + span.first, span.size * sizeof(T)});
  }
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
      all.at[k] = this->template make_state<stored_state>(ctx, states_[k], n);
    if constexpr (compensated) all.compensation = this->template make_state<T>(ctx, compensation_, n);
    return all;
  }

  std::array<buffer<D>, most_states> states_;
  [[no_unique_address]] std::conditional_t<compensated, buffer<D>, std::false_type> compensation_;
};

template <class Model, class Rule, class... Settings>
element_optimizer(Model&, Rule, const Settings&...)
    -> element_optimizer<Rule, typename model_traits<Model>::value_type, typename model_traits<Model>::device,
                         typename model_traits<Model>::gradient_value_type>;

}  // namespace gradus
