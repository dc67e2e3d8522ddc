#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../io/atomic_file.hpp"
#include "../io/json.hpp"
#include "text.hpp"
#include "tokenizer_json.hpp"
#include "unicode.hpp"

namespace gradus {

namespace detail {

/// The character that represents a byte in a tokenizer.json: visible ones represent themselves; the others are 256,
/// 257, … in order (Radford et al. 2019, encoder.py).
constexpr std::array<char32_t, 256> byte_characters() {
  std::array<char32_t, 256> characters{};
  char32_t next = 256;
  for (char32_t b = 0; b < 256; ++b) {
    const bool visible = (b >= U'!' && b <= U'~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    characters[b] = visible ? b : next++;
  }
  return characters;
}

/// Parses one tokenizer.json.
class tokenizer_json_reader {
 public:
  using json = nlohmann::json;
  using token = bpe_tokenizer::token;

  explicit tokenizer_json_reader(std::string name) : name_(std::move(name)) {
    constexpr auto characters = byte_characters();
    for (std::size_t b = 0; b < 256; ++b) bytes_[characters[b]] = static_cast<int>(b);
  }

  bpe_tokenizer read(std::string_view text) {
    const json file = parse_json(text, name_);
    if (!file.is_object()) fail("is not a tokenizer.json: it is not a JSON object");
    if (!file.contains("model") || !file["model"].is_object())
      fail("is not a tokenizer.json: it has no object 'model'");
    check_kind(file);
    read_vocabulary(file["model"]);
    read_merges(file["model"]);
    if (file.contains("added_tokens")) read_added_tokens(file["added_tokens"]);
    return make();
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw error(name_ + ": " + what); }

  // A token in a message: as JSON, so that control characters are escaped, and shortened.
  static std::string quoted(const std::string& text) {
    const std::string shown = json(text).dump(-1, ' ', true, json::error_handler_t::replace);
    return shown.size() <= 60 ? shown : shown.substr(0, 56) + "…\"";
  }
  static bool is_off(const json& object, const char* key) {
    if (!object.contains(key)) return true;
    const json& value = object[key];
    if (value.is_string()) return value.get_ref<const std::string&>().empty();
    return value.is_null() || value == false || value == 0.0;
  }

  /// Rejects everything that yields other tokens than a byte-level BPE with GPT-2's pattern.
  void check_kind(const json& file) const {
    const json& model = file["model"];
    if (model.contains("type") && model["type"] != "BPE")
      fail("its model is of type " + shown(model["type"]) + "; only BPE is read");
    for (const char* option :
         {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback", "ignore_merges"})
      if (!is_off(model, option))
        fail("model." + std::string(option) + " is " + shown(model[option]) + "; GPT-2 has none");
    if (file.contains("normalizer") && !file["normalizer"].is_null())
      fail("it has a normalizer (" + type_of(file["normalizer"]) + "); GPT-2 has none");
    const json& before = file.contains("pre_tokenizer") ? file["pre_tokenizer"] : json();
    if (type_of(before) != "ByteLevel")
      fail("its pre_tokenizer is " + type_of(before) + "; only ByteLevel, with GPT-2's pattern, is read");
    if (!is_off(before, "add_prefix_space")) fail("pre_tokenizer.add_prefix_space is true; GPT-2's is false");
    if (before.contains("use_regex") && before["use_regex"] != true)
      fail("pre_tokenizer.use_regex is false: it does not split by GPT-2's pattern");
  }
  static std::string type_of(const json& part) {
    if (part.is_null()) return "none";
    if (part.is_object() && part.contains("type") && part["type"].is_string()) return shown(part["type"]);
    return "not an object with a type";
  }
  static std::string shown(const json& value) {
    if (!value.is_string()) return value.is_structured() ? "not a single value" : value.dump();
    const std::string text = quoted(value.get<std::string>());
    return text.substr(1, text.size() - 2);
  }

  token read_id(const json& id, const std::string& of) const {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<token>::max()})
      fail("the id of " + quoted(of) + " must be a whole number from 0 to 2147483647");
    return id.get<token>();
  }
  void read_vocabulary(const json& model) {
    if (!model.contains("vocab") || !model["vocab"].is_object()) fail("has no object 'model.vocab'");
    for (const auto& item : model["vocab"].items()) {
      if (item.key().empty()) fail("its vocabulary has a token without text");
      add(item.key(), read_id(item.value(), item.key()), bytes_of(item.key()));
    }
  }
  void add(const std::string& symbol, token id, std::string bytes) {
    ids_.emplace(symbol, id);
    const auto [place, added] = names_.emplace(id, symbol);
    if (!added) fail(quoted(symbol) + " and " + quoted(place->second) + " have the same id " + std::to_string(id));
    spelled_.emplace(id, std::move(bytes));
  }
  /// The bytes of a token: one per character; or, if a character represents no byte, the token's own bytes.
  std::string bytes_of(const std::string& symbol) const {
    std::string bytes;
    for (std::size_t at = 0; at < symbol.size();) {
      const unicode::utf8_character c = unicode::read_utf8(symbol, at);
      const auto byte = bytes_.find(c.value);
      if (byte == bytes_.end()) return symbol;
      bytes += static_cast<char>(static_cast<unsigned char>(byte->second));
      at += c.bytes;
    }
    return bytes;
  }

  void read_merges(const json& model) {
    if (!model.contains("merges") || !model["merges"].is_array()) fail("has no list 'model.merges'");
    for (const json& merge : model["merges"]) {
      const std::string which = "merge " + std::to_string(merges_.size() + 1);
      std::string left, right;
      if (merge.is_string()) {
        const auto& text = merge.get_ref<const std::string&>();
        const std::size_t space = text.find(' ');
        if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
          fail(which + " is " + quoted(text) + ": it must be two tokens with a space between them");
        left = text.substr(0, space);
        right = text.substr(space + 1);
      } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
        left = merge[0].get<std::string>();
        right = merge[1].get<std::string>();
      } else {
        fail(which + " must be two tokens: \"a b\" or [\"a\", \"b\"]");
      }
      const auto id = [&](const std::string& symbol) {
        const auto found = ids_.find(symbol);
        if (found == ids_.end()) fail(which + ": " + quoted(symbol) + " is not in the vocabulary");
        return found->second;
      };
      merges_.push_back({id(left), id(right), id(left + right)});
    }
  }

  void read_added_tokens(const json& list) {
    if (!list.is_array()) fail("'added_tokens' is not a list");
    for (const json& from : list) {
      const std::string which = "added token " + std::to_string(added_.size() + 1);
      if (!from.is_object() || !from.contains("content") || !from["content"].is_string() || !from.contains("id"))
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
      if (known == ids_.end()) add(a.text, a.id, a.text);
      else if (known->second != a.id)
        fail("the added token " + quoted(a.text) + " has the id " + std::to_string(a.id) + ", but in the vocabulary " +
             std::to_string(known->second));
      else spelled_[a.id] = a.text;
      added_.push_back(std::move(a));
    }
  }

  bpe_tokenizer make() {
    if (names_.empty()) fail("its vocabulary is empty");
    // A small file must not allocate gigabytes.
    const auto& [last, name] = *names_.rbegin();
    if (static_cast<std::size_t>(last) > 2 * names_.size() + 1024)
      fail(quoted(name) + " has the id " + std::to_string(last) + ", far outside a vocabulary of " +
           std::to_string(names_.size()));
    std::array<token, 256> byte_tokens{};
    for (const auto& [character, byte] : bytes_) {
      const auto found = ids_.find(unicode::to_utf8(character));
      if (found == ids_.end())
        fail("its vocabulary has no token " + quoted(unicode::to_utf8(character)) + " for the byte " +
             std::to_string(byte));
      byte_tokens[static_cast<std::size_t>(byte)] = found->second;
    }
    std::vector<std::string> tokens(static_cast<std::size_t>(last) + 1);
    for (auto& [id, bytes] : spelled_) tokens[static_cast<std::size_t>(id)] = std::move(bytes);
    try {
      return {std::move(tokens), byte_tokens, std::move(merges_), std::move(added_)};
    } catch (const error& e) { fail(e.what()); }
  }

  std::string name_;
  std::map<char32_t, int> bytes_;
  std::unordered_map<std::string, token> ids_;
  std::map<token, std::string> names_;
  std::map<token, std::string> spelled_;
  std::vector<bpe_merge> merges_;
  std::vector<added_token> added_;
};

}  // namespace detail

GRADUS_IMPL bpe_tokenizer parse_tokenizer_json(std::string_view text, const std::string& name) {
  return detail::tokenizer_json_reader(name).read(text);
}

GRADUS_IMPL bpe_tokenizer read_tokenizer_json(const std::filesystem::path& path) {
  return parse_tokenizer_json(read_text(path), path.string());
}

GRADUS_IMPL std::string tokenizer_json(const bpe_tokenizer& tokenizer) {
  constexpr auto characters = detail::byte_characters();
  const auto symbol = [&](bpe_tokenizer::token id) {
    std::string text;
    for (const char c : tokenizer.bytes_of(id)) text += unicode::to_utf8(characters[static_cast<unsigned char>(c)]);
    return text;
  };
  const auto quoted = [](const std::string& text) { return nlohmann::json(text).dump(); };
  const std::size_t count = tokenizer.vocabulary();
  std::vector<const added_token*> added(count);
  std::string list;
  for (const added_token& a : tokenizer.added_tokens()) {
    added[static_cast<std::size_t>(a.id)] = &a;
    list.append(list.empty() ? "" : ",").append("\n    {\"id\": ").append(std::to_string(a.id));
    list += ", \"content\": " + quoted(a.text) +
            ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, \"normalized\": " +
            (a.second ? "true" : "false") + ", \"special\": " + (a.special ? "true" : "false") + "}";
  }
  std::string vocabulary, merges;
  for (std::size_t i = 0; i < count; ++i) {
    const auto id = static_cast<bpe_tokenizer::token>(i);
    if (tokenizer.bytes_of(id).empty()) continue;  // an unused id
    vocabulary += (vocabulary.empty() ? "\n      " : ",\n      ") +
                  quoted(added[i] != nullptr ? added[i]->text : symbol(id)) + ": " + std::to_string(i);
  }
  for (const bpe_merge& m : tokenizer.merges())
    merges += (merges.empty() ? "\n      " : ",\n      ") + quoted(symbol(m.left) + " " + symbol(m.right));
  return R"({
  "version": "1.0",
  "truncation": null,
  "padding": null,
  "added_tokens": [)" +
         list + R"(],
  "normalizer": null,
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
  "post_processor": null,
  "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
  "model": {
    "type": "BPE",
    "dropout": null,
    "unk_token": null,
    "continuing_subword_prefix": null,
    "end_of_word_suffix": null,
    "fuse_unk": false,
    "byte_fallback": false,
    "ignore_merges": false,
    "vocab": {)" +
         vocabulary + R"(},
    "merges": [)" +
         merges + R"(]
  }
}
)";
}

GRADUS_IMPL void write_tokenizer_json(const std::filesystem::path& path, const bpe_tokenizer& tokenizer) {
  write_file_atomically(path, tokenizer_json(tokenizer));
}

}  // namespace gradus
