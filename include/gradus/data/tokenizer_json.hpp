#pragma once
// tokenizer.json, the file in which Hugging Face's tokenizers keep a tokenizer. Needs nlohmann/json.

#include <filesystem>
#include <string>
#include <string_view>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "bpe.hpp"

namespace gradus {

/// Reads a tokenizer from the text of a tokenizer.json of GPT-2's kind: a byte-level BPE whose words are those of
/// GPT-2's pattern, with merges as "a b" or ["a", "b"]. `name` begins the message of an error. Throws gradus::error for
/// anything malformed, and for what would give other tokens than Hugging Face's: another model or pattern, a
/// normalizer, dropout, a token for a byte missing. The post-processor is not applied: nothing is added around a text.
bpe_tokenizer parse_tokenizer_json(std::string_view text, const std::string& name = "tokenizer.json");

/// Reads a tokenizer.json; see parse_tokenizer_json.
bpe_tokenizer read_tokenizer_json(const std::filesystem::path& path);

/// The text of a tokenizer.json that Hugging Face's tokenizers load, and that gives there the tokens it gives here.
std::string tokenizer_json(const bpe_tokenizer& tokenizer);

/// Writes a tokenizer.json in one step; see tokenizer_json and atomic_file.
void write_tokenizer_json(const std::filesystem::path& path, const bpe_tokenizer& tokenizer);

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "tokenizer_json.ipp"
#endif
