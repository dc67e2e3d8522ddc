#pragma once
// Reads and writes what the files of a model's folder say of its texts. Needs nlohmann/json.

#include <filesystem>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "text_settings.hpp"

namespace gradus {

/// Reads what the files of a folder say, as transformers does: chat_template.jinja comes before the `chat_template` of
/// tokenizer_config.json, and special_tokens_map.json counts beside a tokenizer_config.json without
/// `added_tokens_decoder`. Files that are not there say nothing. Throws gradus::error for one that is no JSON object.
text_settings read_text_settings(const std::filesystem::path& folder);

/// Writes the files into a folder, from which read_text_settings() reads the same. Throws gradus::error.
void write_text_settings(const std::filesystem::path& folder, const text_settings& of);

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "text_settings_json.ipp"
#endif
