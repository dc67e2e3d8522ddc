#pragma once
// The tokens of a language model as text: bytes, or the tokens of a tokenizer.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer.hpp"

namespace gradus {

/// The tokenizer whose tokens are bytes: a vocabulary of 256, for any text, without training.
struct byte_tokenizer {
  using token = std::uint8_t;
  static constexpr std::size_t vocabulary = 256;

  static std::vector<token> encode(std::string_view text) { return {text.begin(), text.end()}; }
  static std::string decode(std::span<const token> tokens) { return {tokens.begin(), tokens.end()}; }
};

/// Encodes texts for a language model and decodes its tokens.
class text_tokenizer {
 public:
  /// A tokenizer whose tokens are the bytes of a text.
  text_tokenizer() = default;
  /// The tokens of `by`; its begin_token(), if it has one, begins a text, and each of its end_tokens() ends one.
  explicit text_tokenizer(tokenizer by) : by_(std::move(by)), ends_(by_->end_tokens()) {}

  bool bytes() const { return !by_; }
  std::size_t vocabulary() const { return by_ ? by_->vocabulary() : byte_tokenizer::vocabulary; }
  /// The tokens of a text, after the token that begins a text, if there is one. Without it, an empty text becomes what
  /// separates texts: `<|endoftext|>` or a newline.
  std::vector<std::int32_t> encode(std::string_view text) const {
    std::vector<std::int32_t> tokens;
    if (by_ && by_->begin_token()) {
      tokens = by_->encode(text);
      tokens.insert(tokens.begin(), *by_->begin_token());
      return tokens;
    }
    if (text.empty() && by_ && by_->end_token()) return {*by_->end_token()};
    if (text.empty()) text = "\n";
    if (by_) return by_->encode(text);
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  }
  /// The bytes of a token, which need not be whole characters.
  std::string decode(std::int32_t token) const {
    return by_ ? by_->bytes_of(token) : std::string(1, static_cast<char>(token));
  }
  /// Whether a text ends at this token.
  bool ends_text(std::int32_t token) const { return std::ranges::find(ends_, token) != ends_.end(); }

 private:
  std::optional<tokenizer> by_;
  std::vector<std::int32_t> ends_;
};

}  // namespace gradus
