#pragma once
// Tokens that are found in a text by their spelling, before it is split into words.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "../core/config.hpp"

namespace gradus {

/// A token that is found in a text by its spelling, before the split into words: `<|endoftext|>`, `[MASK]`.
struct added_token {
  std::string text;
  std::int32_t id = 0;
  bool special = true;
  /// Searched for after the others, and in the normalized text, if there is a normalizer: `normalized` in a
  /// tokenizer.json.
  bool second = false;
};

namespace detail {

/// Finds added tokens in a text: the first one, and the longest of several that begin there.
class added_token_finder {
 public:
  struct entry {
    std::string text;  // not empty
    std::int32_t id;
  };

  added_token_finder() = default;
  explicit added_token_finder(std::vector<entry> tokens);

  /// Calls `between(text)` for the parts without added tokens and `found(id)` for those tokens, in their order.
  template <class Between, class Found>
  void split(std::string_view text, const Between& between, const Found& found) const {
    while (!text.empty()) {
      const match m = find(text);
      if (m.token == nullptr) break;
      between(text.substr(0, m.begin));
      found(m.token->id);
      text.remove_prefix(m.begin + m.token->text.size());
    }
    between(text);
  }

 private:
  struct match {
    std::size_t begin = std::string_view::npos;
    const entry* token = nullptr;
  };
  match find(std::string_view text) const;

  std::vector<entry> tokens_;  // longest first
  std::string starts_;         // their first characters
};

}  // namespace detail

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "added_tokens.ipp"
#endif
