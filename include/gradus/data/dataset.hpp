#pragma once
// Training data in files: texts and token shards. Not part of gradus.hpp, for a tokenizer.json needs nlohmann json.

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
#include "bpe.hpp"
#include "dataset_files.hpp"
#include "token_shard.hpp"
#include "tokens.hpp"

namespace gradus {

/// Tokens to train on and tokens for validation, from texts or from shards. A single text of bytes, and shards, stay in
/// their files, may be larger than memory, and must not change meanwhile (see random_access_file); several texts, and
/// texts that a tokenizer encodes, are in memory.
///
/// Throws gradus::error, in one line that names the file, where one is missing, damaged or empty, where texts and
/// shards are mixed, and where there is no window of `context` tokens and the one after it in both parts.
class dataset {
 public:
  dataset(const dataset_files& files, std::size_t context);

  const std::vector<token_sequence>& train() const { return train_; }
  const std::vector<token_sequence>& validation() const { return validation_; }
  /// How many ids tokens may have; 0: unknown, as of shards without a tokenizer.json.
  std::size_t vocabulary() const { return vocabulary_; }
  /// Null: tokens are bytes, or nobody knows.
  const bpe_tokenizer* tokenizer() const { return tokenizer_ ? &*tokenizer_ : nullptr; }
  /// Whether each token is a byte of a text.
  bool bytes() const { return bytes_; }
  /// How many tokens both parts have.
  std::size_t tokens() const;

  /// FNV-1a of the tokens, as they are stored: of all of them up to 64 MiB a sequence, of pieces spread evenly over a
  /// longer one.
  std::uint64_t fingerprint() const;

  /// Reads all tokens, and throws gradus::error where one is not below `vocabulary`: a shard may hold any number of 16
  /// bits.
  void check_tokens(std::size_t vocabulary) const;

  /// The files whose names are another file's by now, or nobody's, and the texts in memory that were rewritten: "a.txt,
  /// b.txt". The tokens stay those of the files that were opened.
  std::string replaced_files() const;

 private:
  static bool is_shard(const std::filesystem::path& path);
  void open_folder(const std::filesystem::path& folder, std::vector<token_sequence>& train,
                   std::vector<token_sequence>& validation);
  token_sequence open_shard(const std::filesystem::path& path);
  std::vector<token_sequence> open(const std::vector<std::string>& paths);
  struct text_state {  // of one whose tokens are in memory, when it was read
    std::filesystem::path path;
    std::uintmax_t size;
    std::filesystem::file_time_type modified;
    friend bool operator==(const text_state&, const text_state&) = default;
  };
  static text_state state_of(const std::filesystem::path& path);
  static std::size_t check_texts(const std::vector<std::string>& paths);  // gives their size
  std::unique_ptr<const random_access_file> open_text(const std::string& path);
  template <class Token>
  token_sequence encoded(const std::vector<std::string>& paths, const std::string& name);
  token_sequence joined(const std::vector<std::string>& paths, const std::string& name);
  template <class Token>
  token_sequence kept(std::vector<Token> tokens, const std::string& name);
  // What was cut into shards may have a short one at its end, which `may_be_short`.
  static std::vector<token_sequence> long_enough(std::vector<token_sequence> sequences, std::size_t context,
                                                 bool may_be_short);

  std::optional<bpe_tokenizer> tokenizer_;
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
