#pragma once
// The chat format that a model's files name. Not part of gradus.hpp: it needs nlohmann/json.

#include <filesystem>
#include <optional>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "chat_format.hpp"

namespace gradus {

/// The format of a tokenizer_config.json, by its `chat_template`: a text, or a list of which "default" is taken; or else
/// by the file chat_template.jinja beside it. Nullopt if there is neither. Throws gradus::error as
/// recognised_chat_format() does, and for a file that is no such JSON.
std::optional<chat_format> read_chat_format(const std::filesystem::path& tokenizer_config);

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "tokenizer_config.ipp"
#endif
