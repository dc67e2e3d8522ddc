#pragma once
// What the readers of tokenizer.json share, whatever the model: ids, added tokens, and messages. Needs nlohmann/json.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../core/error.hpp"
#include "../io/json.hpp"
#include "added_tokens.hpp"

namespace gradus::detail {

/// A tokenizer.json with its vocabulary and its added tokens. A reader derives from it.
class tokenizer_json_file {
 public:
  using json = nlohmann::json;
  using token = std::int32_t;

  explicit tokenizer_json_file(std::string name) : name_(std::move(name)) {}

 protected:
  /// Parses the text, and returns it. Throws gradus::error unless its model is an object of type `model`; the message
  /// ends with `what_reads_others`.
  json open(std::string_view text, std::string_view model, const char* what_reads_others) const {
    json file = parse_json(text, name_);
    if (!file.is_object()) fail("is not a tokenizer.json: it is not a JSON object");
    if (!file.contains("model") || !file["model"].is_object())
      fail("is not a tokenizer.json: it has no object 'model'");
    if (file["model"].contains("type") && file["model"]["type"] != model)
      fail("its model is of type " + shown(file["model"]["type"]) + "; " + std::string(model) + " is needed here" +
           what_reads_others);
    return file;
  }

  [[noreturn]] void fail(const std::string& what) const { throw error(name_ + ": " + what); }

  /// A token in a message: as JSON, so that control characters are escaped, and shortened.
  static std::string quoted(const std::string& text) {
    const std::string shown = json(text).dump(-1, ' ', true, json::error_handler_t::replace);
    return shown.size() <= 60 ? shown : shown.substr(0, 56) + "…\"";
  }
  static std::string shown(const json& value) {
    if (!value.is_string()) return value.is_structured() ? "not a single value" : value.dump();
    const std::string text = quoted(value.get<std::string>());
    return text.substr(1, text.size() - 2);
  }
  /// The type of a part of the file, for messages and comparisons: "none" if it is null.
  static std::string type_of(const json& part) {
    if (part.is_null()) return "none";
    if (part.is_object() && part.contains("type") && part["type"].is_string()) return shown(part["type"]);
    return "not an object with a type";
  }
  /// A part of an object; null if there is none.
  const json& part(const json& of, const char* key) const {
    const auto found = of.find(key);
    return found == of.end() ? none_ : *found;
  }
  static bool is_off(const json& value) {
    if (value.is_string()) return value.get_ref<const std::string&>().empty();
    return value.is_null() || value == false || value == 0.0;
  }

  token read_id(const json& id, const std::string& of) const {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<token>::max()})
      fail("the id of " + quoted(of) + " must be a whole number from 0 to 2147483647");
    return id.get<token>();
  }
  void read_vocabulary(const json& model) {
    if (!part(model, "vocab").is_object()) fail("has no object 'model.vocab'");
    for (const auto& item : model["vocab"].items()) {
      if (item.key().empty()) fail("its vocabulary has a token without text");
      add(item.key(), read_id(item.value(), item.key()));
    }
    if (names_.empty()) fail("its vocabulary is empty");
    check_last_id();
  }
  void read_added_tokens(const json& list) {
    if (list.is_null()) return;
    if (!list.is_array()) fail("'added_tokens' is not a list");
    for (const json& from : list) {
      const std::string which = "added token " + std::to_string(added_.size() + 1);
      if (!from.is_object() || !part(from, "content").is_string() || !from.contains("id"))
        fail(which + " must be an object with 'id' and 'content'");
      added_token a;
      a.text = from["content"].get<std::string>();
      if (a.text.empty()) fail(which + " has no text");
      a.id = read_id(from["id"], a.text);
      const auto flag = [&](const char* key) {
        if (!from.contains(key)) return false;
        if (!from[key].is_boolean())
          fail("the added token " + quoted(a.text) + ": '" + key + "' must be true or false");
        return from[key].get<bool>();
      };
      for (const char* option : {"single_word", "lstrip", "rstrip"})
        if (flag(option)) fail("the added token " + quoted(a.text) + ": '" + option + "' is not supported");
      a.special = flag("special");
      a.second = flag("normalized");
      const auto known = ids_.find(a.text);
      if (known == ids_.end()) add(a.text, a.id);
      else if (known->second != a.id)
        fail("the added token " + quoted(a.text) + " has the id " + std::to_string(a.id) + ", but in the vocabulary " +
             std::to_string(known->second));
      added_.push_back(std::move(a));
    }
    check_last_id();
  }

  std::string name_;
  std::unordered_map<std::string, token> ids_;
  std::map<token, std::string> names_;
  std::vector<added_token> added_;

 private:
  void add(const std::string& text, token id) {
    ids_.emplace(text, id);
    const auto [place, added] = names_.emplace(id, text);
    if (!added) fail(quoted(text) + " and " + quoted(place->second) + " have the same id " + std::to_string(id));
  }
  /// A small file must not allocate gigabytes.
  void check_last_id() const {
    const auto& [last, text] = *names_.rbegin();
    if (static_cast<std::size_t>(last) > 2 * names_.size() + 1024)
      fail(quoted(text) + " has the id " + std::to_string(last) + ", far outside a vocabulary of " +
           std::to_string(names_.size()));
  }

  json none_;
};

/// The entries "added_tokens" of a tokenizer.json.
inline std::string added_tokens_json(std::span<const added_token> tokens) {
  std::string list;
  for (const added_token& a : tokens) {
    list.append(list.empty() ? "" : ",").append("\n    {\"id\": ").append(std::to_string(a.id));
    list += ", \"content\": " + nlohmann::json(a.text).dump() +
            ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, \"normalized\": " +
            (a.second ? "true" : "false") + ", \"special\": " + (a.special ? "true" : "false") + "}";
  }
  return list;
}

}  // namespace gradus::detail
