#pragma once
// Walking the parameters of a model. A model is a plain struct, or a class with a GRADUS_MEMBERS line. Its members are
// parameters, other models, and std::array, std::vector, C arrays, std::tuple, std::pair, std::optional and
// std::unique_ptr of them.
//
// What cannot own a parameter is passed over: trivially copyable types (numbers, enumerators, pointers, settings),
// strings and tensors, and lists of such. A member of any other type might own one and does not compile.

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

#include "../tensor/param.hpp"
#include "members.hpp"

namespace gradus {

namespace detail {

/// How the walk looks into a type.
enum class part { parameter, list, tuple, holder, members, no_parameter, unknown };

template <class... Ms>
struct types {};

template <part Kind, class... Inner>
struct looked_into {
  static constexpr part kind = Kind;
  using inner = types<Inner...>;
};
// Classes of the standard library, and tensors.
template <class M>
struct standard_part : looked_into<part::unknown> {};
template <class M, std::size_t N>
struct standard_part<std::array<M, N>> : looked_into<part::list, M> {};
template <class M, class A>
struct standard_part<std::vector<M, A>> : looked_into<part::list, M> {};
template <class M, std::size_t N>
struct standard_part<M[N]> : looked_into<part::list, M> {};
template <class... Ms>
struct standard_part<std::tuple<Ms...>> : looked_into<part::tuple, Ms...> {};
template <class A, class B>
struct standard_part<std::pair<A, B>> : looked_into<part::tuple, A, B> {};
template <class M>
struct standard_part<std::optional<M>> : looked_into<part::holder, M> {};
template <class M, class Delete>
  requires(!std::is_array_v<M>)
struct standard_part<std::unique_ptr<M, Delete>> : looked_into<part::holder, M> {};
template <class C, class Traits, class A>
struct standard_part<std::basic_string<C, Traits, A>> : looked_into<part::no_parameter> {};
template <class T, class S, class D>
struct standard_part<tensor<T, S, D>> : looked_into<part::no_parameter> {};

// A pointer owns nothing; but one to a parameter or to a model looks like a part of this one.
template <class M>
inline constexpr bool points_at_model = false;
template <class M>
inline constexpr bool points_at_model<M*> = is_param<std::remove_cv_t<M>> || names_members<std::remove_cv_t<M>>;

// M without const. Parameters cannot be copied, so a trivially copyable type owns none.
template <class M>
constexpr part part_of() {
  if constexpr (is_param<M>) return part::parameter;
  if constexpr (names_members<M>) return part::members;
  if constexpr (points_at_model<M>) return part::unknown;
  if constexpr (standard_part<M>::kind != part::unknown) return standard_part<M>::kind;
  if constexpr (std::is_trivially_copyable_v<M>) return part::no_parameter;
  if constexpr (std::is_aggregate_v<M>) return part::members;
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
struct not_an_aggregate {};
template <class M>
struct points_at_a_model {};
template <class M>
struct more_than_12_members {};
template <class M>
struct c_array_without_a_name {};
template <class M>
struct members_besides_those_of_its_base {};

template <class M>
constexpr auto why_not_found() {
  if constexpr (points_at_model<M>) return types<points_at_a_model<M>>{};
  else if constexpr (part_of<M>() == part::unknown) return types<not_an_aggregate<M>>{};
  else if constexpr (part_of<M>() != part::members) return types<>{};
  else if constexpr (names_members<M>) {
    if constexpr (has_members_line_of_its_own<M>) return types<>{};
    else return types<members_besides_those_of_its_base<M>>{};
  } else {
    constexpr std::size_t count = count_members<M>();
    if constexpr (count > most_tied_members) return types<more_than_12_members<M>>{};
    else if constexpr (has_c_array<M, count>) return types<c_array_without_a_name<M>>{};
    else return types<>{};
  }
}

/// What a model of some type can own: the different kinds of parameters, and the reasons why some would not be found.
template <class Kinds, class Hidden>
struct contents {
  using kinds = Kinds;
  using hidden = Hidden;
  template <class K, class H>
  constexpr auto operator+(contents<K, H>) const {
    return contents<decltype(Kinds{} + K{}), decltype(Hidden{} + H{})>{};
  }
};

template <class... Ms>
constexpr types<std::remove_cvref_t<Ms>...> types_in(const std::tuple<Ms...>*);

// `Around` are the models that M is a part of: one may own more of its own type.
template <class M, class... Around>
constexpr auto contents_in() {
  constexpr part kind = part_of<M>();
  constexpr auto all = []<class... Inner>(types<Inner...>) {
    return (contents<types<>, types<>>{} + ... + contents_in<Inner, M, Around...>());
  };
  if constexpr ((std::is_same_v<M, Around> || ...)) return contents<types<>, types<>>{};
  else if constexpr (kind == part::parameter)
    return contents<types<param_kind<typename M::value_type, typename M::device, typename M::gradient_value_type>>,
                    types<>>{};
  else if constexpr (!std::is_same_v<decltype(why_not_found<M>()), types<>>)
    return contents<types<>, decltype(why_not_found<M>())>{};
  else if constexpr (kind == part::members)
    return all(decltype(types_in(static_cast<decltype(members_of(std::declval<M&>()))*>(nullptr))){});
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
                "for_each_param(model): parameters in a member of this type would not be found; give the type a public "
                "GRADUS_MEMBERS(...) line of its own, or leave the member out of the model's line");
  return all_parameters_are_found<hidden>;
}

// Where a part stands among its like; a std::optional or std::unique_ptr has one part, which needs no number.
struct only_one {};

// Calls f(position, part) for each part of m.
template <class M, class F>
constexpr void visit_parts(M& m, const F& f) {
  using raw = std::remove_const_t<M>;
  constexpr part kind = part_of<raw>();
  const auto each = [&](auto&& parts) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (f(I, std::get<I>(parts)), ...);
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
    each(members_of(m));
  }
}

template <class M, class F>
constexpr void visit(M& m, const F& f) {
  if constexpr (is_param<std::remove_const_t<M>>) f(m);
  else visit_parts(m, [&](auto, auto& inner) { visit(inner, f); });
}

// The name of a part of what is called `name`.
GRADUS_NOINLINE inline std::string name_of_part(const std::string& name, std::string_view part) {
  return name.empty() ? std::string(part) : std::string(name).append(".").append(part);
}
GRADUS_NOINLINE inline std::string name_of_part(const std::string& name, std::size_t position) {
  return name_of_part(name, std::string_view(std::to_string(position)));
}

// Adds the names of the parameters in m, which is called `name`. Of no visitor: it is compiled once for a model.
template <class M>
GRADUS_NOINLINE void add_names(std::vector<std::string>& names, const std::string& name, const M& m) {
  if constexpr (is_param<M>) {
    names.push_back(name);
  } else {
    visit_parts(m, [&](auto position, const auto& inner) {
      if constexpr (std::is_same_v<decltype(position), only_one>) add_names(names, name, inner);
      else if constexpr (names_members<M>)
        add_names(names, name_of_part(name, member_name(M::gradus_member_names(), position)), inner);
      else add_names(names, name_of_part(name, position), inner);
    });
  }
}

}  // namespace detail

/// Calls f(param) for every parameter of the model, in the order of the members. An empty std::optional or
/// std::unique_ptr has none. A model whose parameters cannot all be found does not compile.
template <class Model, class F>
constexpr void visit_params(Model& model, const F& f) {
  if constexpr (detail::check_members<std::remove_const_t<Model>>()) detail::visit(model, f);
}

/// The names of the parameters, in the order of visit_params: `blocks.3.attention.qkv.weight`. Members are named by a
/// GRADUS_MEMBERS line in their struct, and by position (`0`, `1`, …) where there is none.
template <class Model>
std::vector<std::string> param_names(const Model& model) {
  std::vector<std::string> names;
  if constexpr (detail::check_members<Model>()) detail::add_names(names, {}, model);
  return names;
}

/// Calls f(name, param) for every parameter, named as param_names() does.
template <class Model, class F>
void for_each_param(Model& model, const F& f) {
  if constexpr (detail::check_members<std::remove_const_t<Model>>()) {
    const std::vector<std::string> names = param_names(model);
    std::size_t number = 0;
    detail::visit(model, [&](auto& p) { f(std::string_view(names[number++]), p); });
  }
}

/// Forgets the gradients of all parameters, and gives their memory back. An optimizer's step does so itself.
template <class Model>
constexpr void clear_gradients(const Model& model) {
  visit_params(model, [](const auto& p) { p.clear_gradient(); });
}

/// Number of trainable values.
template <class Model>
constexpr std::size_t parameter_count(const Model& model) {
  std::size_t n = 0;
  visit_params(model, [&](const auto& p) { n += p.size(); });
  return n;
}

}  // namespace gradus
