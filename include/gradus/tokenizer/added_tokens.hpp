#pragma once
// Tokens that are found in a text by their spelling, before it is split into words.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "../core/config.hpp"

namespace gradus {

/// A token that is found in a text by its spelling, before the split into words: `<|endoftext|>`, `[MASK]`.
struct added_token {
  std::string text;
  std::int32_t id = 0;
  bool special = true;       ///< a mark, and no text
  bool normalized = false;   ///< looked for after the others, in the normalized text, by its normalized spelling
  bool single_word = false;  ///< only where no character of a word is beside it
  bool lstrip = false;       ///< takes the white space before it
  bool rstrip = false;       ///< takes the white space after it

  friend bool operator==(const added_token&, const added_token&) = default;
};

namespace detail {

/// Finds added tokens in a text: the first one, and the longest of several that begin there.
class added_token_finder {
 public:
  using token_test = std::function<bool(const added_token&, std::size_t begin)>;

  added_token_finder() = default;
  /// The texts are what to look for, and not empty.
  explicit added_token_finder(std::vector<added_token> tokens);

  /// Calls `between(text)` for the parts without added tokens, none of which is empty, and `found(id, begin)` for those
  /// tokens, in their order; `is_token(token, begin)` may say that a text is none there.
  template <class Between, class Found>
  void split(std::string_view text, const Between& between, const Found& found, const token_test& is_token) const {
    std::size_t done = 0;
    for (std::size_t at = 0; at < text.size();) {
      const match m = find(text, at, is_token);
      if (m.token == nullptr) break;
      at = m.end;
      if (const match whole = widened(m, text, done); whole.token != nullptr) {
        if (done < whole.begin) between(text.substr(done, whole.begin - done));
        found(whole.token->id, m.begin);
        done = whole.end;
      }
    }
    if (done < text.size()) between(text.substr(done));
  }

 private:
  struct match {
    std::size_t begin = 0, end = 0;
    const added_token* token = nullptr;
  };
  match find(std::string_view text, std::size_t at, const token_test& is_token) const;
  /// The match with the white space that its token takes, from `done` on; none where it must be a word and is not.
  static match widened(match m, std::string_view text, std::size_t done);

  std::vector<added_token> tokens_;                       // longest first
  std::array<std::vector<std::uint32_t>, 256> starting_;  // of them, by the first byte
  std::string starts_;                                    // those bytes
};

}  // namespace detail

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "added_tokens.ipp"
#endif
