#pragma once
// What the files of a model's folder say of its texts, besides tokenizer.json.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gradus {

/// What the files of a model's folder say of its texts: which tokens begin, end and pad them, how chats are written,
/// how text is generated where nothing else is asked for. It goes with the tokenizer wherever the model goes.
struct text_settings {
  /// tokenizer_config.json, special_tokens_map.json, generation_config.json, chat_template.jinja and
  /// additional_chat_templates/NAME.jinja as they are, by name; in token_ids.json the token ids of config.json.
  std::map<std::string, std::string> files = {};

  std::optional<std::string> begin = {}, end = {}, pad = {};  ///< bos_token, eos_token and pad_token, as spelled
  bool says_end = false;                                      ///< a file says what ends texts, be it that nothing does
  /// Ids at each of which generated text ends: eos_token_id of config.json and of generation_config.json.
  std::vector<std::int32_t> end_ids = {};
  std::optional<bool> adds_begin = {};  ///< whether `begin` is put before texts; nullopt: as tokenizer.json says
  std::map<std::string, std::string> chat_templates = {};  ///< by name; "default" writes chats
};

}  // namespace gradus
