#pragma once
// Reads and writes tokenizer.json, the file format of Hugging Face's tokenizers. Needs nlohmann/json.

#include <filesystem>
#include <string>
#include <string_view>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "bpe.hpp"

namespace gradus {

/// Parses the text of a tokenizer.json like GPT-2's or Llama 3's: a byte-level BPE with the pattern of either, with
/// merges as "a b" or ["a", "b"]. `name` begins error messages. Throws gradus::error for malformed text, and for
/// features that would yield other tokens than Hugging Face's: another model or pattern, a normalizer, dropout, a byte
/// without a token. encode() adds nothing around a text; of the post-processor, only the token that it puts before a
/// text is read, as begin_token().
bpe_tokenizer parse_tokenizer_json(std::string_view text, const std::string& name = "tokenizer.json");

/// Reads a tokenizer.json; see parse_tokenizer_json.
bpe_tokenizer read_tokenizer_json(const std::filesystem::path& path);

/// The text of a tokenizer.json with which Hugging Face's tokenizers yield the same tokens.
std::string tokenizer_json(const bpe_tokenizer& tokenizer);

/// Writes a tokenizer.json atomically; see tokenizer_json and atomic_file.
void write_tokenizer_json(const std::filesystem::path& path, const bpe_tokenizer& tokenizer);

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "tokenizer_json.ipp"
#endif
