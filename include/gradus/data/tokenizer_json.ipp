#pragma once
#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "../io/atomic_file.hpp"
#include "text.hpp"
#include "tokenizer_json.hpp"
#include "tokenizer_json_file.hpp"
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

/// word_pattern::llama3 in a tokenizer.json.
inline constexpr const char* llama3_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// Parses one tokenizer.json.
class bpe_json_reader : tokenizer_json_file {
 public:
  explicit bpe_json_reader(std::string name) : tokenizer_json_file(std::move(name)) {
    constexpr auto characters = byte_characters();
    for (std::size_t b = 0; b < 256; ++b) bytes_[characters[b]] = static_cast<int>(b);
  }

  bpe_tokenizer read(std::string_view text) {
    const json file = open(text, "BPE", "; read_wordpiece_json reads WordPiece");
    check_kind(file);
    read_vocabulary(file["model"]);
    read_merges(file["model"]);
    read_added_tokens(part(file, "added_tokens"));
    read_begin_token(part(file, "post_processor"));
    return make();
  }

 private:
  /// Rejects everything that yields other tokens than a byte-level BPE with a known pattern.
  void check_kind(const json& file) {
    const json& model = file["model"];
    for (const char* option : {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"})
      if (!is_off(part(model, option)))
        fail("model." + std::string(option) + " is " + shown(model[option]) + "; GPT-2 and Llama 3 have none");
    if (const json& whole = part(model, "ignore_merges"); !whole.is_null()) {
      if (!whole.is_boolean()) fail("model.ignore_merges must be true or false");
      settings_.whole_words = whole.get<bool>();
    }
    if (const json& normalizer = part(file, "normalizer"); !normalizer.is_null())
      fail("it has a normalizer (" + type_of(normalizer) + "); GPT-2 and Llama 3 have none");
    read_pattern(part(file, "pre_tokenizer"));
  }
  /// The pattern of ByteLevel, which is GPT-2's, or of Split before a ByteLevel without one.
  void read_pattern(const json& before) {
    const json& steps = part(before, "pretokenizers");
    const bool sequence = type_of(before) == "Sequence" && steps.is_array() && steps.size() == 2;
    const json& split = sequence ? steps[0] : before;
    const json& bytes = sequence ? steps[1] : before;
    if (type_of(bytes) != "ByteLevel" || (sequence && type_of(split) != "Split"))
      fail("its pre_tokenizer is " + type_of(before) +
           "; ByteLevel is read (GPT-2), or a Sequence of Split and ByteLevel (Llama 3)");
    if (!is_off(part(bytes, "add_prefix_space")))
      fail("pre_tokenizer.add_prefix_space is true; that of GPT-2 and Llama 3 is false");
    const json& use_regex = part(bytes, "use_regex");
    if (!sequence) {
      if (!use_regex.is_null() && use_regex != true)
        fail("pre_tokenizer.use_regex is false: it does not split by GPT-2's pattern");
      return;
    }
    if (use_regex != false) fail("its pre_tokenizer splits twice: use_regex must be false after Split");
    const json& pattern = part(part(split, "pattern"), "Regex");
    if (pattern != llama3_pattern || part(split, "behavior") != "Isolated" || !is_off(part(split, "invert")))
      fail("its pre_tokenizer splits by another pattern than those of GPT-2 and Llama 3: " + shown(pattern));
    settings_.pattern = word_pattern::llama3;
  }
  /// The token that a TemplateProcessing puts before a text.
  void read_begin_token(const json& after) {
    if (const json& steps = part(after, "processors"); type_of(after) == "Sequence" && steps.is_array())
      for (const json& step : steps) read_begin_token(step);
    if (type_of(after) != "TemplateProcessing") return;
    const json& single = part(after, "single");
    if (!single.is_array() || single.empty()) return;
    const json& text = part(part(single[0], "SpecialToken"), "id");
    if (!text.is_string()) return;
    const auto found = ids_.find(text.get<std::string>());
    if (found == ids_.end()) fail("its post_processor adds " + quoted(text.get<std::string>()) + ", which is no token");
    settings_.begin_token = found->second;
  }
  /// The bytes of a token, one per character; none if a character represents no byte.
  std::optional<std::string> bytes_of(const std::string& symbol) const {
    std::string bytes;
    for (std::size_t at = 0; at < symbol.size();) {
      const unicode::utf8_character c = unicode::read_utf8(symbol, at);
      const auto byte = bytes_.find(c.value);
      if (byte == bytes_.end()) return std::nullopt;
      bytes += static_cast<char>(static_cast<unsigned char>(byte->second));
      at += c.bytes;
    }
    return bytes;
  }

  void read_merges(const json& model) {
    if (!part(model, "merges").is_array()) fail("has no list 'model.merges'");
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

  bpe_tokenizer make() {
    std::array<token, 256> byte_tokens{};
    for (const auto& [character, byte] : bytes_) {
      const auto found = ids_.find(unicode::to_utf8(character));
      if (found == ids_.end())
        fail("its vocabulary has no token " + quoted(unicode::to_utf8(character)) + " for the byte " +
             std::to_string(byte));
      byte_tokens[static_cast<std::size_t>(byte)] = found->second;
    }
    std::vector<std::string> tokens(static_cast<std::size_t>(names_.rbegin()->first) + 1);
    for (const added_token& a : added_) tokens[static_cast<std::size_t>(a.id)] = a.text;
    for (const auto& [id, symbol] : names_) {
      std::string& text = tokens[static_cast<std::size_t>(id)];
      if (!text.empty()) continue;  // added
      const auto bytes = bytes_of(symbol);
      if (!bytes && settings_.whole_words)
        fail("with ignore_merges, the token " + quoted(symbol) + " must consist of characters that represent bytes");
      text = bytes.value_or(symbol);
    }
    try {
      return {std::move(tokens), byte_tokens, std::move(merges_), std::move(added_), settings_};
    } catch (const error& e) { fail(e.what()); }
  }

  std::map<char32_t, int> bytes_;
  std::vector<bpe_merge> merges_;
  bpe_settings settings_;
};

}  // namespace detail

GRADUS_IMPL bpe_tokenizer parse_tokenizer_json(std::string_view text, const std::string& name) {
  return detail::bpe_json_reader(name).read(text);
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
  for (const added_token& a : tokenizer.added_tokens()) added[static_cast<std::size_t>(a.id)] = &a;
  const auto spelling = [&](bpe_tokenizer::token id) {
    const added_token* a = added[static_cast<std::size_t>(id)];
    return a != nullptr ? a->text : symbol(id);
  };
  std::string vocabulary, merges;
  for (std::size_t i = 0; i < count; ++i) {
    const auto id = static_cast<bpe_tokenizer::token>(i);
    if (tokenizer.bytes_of(id).empty()) continue;  // an unused id
    vocabulary += (vocabulary.empty() ? "\n      " : ",\n      ") + quoted(spelling(id)) + ": " + std::to_string(i);
  }
  for (const bpe_merge& m : tokenizer.merges())
    merges += (merges.empty() ? "\n      " : ",\n      ") + quoted(symbol(m.left) + " " + symbol(m.right));
  const bpe_settings& settings = tokenizer.settings();
  const bool gpt2 = settings.pattern == word_pattern::gpt2;
  std::string before = std::string(R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, )") +
                       (gpt2 ? R"("use_regex": true})" : R"("use_regex": false})");
  if (!gpt2)
    before = R"({"type": "Sequence", "pretokenizers": [
    {"type": "Split", "pattern": {"Regex": )" +
             quoted(detail::llama3_pattern) + R"(}, "behavior": "Isolated", "invert": false},
    )" + before +
             "]}";
  std::string after = "null";
  if (const auto begin = tokenizer.begin_token()) {
    const std::string token = quoted(spelling(*begin));
    const auto piece = [](const char* kind, const std::string& what, int segment) {
      return std::string(R"({")") + kind + R"(": {"id": )" + what + R"(, "type_id": )" + std::to_string(segment) + "}}";
    };
    const std::string single = piece("SpecialToken", token, 0) + ", " + piece("Sequence", R"("A")", 0);
    const std::string second = piece("SpecialToken", token, 1) + ", " + piece("Sequence", R"("B")", 1);
    after = R"({"type": "TemplateProcessing",
    "single": [)" +
            single + R"(],
    "pair": [)" +
            single + ", " + second + R"(],
    "special_tokens": {)" +
            token + R"(: {"id": )" + token + R"(, "ids": [)" + std::to_string(*begin) + R"(], "tokens": [)" + token +
            "]}}}";
  }
  return R"({
  "version": "1.0",
  "truncation": null,
  "padding": null,
  "added_tokens": [)" +
         detail::added_tokens_json(tokenizer.added_tokens()) + R"(],
  "normalizer": null,
  "pre_tokenizer": )" +
         before + R"(,
  "post_processor": )" +
         after + R"(,
  "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
  "model": {
    "type": "BPE",
    "dropout": null,
    "unk_token": null,
    "continuing_subword_prefix": null,
    "end_of_word_suffix": null,
    "fuse_unk": false,
    "byte_fallback": false,
    "ignore_merges": )" +
         (settings.whole_words ? "true" : "false") + R"(,
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
