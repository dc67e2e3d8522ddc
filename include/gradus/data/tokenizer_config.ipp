#pragma once
#include <string>
#include <system_error>

#include "../io/json.hpp"
#include "../io/text_file.hpp"
#include "tokenizer_config.hpp"

namespace gradus {

GRADUS_IMPL std::optional<chat_format> read_chat_format(const std::filesystem::path& tokenizer_config) {
  const std::string path = tokenizer_config.string();
  const nlohmann::json values = parse_json(read_text(tokenizer_config), path);
  if (!values.is_object()) throw error(path + ": is no JSON object");
  // A token is its text, or an object with its "content".
  const auto text = [](const nlohmann::json& from, const char* key, const char* within) {
    const auto found = from.is_object() ? from.find(key) : from.end();
    if (found == from.end()) return std::string();
    if (found->is_string()) return found->get<std::string>();
    return found->is_object() && found->contains(within) && (*found)[within].is_string()
               ? (*found)[within].get<std::string>()
               : std::string();
  };
  std::string written = text(values, "chat_template", "default");
  if (const auto list = values.find("chat_template"); list != values.end() && list->is_array())
    for (const nlohmann::json& one : *list)
      if (text(one, "name", "") == "default") written = text(one, "template", "");
  std::error_code ignored;
  if (const auto beside = tokenizer_config.parent_path() / "chat_template.jinja";
      written.empty() && std::filesystem::exists(beside, ignored))
    written = read_text(beside);
  if (written.empty()) {
    if (values.contains("chat_template") && !values["chat_template"].is_null())
      throw error(path + ": chat_template: is no text, and no list with a \"default\"");
    return std::nullopt;
  }
  try {
    return recognised_chat_format(written, text(values, "bos_token", "content"), text(values, "eos_token", "content"));
  } catch (const error& problem) { throw error(path + ": " + problem.what()); }
}

}  // namespace gradus
