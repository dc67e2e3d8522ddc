#pragma once
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "../io/atomic_file.hpp"
#include "text.hpp"
#include "tokenizer_json_file.hpp"
#include "wordpiece_json.hpp"

namespace gradus {

namespace detail {

/// What a post-processor of BERT's writes, as TemplateProcessing: [CLS] A [SEP], and [CLS] A [SEP] B [SEP].
struct bert_template {
  using json = nlohmann::json;
  json single, pair;

  bert_template(const std::string& begin, const std::string& separator) {
    const auto special = [](const std::string& token, int segment) {
      return json{{"SpecialToken", {{"id", token}, {"type_id", segment}}}};
    };
    const auto text = [](const char* which, int segment) {
      return json{{"Sequence", {{"id", which}, {"type_id", segment}}}};
    };
    single = {special(begin, 0), text("A", 0), special(separator, 0)};
    pair = single;
    pair.push_back(text("B", 1));
    pair.push_back(special(separator, 1));
  }
};

/// Parses one tokenizer.json of WordPiece.
class wordpiece_json_reader : tokenizer_json_file {
 public:
  using tokenizer_json_file::tokenizer_json_file;

  wordpiece_tokenizer read(std::string_view text) {
    const json file = open(text, "WordPiece", "; read_tokenizer_json reads a byte-level BPE");
    read_normalizer(part(file, "normalizer"));
    if (const json& before = part(file, "pre_tokenizer"); type_of(before) != "BertPreTokenizer")
      fail("its pre_tokenizer is " + type_of(before) + "; only BertPreTokenizer is read");
    read_post_processor(part(file, "post_processor"));
    read_model(file["model"]);
    std::vector<std::string> tokens(static_cast<std::size_t>(names_.rbegin()->first) + 1);
    for (const auto& [id, symbol] : names_) tokens[static_cast<std::size_t>(id)] = symbol;
    read_added_tokens(part(file, "added_tokens"));
    try {
      wordpiece_tokenizer read(std::move(tokens), std::move(added_), settings_);
      for (const auto& [symbol, id] : around_)
        if (read.id_of(symbol) != id)
          fail("post_processor: " + quoted(symbol) + " has the id " + std::to_string(id) + ", but is another token");
      return read;
    } catch (const error& e) { fail(e.what()); }
  }

 private:
  void read_normalizer(const json& from) {
    bert_normalizer& to = settings_.normalizer;
    if (from.is_null()) {
      to = {.clean_text = false, .handle_chinese_chars = false, .strip_accents = false, .lowercase = false};
      return;
    }
    if (type_of(from) != "BertNormalizer")
      fail("its normalizer is " + type_of(from) + "; only BertNormalizer, or none, is read");
    const auto flag = [&](const char* key) -> std::optional<bool> {
      const json& value = part(from, key);
      if (value.is_null()) return std::nullopt;
      if (!value.is_boolean()) fail("normalizer." + std::string(key) + " must be true or false");
      return value.get<bool>();
    };
    to.clean_text = flag("clean_text").value_or(true);
    to.handle_chinese_chars = flag("handle_chinese_chars").value_or(true);
    to.strip_accents = flag("strip_accents");
    to.lowercase = flag("lowercase").value_or(true);
  }

  /// Finds out which tokens stand around texts.
  void read_post_processor(const json& from) {
    const std::string type = type_of(from);
    if (type == "BertProcessing") {
      settings_.begin = read_special(part(from, "cls"));
      settings_.separator = read_special(part(from, "sep"));
      return;
    }
    if (type != "TemplateProcessing")
      fail("its post_processor is " + type +
           "; BertProcessing or TemplateProcessing is needed, which write [CLS] and [SEP]");
    const json& single = part(from, "single");
    if (single.is_array() && single.size() == 3) {
      settings_.begin = special_in(single[0]);
      settings_.separator = special_in(single[2]);
    }
    const bert_template expected(settings_.begin, settings_.separator);
    if (single != expected.single || part(from, "pair") != expected.pair)
      fail("its post_processor does not write [CLS] A [SEP] and [CLS] A [SEP] B [SEP], with B in segment 1");
    for (const std::string& text : {settings_.begin, settings_.separator}) {
      const json& special = part(part(from, "special_tokens"), text.c_str());
      const json& ids = part(special, "ids");
      if (!ids.is_array() || ids.size() != 1)
        fail("post_processor.special_tokens: " + quoted(text) + " must have one id");
      around_.emplace_back(text, read_id(ids[0], text));
    }
  }
  std::string special_in(const json& piece) const {
    const json& id = part(part(piece, "SpecialToken"), "id");
    return id.is_string() ? id.get<std::string>() : std::string();
  }
  /// A token of BertProcessing: ["[SEP]", 102].
  std::string read_special(const json& from) {
    if (!from.is_array() || from.size() != 2 || !from[0].is_string())
      fail("post_processor: 'cls' and 'sep' must be a token and its id each");
    around_.emplace_back(from[0].get<std::string>(), read_id(from[1], from[0].get<std::string>()));
    return around_.back().first;
  }

  void read_model(const json& model) {
    const auto text = [&](const char* key, std::string& to) {
      const json& value = part(model, key);
      if (value.is_null()) return;
      if (!value.is_string()) fail("model." + std::string(key) + " must be a text");
      to = value.get<std::string>();
    };
    text("unk_token", settings_.unknown);
    text("continuing_subword_prefix", settings_.continuation);
    if (const json& longest = part(model, "max_input_chars_per_word"); !longest.is_null()) {
      if (!longest.is_number_unsigned()) fail("model.max_input_chars_per_word must be a whole number");
      settings_.longest_word = longest.get<std::size_t>();
    }
    read_vocabulary(model);
  }

  wordpiece_settings settings_;
  std::vector<std::pair<std::string, token>> around_;  // texts, with the ids that the post-processor writes
};

}  // namespace detail

GRADUS_IMPL wordpiece_tokenizer parse_wordpiece_json(std::string_view text, const std::string& name) {
  return detail::wordpiece_json_reader(name).read(text);
}

GRADUS_IMPL wordpiece_tokenizer read_wordpiece_json(const std::filesystem::path& path) {
  return parse_wordpiece_json(read_text(path), path.string());
}

GRADUS_IMPL std::string wordpiece_json(const wordpiece_tokenizer& tokenizer) {
  using nlohmann::json;
  const wordpiece_settings& settings = tokenizer.settings();
  const bert_normalizer& normalizer = settings.normalizer;
  const detail::bert_template around(settings.begin, settings.separator);
  const auto flag = [](bool on) { return on ? "true" : "false"; };
  json special;
  for (const std::string& text : {settings.begin, settings.separator})
    special[text] = {{"id", text}, {"ids", {*tokenizer.id_of(text)}}, {"tokens", {text}}};
  std::string vocabulary;
  for (std::size_t i = 0; i < tokenizer.vocabulary(); ++i)
    if (const auto id = static_cast<wordpiece_tokenizer::token>(i); tokenizer.spells_words(id))
      vocabulary += (vocabulary.empty() ? "\n      " : ",\n      ") + json(tokenizer.text_of(id)).dump() + ": " +
                    std::to_string(i);
  return R"({
  "version": "1.0",
  "truncation": null,
  "padding": null,
  "added_tokens": [)" +
         detail::added_tokens_json(tokenizer.added_tokens()) + R"(],
  "normalizer": {"type": "BertNormalizer", "clean_text": )" +
         flag(normalizer.clean_text) + R"(, "handle_chinese_chars": )" + flag(normalizer.handle_chinese_chars) +
         R"(, "strip_accents": )" + (normalizer.strip_accents ? flag(*normalizer.strip_accents) : "null") +
         R"(, "lowercase": )" + flag(normalizer.lowercase) + R"(},
  "pre_tokenizer": {"type": "BertPreTokenizer"},
  "post_processor": {
    "type": "TemplateProcessing",
    "single": )" +
         around.single.dump() + R"(,
    "pair": )" +
         around.pair.dump() + R"(,
    "special_tokens": )" +
         special.dump() + R"(
  },
  "decoder": {"type": "WordPiece", "prefix": )" +
         json(settings.continuation).dump() + R"(, "cleanup": true},
  "model": {
    "type": "WordPiece",
    "unk_token": )" +
         json(settings.unknown).dump() + R"(,
    "continuing_subword_prefix": )" +
         json(settings.continuation).dump() + R"(,
    "max_input_chars_per_word": )" +
         std::to_string(settings.longest_word) + R"(,
    "vocab": {)" +
         vocabulary + R"(}
  }
}
)";
}

GRADUS_IMPL void write_wordpiece_json(const std::filesystem::path& path, const wordpiece_tokenizer& tokenizer) {
  write_file_atomically(path, wordpiece_json(tokenizer));
}

}  // namespace gradus
