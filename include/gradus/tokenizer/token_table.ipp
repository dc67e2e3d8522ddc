#pragma once
#include <algorithm>

#include "../core/printable.hpp"
#include "token_table.hpp"

namespace gradus {

GRADUS_IMPL token_table::token_table(const std::vector<std::string>& texts) {
  texts_.reserve(texts.size());
  for (std::size_t id = 0; id < texts.size(); ++id)
    if (!texts[id].empty()) add(texts[id], static_cast<token>(id));
}

GRADUS_IMPL std::string token_table::shown(std::string_view text) {
  const std::string all = printable(text.substr(0, 200));
  return "\"" + (all.size() <= 58 ? all : all.substr(0, 54) + "…") + "\"";
}

GRADUS_IMPL void token_table::add(const std::string& text, token id) {
  if (text.empty()) throw error("a token has no text");
  if (id < 0) throw error("the token " + shown(text) + " has the id " + std::to_string(id));
  if (const std::string_view other = this->text(id); !other.empty())
    throw error(shown(text) + " and " + shown(other) + " have the same id " + std::to_string(id));
  if (!ids_.emplace(text, id).second) throw error("the token " + shown(text) + " occurs twice");
  const auto index = static_cast<std::size_t>(id);
  if (index > 2 * texts_.size() + 4096 && index > 2 * ids_.size() + 1024 + (std::size_t{1} << 20))
    throw error(shown(text) + " has the id " + std::to_string(id) + ", far outside a vocabulary of " +
                std::to_string(ids_.size()));
  if (index >= texts_.size()) texts_.resize(index + 1);
  texts_[index] = text;
  longest_ = std::max(longest_, text.size());
}

GRADUS_IMPL token_table::token token_table::at(std::string_view text, const std::string& what) const {
  if (const auto id = find(text)) return *id;
  throw error(what + " " + shown(text) + " is not in the vocabulary");
}

}  // namespace gradus
