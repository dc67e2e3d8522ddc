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
  /// Each byte is a token.
  text_tokenizer() = default;
  /// The tokens of `bpe`; its `<|endoftext|>`, if it has one, ends a text.
  explicit text_tokenizer(bpe_tokenizer bpe) : bpe_(std::move(bpe)), end_(bpe_->added_token_id("<|endoftext|>")) {}

  bool bytes() const { return !bpe_; }
  std::size_t vocabulary() const { return bpe_ ? bpe_->vocabulary() : byte_tokenizer::vocabulary; }
  /// The tokens of a text. An empty text becomes what separates texts: a newline, or `<|endoftext|>`.
  std::vector<std::int32_t> encode(std::string_view text) const {
    if (text.empty() && end_) return {*end_};
    if (text.empty()) text = "\n";
    if (bpe_) return bpe_->encode(text);
    std::vector<std::int32_t> tokens;
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
