#pragma once
// Training data in files: texts and token shards. Not part of gradus.hpp: tokenizer.json files need nlohmann/json.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "../io/random_access_file.hpp"
#include "../tokenizer/tokenizer.hpp"
#include "dataset_files.hpp"
#include "token_shard.hpp"
#include "tokens.hpp"

namespace gradus {

/// Tokens for training and for validation, from texts or from shards. A single byte-level text, and shards, stay in
/// their files and must not change (see random_access_file); several texts, and encoded texts, are in memory. Each
/// encoded text begins with the tokenizer's begin_token() and is separated from the next by its end_token(), if any.
///
/// Throws gradus::error, which names the file, if one is missing, damaged or empty, if texts and shards are mixed, or
/// if a part has no window of `context` + 1 tokens.
class dataset {
 public:
  dataset(const dataset_files& files, std::size_t context);

  const std::vector<token_sequence>& train() const { return train_; }
  const std::vector<token_sequence>& validation() const { return validation_; }
  /// The number of token ids; 0 if unknown, as for shards without a tokenizer.json.
  std::size_t vocabulary() const { return vocabulary_; }
  /// Null if tokens are bytes or the tokenizer is unknown.
  const gradus::tokenizer* tokenizer() const { return tokenizer_ ? &*tokenizer_ : nullptr; }
  /// True if each token is a byte of a text.
  bool bytes() const { return bytes_; }
  /// Tokens of both parts.
  std::size_t tokens() const;

  /// FNV-1a hash of the stored tokens; of sequences above 64 MiB, of evenly spread pieces.
  std::uint64_t fingerprint() const;

  /// Reads all tokens; throws gradus::error if one is not below `vocabulary`: a shard may hold any number.
  void check_tokens(std::size_t vocabulary) const;

  /// The files replaced, removed or rewritten since they were opened: "a.txt, b.txt". The tokens stay those opened.
  std::string replaced_files() const;

  /// True if a file of this name has tokens: *.bin.
  static bool is_shard(const std::filesystem::path& path);

 private:
  void open_folder(const std::filesystem::path& folder, std::vector<token_sequence>& train,
                   std::vector<token_sequence>& validation);
  token_sequence open_shard(const std::filesystem::path& path);
  std::vector<token_sequence> open(const std::vector<std::string>& paths);
  struct text_state {  // of a text in memory, when it was read
    std::filesystem::path path;
    std::uintmax_t size;
    std::filesystem::file_time_type modified;
    friend bool operator==(const text_state&, const text_state&) = default;
  };
  static text_state state_of(const std::filesystem::path& path);
  static std::size_t check_texts(const std::vector<std::string>& paths);  // returns their size
  std::unique_ptr<const random_access_file> open_text(const std::string& path);
  template <class Token>
  token_sequence encoded(const std::vector<std::string>& paths, const std::string& name);
  token_sequence joined(const std::vector<std::string>& paths, const std::string& name);
  template <class Token>
  token_sequence kept(std::vector<Token> tokens, const std::string& name);
  // Checks lengths. Shards of one corpus may end with a short one, which `may_be_short`.
  static std::vector<token_sequence> long_enough(std::vector<token_sequence> sequences, std::size_t context,
                                                 bool may_be_short);

  std::optional<gradus::tokenizer> tokenizer_;
  std::size_t vocabulary_ = 0;
  bool bytes_ = false;
  std::vector<std::shared_ptr<const random_access_file>> files_;
  std::vector<text_state> texts_;
  std::vector<std::shared_ptr<const void>> in_memory_;
  std::vector<token_sequence> train_, validation_;
};

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "dataset.ipp"
#endif
