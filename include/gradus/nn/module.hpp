#pragma once
// Walking the parameters of a model. A model is a plain struct; its members are parameters, other such structs, and
// std::array or std::vector of them. Anything else (a dropout rate, say) is passed over.

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "../core/config.hpp"
#include "../tensor/param.hpp"

namespace gradus {

namespace detail {

template <class M>
concept names_members = requires { M::gradus_member_names(); };

template <class M>
inline constexpr bool is_list = false;
template <class M, std::size_t N>
inline constexpr bool is_list<std::array<M, N>> = true;
template <class M>
inline constexpr bool is_list<std::vector<M>> = true;

struct anything {
  template <class T>
  constexpr operator T() const;
};

template <class M, class... A>
constexpr std::size_t count_members(A... a) {
  if constexpr (sizeof...(A) > 16) return 0;
  else if constexpr (requires { M{a..., anything{}}; }) return count_members<M>(a..., anything{});
  else return sizeof...(A);
}

/// The members of an aggregate without GRADUS_MEMBERS, by structured bindings: up to 12, known by position.
template <class M>
constexpr auto tie_members(M& m) {
  constexpr std::size_t n = count_members<std::remove_const_t<M>>();
  static_assert(n <= 12, "for_each_param(model): a model with more than 12 members needs a GRADUS_MEMBERS(...) line");
  // clang-format off
  if constexpr (n == 1) { auto& [a] = m; return std::tie(a); }
  else if constexpr (n == 2) { auto& [a, b] = m; return std::tie(a, b); }
  else if constexpr (n == 3) { auto& [a, b, c] = m; return std::tie(a, b, c); }
  else if constexpr (n == 4) { auto& [a, b, c, d] = m; return std::tie(a, b, c, d); }
  else if constexpr (n == 5) { auto& [a, b, c, d, e] = m; return std::tie(a, b, c, d, e); }
  else if constexpr (n == 6) { auto& [a, b, c, d, e, f] = m; return std::tie(a, b, c, d, e, f); }
  else if constexpr (n == 7) { auto& [a, b, c, d, e, f, g] = m; return std::tie(a, b, c, d, e, f, g); }
  else if constexpr (n == 8) { auto& [a, b, c, d, e, f, g, h] = m; return std::tie(a, b, c, d, e, f, g, h); }
  else if constexpr (n == 9) { auto& [a, b, c, d, e, f, g, h, i] = m; return std::tie(a, b, c, d, e, f, g, h, i); }
  else if constexpr (n == 10) { auto& [a, b, c, d, e, f, g, h, i, j] = m; return std::tie(a, b, c, d, e, f, g, h, i, j); }
  else if constexpr (n == 11) { auto& [a, b, c, d, e, f, g, h, i, j, k] = m; return std::tie(a, b, c, d, e, f, g, h, i, j, k); }
  else if constexpr (n == 12) { auto& [a, b, c, d, e, f, g, h, i, j, k, l] = m; return std::tie(a, b, c, d, e, f, g, h, i, j, k, l); }
  else return std::tie();
  // clang-format on
}

/// The `i`-th of the comma-separated names that GRADUS_MEMBERS wrote down.
constexpr std::string_view member_name(std::string_view all, std::size_t i) {
  for (; i > 0; --i) all.remove_prefix(all.find(',') + 1);
  all = all.substr(0, all.find(','));
  while (!all.empty() && all.front() == ' ') all.remove_prefix(1);
  while (!all.empty() && all.back() == ' ') all.remove_suffix(1);
  return all;
}

template <class M>
constexpr auto members_of(M& m) {
  if constexpr (names_members<std::remove_const_t<M>>) return m.gradus_members();
  else return tie_members(m);
}

template <class M, class F>
constexpr void visit(M& m, const F& f) {
  using raw = std::remove_const_t<M>;
  if constexpr (is_param<raw>) {
    f(m);
  } else if constexpr (is_list<raw>) {
    for (auto& part : m) visit(part, f);
  } else if constexpr (names_members<raw> || (std::is_aggregate_v<raw> && std::is_class_v<raw>)) {
    std::apply([&](auto&... member) { (visit(member, f), ...); }, members_of(m));
  }
}

template <class M, class F>
void visit_named(const std::string& name, M& m, const F& f) {
  using raw = std::remove_const_t<M>;
  const auto join = [&](std::string_view part) {
    return name.empty() ? std::string(part) : name + "." + std::string(part);
  };
  if constexpr (is_param<raw>) {
    f(std::string_view(name), m);
  } else if constexpr (is_list<raw>) {
    std::size_t i = 0;
    for (auto& part : m) visit_named(join(std::to_string(i++)), part, f);
  } else if constexpr (names_members<raw> || (std::is_aggregate_v<raw> && std::is_class_v<raw>)) {
    std::size_t i = 0;
    const auto part_name = [&] {
      if constexpr (names_members<raw>) return join(member_name(raw::gradus_member_names(), i++));
      else return join(std::to_string(i++));
    };
    std::apply([&](auto&... member) { (visit_named(part_name(), member, f), ...); }, members_of(m));
  }
}

}  // namespace detail

/// Calls f(param) for every parameter of the model, in the order of the members.
template <class Model, class F>
constexpr void visit_params(Model& model, const F& f) {
  detail::visit(model, f);
}

/// Calls f(name, param) for every parameter: `blocks.3.attention.qkv.weight`. Members are named by a GRADUS_MEMBERS line in
/// their struct, and by position (`0`, `1`, …) where there is none.
template <class Model, class F>
void for_each_param(Model& model, const F& f) {
  detail::visit_named(std::string(), model, f);
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
