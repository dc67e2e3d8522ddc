#pragma once
// Freezes parameters by member or by name, so that training leaves them as they are.

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>

#include "../core/error.hpp"
#include "parameters.hpp"

namespace gradus {

/// True if `text` matches `pattern`, in which `*` stands for any characters, also none: `blocks.*.attention.*`.
constexpr bool matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0, star = pattern.size(), resume = 0;  // `resume`: where the text after the last * begins
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') star = p++, resume = t;
    else if (p < pattern.size() && pattern[p] == text[t]) ++p, ++t;
    else if (star < pattern.size()) p = star + 1, t = ++resume;
    else return false;
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

namespace detail {
template <class Names>
inline constexpr bool is_name_pattern = std::convertible_to<const Names&, std::string_view>;
// Whether `names`, a pattern or a predicate, chooses a tensor.
template <class Names>
bool chooses(const Names& names, std::string_view name) {
  if constexpr (is_name_pattern<Names>) return matches(names, name);
  else return names(name);
}
template <class Names>
[[noreturn]] void fail_no_such_name(const std::string& call, const Names& pattern, const std::string& first) {
  throw error(call + ": '" + std::string(std::string_view(pattern)) +
              "' is the name of no parameter; the first one is '" + first + "'");
}
template <class Model, class Names>
std::size_t set_frozen(const char* call, Model& model, const Names& names, bool frozen) {
  std::size_t count = 0;
  std::string first;
  for_each_param(model, [&](std::string_view name, auto& p) {
    if (first.empty()) first = name;
    if (!chooses(names, name)) return;
    p.freeze(frozen);
    ++count;
  });
  if constexpr (is_name_pattern<Names>)
    if (count == 0) fail_no_such_name(std::string(call) + "(model, names)", names, first);
  return count;
}
}  // namespace detail

/// Freezes all parameters of a model, or of a part of one: `freeze(net.encoder)`, `freeze(net.head.weight)`. A frozen
/// parameter gets no gradient, and no update or weight decay from an optimizer, which may be created before or after;
/// its optimizer states stay as they are. This affects operations recorded later.
template <class Model>
constexpr void freeze(Model& model) {
  visit_params(model, [](auto& p) { p.freeze(); });
}
/// Freezes the parameters whose names (see param_names) fit, and returns their number. `names` is a pattern (see
/// matches), or a predicate: name -> bool. Throws error if a pattern fits no parameter.
template <class Model, class Names>
std::size_t freeze(Model& model, const Names& names) {
  return detail::set_frozen("freeze", model, names, true);
}
/// Ends freeze(), for all parameters of a model or of a part of one.
template <class Model>
constexpr void unfreeze(Model& model) {
  visit_params(model, [](auto& p) { p.freeze(false); });
}
/// Ends freeze() for the parameters whose names fit, and returns their number. Throws as freeze() does.
template <class Model, class Names>
std::size_t unfreeze(Model& model, const Names& names) {
  return detail::set_frozen("unfreeze", model, names, false);
}

}  // namespace gradus
