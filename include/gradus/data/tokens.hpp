#pragma once
// Sequences of tokens, in memory or in files.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "../core/extent.hpp"
#include "../io/random_access_file.hpp"

namespace gradus {

/// The types that store tokens: integers of one, two or four bytes.
template <class T>
concept token_type =
    std::is_same_v<T, std::uint8_t> || std::is_same_v<T, std::uint16_t> || std::is_same_v<T, std::int32_t>;

/// A named sequence of tokens (a text, a shard) of one, two or four bytes: in memory, which must outlive it, or a file.
class token_sequence {
 public:
  template <token_type T>
  token_sequence(std::span<const T> tokens, std::string name)
      : data_(std::as_bytes(tokens).data()), size_(tokens.size()), token_bytes_(sizeof(T)), name_(std::move(name)) {}
  template <token_type T>
  token_sequence(const std::vector<T>& tokens, std::string name)
      : token_sequence(std::span<const T>(tokens), std::move(name)) {}
  /// The tokens of a file from byte `begin` on, stored like in memory.
  template <token_type T>
  static token_sequence in_file(std::shared_ptr<const random_access_file> file, std::size_t begin, std::string name) {
    token_sequence s(std::span<const T>(), std::move(name));
    s.begin_ = begin;
    s.size_ = (file->size() - begin) / sizeof(T);
    s.file_ = std::move(file);
    return s;
  }

  std::size_t size() const { return size_; }
  /// Bytes per token.
  std::size_t token_bytes() const { return token_bytes_; }
  const std::string& name() const { return name_; }
  /// The position of its first token in the sequence that part() was called on.
  std::size_t first() const { return first_; }
  /// `count` tokens from `start` on.
  token_sequence part(std::size_t start, std::size_t count) const {
    token_sequence p = *this;
    if (file_ != nullptr) p.begin_ += start * token_bytes_;
    else p.data_ += start * token_bytes_;
    p.size_ = count;
    p.first_ += start;
    return p;
  }
  /// A copy of this sequence in memory, its tokens read into `buffer` if they are in a file. Throws gradus::error if
  /// they cannot be read or the file has changed since it was opened.
  token_sequence read(std::vector<std::byte>& buffer) const {
    token_sequence r = *this;
    if (file_ == nullptr) return r;
    buffer.resize(size_ * token_bytes_);
    file_->read(begin_, buffer);
    r.data_ = buffer.data();
    r.file_ = nullptr;
    return r;
  }
  /// The stored bytes. Throws gradus::error if the tokens are in a file: read() them first.
  std::span<const std::byte> bytes() const {
    if (file_ != nullptr) throw error(name_ + ": the tokens are in a file; call read(buffer) first");
    return {data_, size_ * token_bytes_};
  }
  /// Calls f with the tokens as a std::span<const T>. Throws gradus::error if they are in a file: read() them first.
  template <class F>
  decltype(auto) visit(const F& f) const {
    const void* const data = bytes().data();
    if (token_bytes_ == 1) return f(std::span(static_cast<const std::uint8_t*>(data), size_));
    if (token_bytes_ == 2) return f(std::span(static_cast<const std::uint16_t*>(data), size_));
    return f(std::span(static_cast<const std::int32_t*>(data), size_));
  }
  /// Reads all tokens; throws gradus::error if one is not below `vocabulary`.
  void check_vocabulary(std::size_t vocabulary) const;

 private:
  const std::byte* data_;
  std::size_t size_, token_bytes_;
  std::string name_;
  std::shared_ptr<const random_access_file> file_;  // null: the tokens are at data_
  std::size_t begin_ = 0;                           // offset in the file
  std::size_t first_ = 0;
};

namespace detail {
[[noreturn]] void refuse_token(const token_sequence& from, std::size_t at, std::int64_t token, std::size_t vocabulary);
}

/// `Batch` windows of `Context` tokens, in rows, and as targets the same windows shifted by one token.
template <token_type Token, index_t Batch, index_t Context>
struct token_batch {
  std::vector<Token> inputs = std::vector<Token>(Batch * Context);
  std::vector<Token> targets = std::vector<Token>(Batch * Context);
};

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "tokens.ipp"
#endif
