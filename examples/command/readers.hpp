#pragma once
// What files say of a model. Its source alone includes what reads JSON, which takes seconds to compile.

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "../bert/architecture.hpp"

namespace command {

/// Names and values, as text.
using facts = std::map<std::string, std::string>;
/// The value of a name; empty if there is none.
inline std::string value_of(const facts& all, const std::string& name) {
  const auto found = all.find(name);
  return found == all.end() ? "" : found->second;
}

/// The object in a JSON file: numbers and texts as they are, 1 for true and 0 for false, of an object or an array its
/// number of entries, and nothing for null. The first text of an array has the key "KEY[0]". Throws gradus::error.
facts read_json_object(const std::filesystem::path& file);

/// The object in the config.json that a GGUF file would be given; see read_json_object. Throws gradus::error.
facts read_gguf_config(const std::filesystem::path& file);

/// The metadata of a safetensors file. Throws gradus::error.
facts read_metadata(const std::filesystem::path& file);

/// The sizes, by the names of their flags, and the architecture of a model of the Llama family, whose config.json this
/// is. Its context is the longest. Throws gradus::error for what is none of the family, and for keys that are not
/// known.
facts read_llama_sizes(const std::filesystem::path& config);

/// Whether a folder's files say how its model writes chats. Throws gradus::error for a template in no known format.
bool says_chat_format(const std::filesystem::path& folder);

/// Throws gradus::error for a config.json of a model that is code of its own, or quantised.
void check_plain(const std::filesystem::path& config);

/// What says how chats are written: the name of a format, or where it is empty a tokenizer_config.json.
struct chat_source {
  std::string name;
  std::filesystem::path tokenizer_config;
};
/// Throws gradus::error, with file and line, for examples that cannot be read, and for chats that cannot be written so;
/// null: a file that is read later says how. Returns a line that names the keys that are ignored; empty if there are
/// none.
std::string check_examples(const std::filesystem::path& file, const chat_source* chats);

/// The files of tensors that an index names. Throws gradus::error.
std::vector<std::string> read_shards(const std::filesystem::path& index);

/// What a folder of Hugging Face's says of an encoder, or of one that `embeds`. Throws gradus::error.
bert::description read_encoder(const std::filesystem::path& folder, bool embeds);

/// The number of tokens of a tokenizer.json. Throws gradus::error.
std::size_t count_tokens(const std::filesystem::path& tokenizer);

}  // namespace command
