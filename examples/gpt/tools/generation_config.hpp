#pragma once
// generation_config.json, in which transformers looks for the tokens that begin, end and pad texts.

#include <filesystem>

#include <gradus/io/atomic_file.hpp>
#include <gradus/io/json.hpp>

namespace gpt {

/// Writes generation_config.json into a folder: the token ids that a config.json has, and `others`. Throws
/// gradus::error.
inline void write_generation_config(const std::filesystem::path& folder, const nlohmann::ordered_json& config,
                                    const nlohmann::ordered_json& others = nlohmann::ordered_json::object()) {
  nlohmann::ordered_json settings = others.empty() ? nlohmann::ordered_json{{"_from_model_config", true}} : others;
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"})
    if (const auto id = config.find(key); id != config.end() && !id->is_null()) settings[key] = *id;
  gradus::write_file_atomically(folder / "generation_config.json", settings.dump(2) + "\n");
}

}  // namespace gpt
