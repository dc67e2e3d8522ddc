#pragma once
// The tokens of a vocabulary, by id and by text.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "../core/config.hpp"
#include "../core/error.hpp"

namespace gradus {

namespace detail {
/// Hashes texts, so that a map of strings can be asked for a view.
struct text_hash : std::hash<std::string_view> {
  using is_transparent = void;
};
}  // namespace detail

/// Tokens by id and by text. Ids may be left out.
class token_table {
 public:
  using token = std::int32_t;

  token_table() = default;
  /// Token `id` is texts[id]; where that is empty, there is none. Throws gradus::error for a text that occurs twice.
  explicit token_table(const std::vector<std::string>& texts);

  /// Adds a token. Throws gradus::error if it has no text, or if the text or the id is there already, or the id is far
  /// beyond the others, so that a small file takes no gigabytes.
  void add(const std::string& text, token id);
  /// The number of tokens.
  std::size_t count() const { return ids_.size(); }
  /// The number of ids: the largest plus one.
  std::size_t ids() const { return texts_.size(); }
  /// The text of a token; empty where the id is no token's.
  std::string_view text(token id) const {
    return id >= 0 && static_cast<std::size_t>(id) < texts_.size()
               ? std::string_view(texts_[static_cast<std::size_t>(id)])
               : std::string_view();
  }
  std::optional<token> find(std::string_view text) const {
    const auto found = ids_.find(text);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }
  /// The id of a text. Throws gradus::error, which begins with `what`, if it is no token.
  token at(std::string_view text, const std::string& what) const;
  /// The most bytes of a text.
  std::size_t longest() const { return longest_; }

  /// A text in a message: as JSON has it, shortened.
  static std::string shown(std::string_view text);

 private:
  std::vector<std::string> texts_;
  std::unordered_map<std::string, token, detail::text_hash, std::equal_to<>> ids_;
  std::size_t longest_ = 0;
};

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "token_table.ipp"
#endif
