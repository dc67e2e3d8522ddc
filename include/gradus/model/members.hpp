#pragma once
// Reads a type's GRADUS_MEMBERS line.

#include <cstddef>
#include <string_view>
#include <type_traits>

#include "../core/config.hpp"

namespace gradus::detail {

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

}  // namespace gradus::detail
