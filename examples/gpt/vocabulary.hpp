#pragma once
// What a model's tokens stand for: bytes, or the tokens of a tokenizer.json.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <gradus/data/bpe.hpp>
#include <gradus/data/text.hpp>
#include <gradus/data/tokenizer_json.hpp>

#include "config.hpp"

namespace gpt {

/// The tokenizer.json in the folder of a model's file; empty: there is none.
inline std::string tokenizer_beside(const std::filesystem::path& model) {
  const auto path = model.parent_path() / "tokenizer.json";
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) ? path.string() : std::string();
}

/// Reads a tokenizer.json. Throws gradus::error where the model has fewer tokens.
inline gr::bpe_tokenizer read_model_tokenizer(const std::string& file) {
  gr::bpe_tokenizer read = gr::read_tokenizer_json(file);
  if (read.vocabulary() > sizes.vocabulary)
    throw gr::error(file + ": has " + std::to_string(read.vocabulary()) +
                    " tokens, and the vocabulary of this program's model is " + std::to_string(sizes.vocabulary));
  return read;
}

class vocabulary {
 public:
  /// Of the tokenizer in a file; bytes where no file is named. Throws gradus::error where the model has fewer tokens.
  explicit vocabulary(const std::string& tokenizer) {
    if (tokenizer.empty()) return;
    bpe_ = read_model_tokenizer(tokenizer);
    end_ = bpe_->added_token_id("<|endoftext|>");
  }

  /// Whether each token is a byte.
  bool bytes() const { return !bpe_; }
  std::size_t size() const { return bpe_ ? bpe_->vocabulary() : gr::byte_tokenizer::vocabulary; }
  /// The tokens of a text. An empty one becomes what stands between texts: a newline, or the tokenizer's <|endoftext|>.
  std::vector<std::int32_t> encode(std::string_view text) const {
    if (text.empty() && end_) return {*end_};
    if (text.empty()) text = "\n";
    if (bpe_) return bpe_->encode(text);
    std::vector<std::int32_t> tokens;
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  }
  /// The bytes that a token stands for, which need not be whole characters.
  std::string text_of(std::int32_t id) const {
    return bpe_ ? std::string(bpe_->bytes_of(id)) : std::string(1, static_cast<char>(id));
  }
  /// Whether a text ends at this token.
  bool ends_text(std::int32_t id) const { return end_ && id == *end_; }

 private:
  std::optional<gr::bpe_tokenizer> bpe_;
  std::optional<std::int32_t> end_;
};

}  // namespace gpt
