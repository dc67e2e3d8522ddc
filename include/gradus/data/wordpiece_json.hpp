#pragma once
// Reads and writes the tokenizer.json of BERT: Hugging Face's file format for WordPiece. Needs nlohmann/json.

#include <filesystem>
#include <string>
#include <string_view>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "wordpiece.hpp"

namespace gradus {

/// Parses the text of a tokenizer.json like BERT's: WordPiece with BertNormalizer, or no normalizer, BertPreTokenizer,
/// and a post-processor (BertProcessing or TemplateProcessing) that writes [CLS] A [SEP] and [CLS] A [SEP] B [SEP].
/// `name` begins error messages. Throws gradus::error for malformed text, and for features that would yield other
/// tokens than Hugging Face's. Ignores truncation and padding: model_input() has a length of its own.
wordpiece_tokenizer parse_wordpiece_json(std::string_view text, const std::string& name = "tokenizer.json");

/// Reads a tokenizer.json; see parse_wordpiece_json.
wordpiece_tokenizer read_wordpiece_json(const std::filesystem::path& path);

/// The text of a tokenizer.json with which Hugging Face's tokenizers yield the same tokens.
std::string wordpiece_json(const wordpiece_tokenizer& tokenizer);

/// Writes a tokenizer.json atomically; see wordpiece_json and atomic_file.
void write_wordpiece_json(const std::filesystem::path& path, const wordpiece_tokenizer& tokenizer);

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "wordpiece_json.ipp"
#endif
