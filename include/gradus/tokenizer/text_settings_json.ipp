#pragma once
#include <algorithm>
#include <limits>
#include <system_error>

#include "../io/atomic_file.hpp"
#include "../io/json.hpp"
#include "../io/text_file.hpp"
#include "text_settings_json.hpp"

namespace gradus {

namespace detail {

/// Reads the files of one folder.
class text_settings_reader {
 public:
  using json = nlohmann::json;

  explicit text_settings_reader(const std::filesystem::path& folder) : folder_(folder) {}

  text_settings read() {
    const json tokenizer = object("tokenizer_config.json"), map = object("special_tokens_map.json");
    add_tokens(tokenizer);
    if (!tokenizer.contains("added_tokens_decoder")) add_tokens(map);
    for (const char* key : {"add_bos_token", "add_eos_token"})  // one of them is as good as both
      if (tokenizer.contains(key)) said_.adds_begin = tokenizer.value("add_bos_token", json()) == true;
    add_ids();
    add_templates(tokenizer);
    return std::move(said_);
  }

 private:
  bool is_there(const std::filesystem::path& name) const {
    std::error_code ignored;
    return std::filesystem::is_regular_file(folder_ / name, ignored);
  }
  /// The text of a file that goes with the model.
  const std::string& keep(const std::string& name) { return said_.files[name] = read_text(folder_ / name); }
  json parsed(const std::string& text, const std::string& name) const {
    const std::string path = (folder_ / name).string();
    json values = parse_json(text, path);
    if (!values.is_object()) throw error(path + ": is no JSON object");
    return values;
  }
  json object(const std::string& name) { return is_there(name) ? parsed(keep(name), name) : json::object(); }

  /// Sets tokens by their spelling: a text, or an object with its "content".
  void add_tokens(const json& from) {
    const auto set = [&](const char* key, std::optional<std::string>& to) {
      const auto found = from.find(key);
      if (found == from.end()) return false;
      const json text = found->is_object() ? found->value("content", json()) : *found;
      if (text.is_string()) to = text.get<std::string>();
      return true;
    };
    set("bos_token", said_.begin);
    set("pad_token", said_.pad);
    said_.says_end |= set("eos_token", said_.end);
  }
  void add_ids() {
    json ids = json::object();
    if (is_there("config.json")) {
      const json config = parsed(read_text(folder_ / "config.json"), "config.json");
      for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"})
        if (const auto found = config.find(key); found != config.end()) ids[key] = *found;
      said_.files["token_ids.json"] = ids.dump() + "\n";
    } else {
      ids = object("token_ids.json");
    }
    for (const json& from : {ids, object("generation_config.json")}) {
      const auto found = from.find("eos_token_id");
      if (found == from.end()) continue;
      said_.says_end = true;
      for (const json& id : found->is_array() ? *found : json::array({*found}))
        if (id.is_number_integer() && id >= 0 && id <= std::numeric_limits<std::int32_t>::max() &&
            std::ranges::find(said_.end_ids, id.get<std::int32_t>()) == said_.end_ids.end())
          said_.end_ids.push_back(id.get<std::int32_t>());
    }
  }
  void add_templates(const json& tokenizer) {
    const json written = tokenizer.value("chat_template", json());
    if (written.is_string()) said_.chat_templates["default"] = written.get<std::string>();
    for (const json& one : written.is_array() ? written : json::array()) {
      const auto text = [&](const char* key) { return one.is_object() ? one.value(key, json()) : json(); };
      if (text("name").is_string() && text("template").is_string())
        said_.chat_templates[text("name").get<std::string>()] = text("template").get<std::string>();
    }
    if (is_there("chat_template.jinja")) said_.chat_templates["default"] = keep("chat_template.jinja");
    std::error_code ignored;
    const std::string others = "additional_chat_templates";
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / others, ignored))
      if (entry.path().extension() == ".jinja" && entry.is_regular_file(ignored))
        said_.chat_templates[entry.path().stem().string()] = keep(others + "/" + entry.path().filename().string());
  }

  const std::filesystem::path& folder_;
  text_settings said_;
};

}  // namespace detail

GRADUS_IMPL text_settings read_text_settings(const std::filesystem::path& folder) {
  return detail::text_settings_reader(folder).read();
}

GRADUS_IMPL void write_text_settings(const std::filesystem::path& folder, const text_settings& of) {
  for (const auto& [name, text] : of.files) {
    const std::filesystem::path path = folder / name;
    std::error_code problem;
    if (path.parent_path() != folder) std::filesystem::create_directory(path.parent_path(), problem);
    if (problem) throw error(path.parent_path().string() + ": cannot be made: " + problem.message());
    write_file_atomically(path, text);
  }
}

}  // namespace gradus
