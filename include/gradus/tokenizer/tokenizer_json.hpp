#pragma once
// Reads and writes tokenizer.json, the file format of Hugging Face's tokenizers. Needs nlohmann/json.

#include <filesystem>
#include <string>
#include <string_view>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "tokenizer.hpp"

namespace gradus {

/// Parses the text of a tokenizer.json. `name` begins error messages. Throws gradus::error for malformed text, and for
/// a part or an option that is not known, by its name. Ignores truncation and padding: input() has a length of its own.
tokenizer parse_tokenizer_json(std::string_view text, const std::string& name = "tokenizer.json");

/// Reads a tokenizer.json, and from the files beside it its settings(); see parse_tokenizer_json, read_text_settings.
tokenizer read_tokenizer_json(const std::filesystem::path& path);

/// The text of a tokenizer.json with which Hugging Face's tokenizers yield the same tokens.
std::string tokenizer_json(const tokenizer& of);

/// Writes a tokenizer.json atomically; see tokenizer_json and atomic_file. Its settings() are other files:
/// write_text_settings().
void write_tokenizer_json(const std::filesystem::path& path, const tokenizer& of);

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "tokenizer_json.ipp"
#endif
