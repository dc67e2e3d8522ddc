#pragma once
// The members of a model: as its GRADUS_MEMBERS line names them, or as structured bindings find them.

#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../core/config.hpp"
#include "../core/error.hpp"

namespace gradus::detail {

template <class M>
concept names_members = requires { M::gradus_member_names(); };

// Whoever derives from a struct with GRADUS_MEMBERS has its line, which does not name what was added. A parameter is
// never so small that it fits into the padding of a struct.
template <class M, class Base>
constexpr bool adds_nothing_to(void (Base::*)() const) {
  return std::is_same_v<M, Base> || sizeof(M) == sizeof(Base);
}
template <class M>
inline constexpr bool has_members_line_of_its_own = adds_nothing_to<M>(&M::gradus_members_are_named_here);

// Initialises a member of any type, in expressions that are not evaluated.
struct anything {
  template <class T>
  constexpr operator T() const {
    throw error("never called");
  }
};

inline constexpr std::size_t most_tied_members = 12;

template <class M, class... A>
constexpr std::size_t count_members(A... a) {
  constexpr bool more = sizeof...(A) <= most_tied_members;  // are counted
  if constexpr (more && requires { M{a..., anything{}}; }) return count_members<M>(a..., anything{});
  else return sizeof...(A);
}

// A C array is counted by its elements. It begins at initialiser `At` of N where several fit into braces, but then
// fewer follow.
template <class M, std::size_t N, std::size_t At>
constexpr bool c_array_begins() {
  return []<std::size_t... I, std::size_t... J>(std::index_sequence<I...>, std::index_sequence<J...>) {
    constexpr auto any = [](std::size_t) { return anything{}; };
    return requires {
      M{any(I)..., {anything{}, anything{}}};
    } && !requires {
      M{any(I)..., {anything{}, anything{}}, any(J)...};
    };
  }(std::make_index_sequence<At>{}, std::make_index_sequence<N - At - 1>{});
}
template <class M, std::size_t N>
inline constexpr bool has_c_array = []<std::size_t... I>(std::index_sequence<I...>) {
  return (c_array_begins<M, N, I>() || ...);
}(std::make_index_sequence<N>{});

/// The members of an aggregate without GRADUS_MEMBERS, by structured bindings: up to 12, known by position.
template <class M>
constexpr auto tie_members(M& m) {
  constexpr std::size_t n = count_members<std::remove_const_t<M>>();
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
  else if constexpr (n == 10) {
    auto& [a, b, c, d, e, f, g, h, i, j] = m; return std::tie(a, b, c, d, e, f, g, h, i, j); }
  else if constexpr (n == 11) {
    auto& [a, b, c, d, e, f, g, h, i, j, k] = m; return std::tie(a, b, c, d, e, f, g, h, i, j, k); }
  else if constexpr (n == 12) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l] = m; return std::tie(a, b, c, d, e, f, g, h, i, j, k, l); }
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

}  // namespace gradus::detail
