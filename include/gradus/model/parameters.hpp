#pragma once
// Visits the parameters and states of a model. A model is a struct or class with a GRADUS_MEMBERS line. The line may
// name parameters, states, other models, and std::array, std::vector, C arrays, std::tuple, std::pair, std::optional
// and std::unique_ptr of them.
//
// The visit skips types that own neither: trivially copyable types (numbers, enumerators, pointers, settings), strings,
// tensors, and containers of them. A member of any other type could own one and does not compile.

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "../core/config.hpp"
#include "../tensor/param.hpp"
#include "../tensor/state.hpp"

namespace gradus {

namespace detail {

template <class M>
concept names_members = requires { M::gradus_member_names(); };

// A derived struct inherits the base's GRADUS_MEMBERS, which does not list its own members. Every parameter is too
// large for the padding of a struct, so equal sizes mean that none was added.
template <class M, class Base>
constexpr bool adds_nothing_to(void (Base::*)() const) {
  return std::is_same_v<M, Base> || sizeof(M) == sizeof(Base);
}
template <class M>
inline constexpr bool has_members_line_of_its_own = adds_nothing_to<M>(&M::gradus_members_are_named_here);

/// The `i`-th of the comma-separated names that GRADUS_MEMBERS wrote down.
constexpr std::string_view member_name(std::string_view all, std::size_t i) {
  for (; i > 0; --i) all.remove_prefix(all.find(',') + 1);
  all = all.substr(0, all.find(','));
  while (!all.empty() && all.front() == ' ') all.remove_prefix(1);
  while (!all.empty() && all.back() == ' ') all.remove_suffix(1);
  return all;
}

/// How the visit treats a type.
enum class part { parameter, state, list, tuple, holder, members, no_parameter, unknown };

template <class... Ms>
struct types {};

template <part Kind, class... Inner>
struct part_is {
  static constexpr part kind = Kind;
  using inner = types<Inner...>;
};
// Classes of the standard library, and tensors.
template <class M>
struct standard_part : part_is<part::unknown> {};
template <class M, std::size_t N>
struct standard_part<std::array<M, N>> : part_is<part::list, M> {};
template <class M, class A>
struct standard_part<std::vector<M, A>> : part_is<part::list, M> {};
template <class M, std::size_t N>
struct standard_part<M[N]> : part_is<part::list, M> {};
template <class... Ms>
struct standard_part<std::tuple<Ms...>> : part_is<part::tuple, Ms...> {};
template <class A, class B>
struct standard_part<std::pair<A, B>> : part_is<part::tuple, A, B> {};
template <class M>
struct standard_part<std::optional<M>> : part_is<part::holder, M> {};
template <class M, class Delete>
  requires(!std::is_array_v<M>)
struct standard_part<std::unique_ptr<M, Delete>> : part_is<part::holder, M> {};
template <class C, class Traits, class A>
struct standard_part<std::basic_string<C, Traits, A>> : part_is<part::no_parameter> {};
template <class T, class S, class D>
struct standard_part<tensor<T, S, D>> : part_is<part::no_parameter> {};

// A pointer owns nothing; but one to a parameter or to a model looks like a part of this one.
template <class M>
inline constexpr bool points_at_model = false;
template <class M>
inline constexpr bool points_at_model<M*> = is_model_tensor<std::remove_cv_t<M>> || names_members<std::remove_cv_t<M>>;

// M without const. Parameters and states are not copyable, so a trivially copyable type owns none.
template <class M>
constexpr part part_of() {
  if constexpr (is_param<M>) return part::parameter;
  if constexpr (is_state<M>) return part::state;
  if constexpr (names_members<M>) return part::members;
  if constexpr (points_at_model<M>) return part::unknown;
  if constexpr (standard_part<M>::kind != part::unknown) return standard_part<M>::kind;
  if constexpr (std::is_trivially_copyable_v<M>) return part::no_parameter;
  return part::unknown;
}
template <class M>
constexpr part part_of_element(types<M>) {
  return part_of<M>();
}

/// Element type and device of parameters.
template <class T, class D, class G = T>
struct param_kind {
  using gradient_value_type = G;
  using value_type = T;
  using device = D;
};

// Sets of types, added up.
template <class... A>
constexpr auto operator+(types<A...> a, types<>) {
  return a;
}
template <class... A, class B, class... More>
constexpr auto operator+(types<A...> a, types<B, More...>) {
  if constexpr ((std::is_same_v<A, B> || ...)) return a + types<More...>{};
  else return types<A..., B>{} + types<More...>{};
}

/// Why parameters in an M would not be found.
template <class M>
struct no_members_line {};
template <class M>
struct points_at_a_model {};
template <class M>
struct members_besides_those_of_its_base {};

template <class M>
constexpr auto why_not_found() {
  if constexpr (points_at_model<M>) return types<points_at_a_model<M>>{};
  else if constexpr (part_of<M>() == part::unknown) return types<no_members_line<M>>{};
  else if constexpr (part_of<M>() != part::members) return types<>{};
  else if constexpr (has_members_line_of_its_own<M>) return types<>{};
  else return types<members_besides_those_of_its_base<M>>{};
}

/// The kinds of trained parameters that a type can own, the types in it whose parameters would not be found, and the
/// devices of its other tensors.
template <class Kinds, class Hidden, class StateDevices = types<>>
struct contents {
  using kinds = Kinds;
  using hidden = Hidden;
  using state_devices = StateDevices;
  template <class K, class H, class S>
  constexpr auto operator+(contents<K, H, S>) const {
    return contents<decltype(Kinds{} + K{}), decltype(Hidden{} + H{}), decltype(StateDevices{} + S{})>{};
  }
};

template <class... Ms>
constexpr types<std::remove_cvref_t<Ms>...> types_in(const std::tuple<Ms...>*);

// `Around` are the models that M is a part of; a model may own models of its own type.
template <class M, class... Around>
constexpr auto contents_in() {
  constexpr part kind = part_of<M>();
  constexpr auto all = []<class... Inner>(types<Inner...>) {
    return (contents<types<>, types<>>{} + ... + contents_in<Inner, M, Around...>());
  };
  if constexpr ((std::is_same_v<M, Around> || ...)) return contents<types<>, types<>>{};
  else if constexpr (kind == part::state) return contents<types<>, types<>, types<typename M::device>>{};
  else if constexpr (kind == part::parameter) {
    using own = param_kind<typename M::value_type, typename M::device, typename M::gradient_value_type>;
    if constexpr (M::trains) return contents<types<own>, types<>>{};
    else return contents<types<>, types<>, types<typename M::device>>{};
  } else if constexpr (!std::is_same_v<decltype(why_not_found<M>()), types<>>)
    return contents<types<>, decltype(why_not_found<M>())>{};
  else if constexpr (kind == part::members)
    return all(decltype(types_in(static_cast<decltype(std::declval<M&>().gradus_members())*>(nullptr))){});
  else return all(typename standard_part<M>::inner{});
}
template <class Model>
using contents_of = decltype(contents_in<std::remove_cv_t<Model>>());

template <class Reasons>
inline constexpr bool all_parameters_are_found = std::is_same_v<Reasons, types<>>;
template <class Model>
constexpr bool check_members() {
  using hidden = typename contents_of<Model>::hidden;
  static_assert(all_parameters_are_found<hidden>,
                "for_each_param(model): a type in the model has no public GRADUS_MEMBERS(...) line of its own, so its "
                "parameters would not be found; add the line, or leave the member out of its owner's line");
  return all_parameters_are_found<hidden>;
}

// The position of the part in a std::optional or std::unique_ptr, which the parameter's name leaves out.
struct only_one {};

// Calls f(position, part) for each part of m.
template <class M, class F>
constexpr void visit_parts(M& m, const F& f) {
  using raw = std::remove_const_t<M>;
  constexpr part kind = part_of<raw>();
  const auto each = [&](auto&& parts) {
    [&]<std::size_t... Is>(std::index_sequence<Is...>) {
      (f(Is, std::get<Is>(parts)), ...);
    }(std::make_index_sequence<std::tuple_size_v<std::remove_cvref_t<decltype(parts)>>>{});
  };
  if constexpr (kind == part::list) {
    if constexpr (part_of_element(typename standard_part<raw>::inner{}) != part::no_parameter) {
      std::size_t i = 0;
      for (auto& inner : m) f(i++, inner);
    }
  } else if constexpr (kind == part::holder) {
    if constexpr (std::is_const_v<M>) m ? f(only_one{}, std::as_const(*m)) : void();
    else m ? f(only_one{}, *m) : void();
  } else if constexpr (kind == part::tuple) {
    each(m);
  } else if constexpr (kind == part::members) {
    each(m.gradus_members());
  }
}

// Which tensors of a model a visit takes.
struct params_only {
  template <class M>
  static constexpr bool takes = is_param<M>;
};
struct trained_only {
  template <class M>
  static constexpr bool takes = [] {
    if constexpr (is_param<M>) return M::trains;
    else return false;
  }();
};
struct trained_and_states {
  template <class M>
  static constexpr bool takes = [] {
    if constexpr (is_state<M>) return !M::is_constant;
    else return trained_only::takes<M>;
  }();
};
struct states_only {
  template <class M>
  static constexpr bool takes = is_state<M>;
};
struct params_and_states {
  template <class M>
  static constexpr bool takes = is_model_tensor<M>;
};

template <class Which, class M, class F>
constexpr void visit(M& m, const F& f) {
  if constexpr (Which::template takes<std::remove_const_t<M>>) f(m);
  else visit_parts(m, [&](auto, auto& inner) { visit<Which>(inner, f); });
}

// Joins the path of an owner and the name of a part.
GRADUS_NOINLINE inline std::string name_of_part(const std::string& name, std::string_view part) {
  return name.empty() ? std::string(part) : std::string(name).append(".").append(part);
}
GRADUS_NOINLINE inline std::string name_of_part(const std::string& name, std::size_t position) {
  return name_of_part(name, std::string_view(std::to_string(position)));
}

// Adds the names of the tensors in m, whose own path is `name`. It takes no visitor, so that a model compiles it once
// for each `Which`.
template <class Which, class M>
GRADUS_NOINLINE void add_names(std::vector<std::string>& names, const std::string& name, const M& m) {
  if constexpr (Which::template takes<M>) {
    names.push_back(name);
  } else {
    visit_parts(m, [&](auto position, const auto& inner) {
      if constexpr (std::is_same_v<decltype(position), only_one>) add_names<Which>(names, name, inner);
      else if constexpr (names_members<M>)
        add_names<Which>(names, name_of_part(name, member_name(M::gradus_member_names(), position)), inner);
      else add_names<Which>(names, name_of_part(name, position), inner);
    });
  }
}
template <class Which, class Model>
std::vector<std::string> names_in(const Model& model) {
  std::vector<std::string> names;
  if constexpr (check_members<Model>()) add_names<Which>(names, {}, model);
  return names;
}
// Calls f(name, tensor).
template <class Which, class Model, class F>
void for_each(Model& model, const F& f) {
  if constexpr (check_members<std::remove_const_t<Model>>()) {
    const std::vector<std::string> names = names_in<Which>(std::as_const(model));
    std::size_t number = 0;
    visit<Which>(model, [&](auto& p) { f(std::string_view(names[number++]), p); });
  }
}

}  // namespace detail

/// Calls f(param) for every parameter of the model, in the order of the members. An empty std::optional or
/// std::unique_ptr has none. A model in which some type lacks a GRADUS_MEMBERS line does not compile.
template <class Model, class F>
constexpr void visit_params(Model& model, const F& f) {
  if constexpr (detail::check_members<std::remove_const_t<Model>>()) detail::visit<detail::params_only>(model, f);
}
/// Calls f(state) for every state of the model, in the order of the members.
template <class Model, class F>
constexpr void visit_states(Model& model, const F& f) {
  if constexpr (detail::check_members<std::remove_const_t<Model>>()) detail::visit<detail::states_only>(model, f);
}

/// Calls f(param) for every parameter that a training may change: all but those with a frozen policy.
template <class Model, class F>
constexpr void visit_trained(Model& model, const F& f) {
  if constexpr (detail::check_members<std::remove_const_t<Model>>()) detail::visit<detail::trained_only>(model, f);
}

/// The names of the parameters, in the order of visit_params: `blocks.3.attention.qkv.weight`. A member has its name in
/// the GRADUS_MEMBERS line, an element of a container or tuple its position.
template <class Model>
std::vector<std::string> param_names(const Model& model) {
  return detail::names_in<detail::params_only>(model);
}

/// The names of the parameters that a training may change.
template <class Model>
std::vector<std::string> trained_names(const Model& model) {
  return detail::names_in<detail::trained_only>(model);
}

/// Calls f(name, param) for every parameter, named as param_names() does.
template <class Model, class F>
void for_each_param(Model& model, const F& f) {
  detail::for_each<detail::params_only>(model, f);
}
/// Calls f(name, tensor) for every parameter and state, in the order of the members: what model files hold.
template <class Model, class F>
void for_each_tensor(Model& model, const F& f) {
  detail::for_each<detail::params_and_states>(model, f);
}

/// Calls f(name, param) for every parameter that a training may change.
template <class Model, class F>
void for_each_trained(Model& model, const F& f) {
  detail::for_each<detail::trained_only>(model, f);
}
/// Calls f(name, tensor) for every parameter that a training may change, and every state but constants:
/// what checkpoints hold.
template <class Model, class F>
void for_each_trained_tensor(Model& model, const F& f) {
  detail::for_each<detail::trained_and_states>(model, f);
}

/// Frees the gradients of all parameters. An optimizer's step does so itself.
template <class Model>
constexpr void clear_gradients(const Model& model) {
  visit_params(model, [](const auto& p) { p.clear_gradient(); });
}

/// Number of trainable values, frozen ones included; states do not count.
template <class Model>
constexpr std::size_t parameter_count(const Model& model) {
  std::size_t n = 0;
  visit_params(model, [&](const auto& p) { n += p.size(); });
  return n;
}

}  // namespace gradus
