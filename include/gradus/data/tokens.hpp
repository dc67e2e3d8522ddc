#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "../core/extent.hpp"

namespace gradus {

/// What a token may be stored as: one byte, two, or four.
template <class T>
concept token_type =
    std::is_same_v<T, std::uint8_t> || std::is_same_v<T, std::uint16_t> || std::is_same_v<T, std::int32_t>;

/// Tokens that belong together (a text, a shard), stored in one, two or four bytes each, and what errors call them. Holds no tokens:
/// they must outlive it.
class token_sequence {
 public:
  template <token_type T>
  token_sequence(std::span<const T> tokens, std::string name)
      : data_(tokens.data()), size_(tokens.size()), token_bytes_(sizeof(T)), name_(std::move(name)) {}
  template <token_type T>
  token_sequence(const std::vector<T>& tokens, std::string name)
      : token_sequence(std::span<const T>(tokens), std::move(name)) {}

  std::size_t size() const { return size_; }
  const std::string& name() const { return name_; }
  /// The bytes of the tokens, as they are stored.
  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_ * token_bytes_}; }
  /// `count` tokens from `start` on.
  token_sequence part(std::size_t start, std::size_t count) const {
    token_sequence p = *this;
    p.data_ = bytes().data() + start * token_bytes_;
    p.size_ = count;
    return p;
  }
  /// Calls f with the tokens as a std::span<const T>.
  template <class F>
  decltype(auto) visit(const F& f) const {
    if (token_bytes_ == 1) return f(std::span(static_cast<const std::uint8_t*>(data_), size_));
    if (token_bytes_ == 2) return f(std::span(static_cast<const std::uint16_t*>(data_), size_));
    return f(std::span(static_cast<const std::int32_t*>(data_), size_));
  }

 private:
  const void* data_;
  std::size_t size_, token_bytes_;
  std::string name_;
};

/// `Batch` windows of `Context` tokens, row after row, and as targets the same windows one token later.
template <token_type Token, index_t Batch, index_t Context>
struct token_batch {
  std::vector<Token> inputs = std::vector<Token>(Batch * Context);
  std::vector<Token> targets = std::vector<Token>(Batch * Context);
};

}  // namespace gradus
