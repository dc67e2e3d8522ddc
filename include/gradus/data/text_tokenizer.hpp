#pragma once
// The tokens of a language model as text: bytes, or the tokens of a BPE tokenizer.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bpe.hpp"
#include "text.hpp"

namespace gradus {

/// Encodes texts for a language model and decodes its tokens.
class text_tokenizer {
 public:
  /// A tokenizer whose tokens are the bytes of a text.
  text_tokenizer() = default;
  /// The tokens of `bpe`; its begin_token() and end_token(), if it has them, begin and end a text.
  explicit text_tokenizer(bpe_tokenizer bpe) : bpe_(std::move(bpe)), end_(bpe_->end_token()) {}

  bool bytes() const { return !bpe_; }
  std::size_t vocabulary() const { return bpe_ ? bpe_->vocabulary() : byte_tokenizer::vocabulary; }
  /// The tokens of a text, after the token that begins a text, if there is one. Without it, an empty text becomes what
  /// separates texts: `<|endoftext|>` or a newline.
  std::vector<std::int32_t> encode(std::string_view text) const {
    std::vector<std::int32_t> tokens;
    if (bpe_ && bpe_->begin_token()) {
      tokens = bpe_->encode(text);
      tokens.insert(tokens.begin(), *bpe_->begin_token());
      return tokens;
    }
    if (text.empty() && end_) return {*end_};
    if (text.empty()) text = "\n";
    if (bpe_) return bpe_->encode(text);
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  }
  /// The bytes of a token, which need not be whole characters.
  std::string decode(std::int32_t token) const {
    return bpe_ ? std::string(bpe_->bytes_of(token)) : std::string(1, static_cast<char>(token));
  }
  /// Whether a text ends at this token.
  bool ends_text(std::int32_t token) const { return end_ && token == *end_; }

 private:
  std::optional<bpe_tokenizer> bpe_;
  std::optional<std::int32_t> end_;
};

}  // namespace gradus
