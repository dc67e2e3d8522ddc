#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "../io/atomic_file.hpp"
#include "../io/json.hpp"
#include "../io/text_file.hpp"
#include "text_settings_json.hpp"
#include "tokenizer_json.hpp"

namespace gradus {

namespace detail {

template <class T>
concept has_names = std::is_enum_v<T> && requires(T value) { names_of(value); };
template <class T>
struct optional_value : std::false_type {};
template <class T>
struct optional_value<std::optional<T>> : std::true_type {};

/// Reads the entries of one object of a tokenizer.json into the fields of a part. An entry that no field has is an
/// error.
class json_fields {
 public:
  using json = nlohmann::json;

  json_fields(const json& from, std::string where) : from_(from), where_(std::move(where)) {
    if (!from_.is_object()) throw error(where_ + " must be an object");
  }

  template <class T>
  void operator()(const char* key, T& to) const {
    if (const json* value = find(key)) read(*value, where_ + "." + key, to);
  }
  /// An entry that must be there.
  template <class T>
  void needed(const char* key, T& to) const {
    if (!from_.contains(key)) throw error(where_ + " has no \"" + key + "\"");
    (*this)(key, to);
  }
  /// A text for which null means an empty one.
  void text_or_null(const char* key, std::string& to) const {
    if (const json* value = find(key); value != nullptr && !value->is_null()) read(*value, where_ + "." + key, to);
  }
  /// Bytes, in base 64.
  void bytes(const char* key, std::string& to) const {
    std::string text;
    (*this)(key, text);
    std::uint32_t bits = 0;
    int count = 0;
    for (const char c : text) {
      const auto digit = std::string_view(base_64).find(c);
      if (c == '=') break;
      if (digit >= 64) throw error(where_ + "." + key + " is not in base 64");
      bits = bits << 6 | static_cast<std::uint32_t>(digit);
      if ((count += 6) < 8) continue;
      count -= 8;
      to += static_cast<char>(static_cast<unsigned char>(bits >> count));
    }
  }
  /// An option that must be off.
  void off(const char* key) const {
    const json* value = find(key);
    if (value != nullptr && !value->is_null() && *value != 0.0 && *value != false)
      throw error(where_ + "." + key + " is " + value->dump() + ", which is not supported");
  }
  void ignore(const char* key) const { find(key); }
  /// Throws gradus::error if there is an entry that was not asked for.
  void finish() const {
    for (const auto& [key, value] : from_.items())
      if (std::ranges::find(known_, key) == known_.end())
        throw error(where_ + " has " + token_table::shown(key) + ", which is not known");
  }

  static constexpr const char* base_64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

 private:
  const json* find(const char* key) const {
    known_.emplace_back(key);
    const auto found = from_.find(key);
    return found == from_.end() ? nullptr : &*found;
  }
  [[noreturn]] static void fail(const std::string& where, const char* wanted) {
    throw error(where + " must be " + wanted);
  }
  template <class T>
  static void read(const json& from, const std::string& where, T& to) {
    if constexpr (optional_value<T>::value) {
      if (!from.is_null()) read(from, where, to.emplace());
    } else if constexpr (std::is_same_v<T, bool>) {
      if (!from.is_boolean()) fail(where, "true or false");
      to = from.get<bool>();
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (!from.is_string()) fail(where, "a text");
      to = from.get<std::string>();
    } else if constexpr (std::is_same_v<T, char32_t>) {
      const std::string text = from.is_string() ? from.get<std::string>() : "";
      const unicode::utf8_character c = text.empty() ? unicode::utf8_character{} : unicode::read_utf8(text, 0);
      if (!c.valid || c.bytes != text.size()) fail(where, "one character");
      to = c.value;
    } else if constexpr (has_names<T>) {
      for (std::size_t i = 0; i < names_of(to).size(); ++i)
        if (from == names_of(to)[i]) return void(to = static_cast<T>(i));
      throw error(where + " is " + from.dump() + ", which is not known");
    } else if constexpr (std::is_integral_v<T>) {
      if (!from.is_number_unsigned() ||
          from.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int32_t>::max()})
        fail(where, "a whole number from 0 to 2147483647");
      to = from.get<T>();
    } else if constexpr (std::is_same_v<T, double>) {
      if (!from.is_number()) fail(where, "a number");
      to = from.get<double>();
    } else {
      read_compound(from, where, to);
    }
  }
  template <class T>
  static void read_list(const json& from, const std::string& where, std::vector<T>& to) {
    if (!from.is_array()) fail(where, "a list");
    to.reserve(from.size());
    for (const json& one : from) try {
        read(one, where, to.emplace_back());
      } catch (const error& e) { throw error(e.what() + (" (entry " + std::to_string(to.size()) + ")")); }
  }
  template <class A, class B>
  static void read_compound(const json& from, const std::string& where, std::pair<A, B>& to) {
    if (!from.is_array() || from.size() != 2) fail(where, "a list of a text and a number");
    read(from[0], where, to.first);
    read(from[1], where, to.second);
  }
  template <class T>
  static void read_compound(const json& from, const std::string& where, std::vector<T>& to) {
    read_list(from, where, to);
  }
  /// A merge: "a b" or ["a", "b"].
  static void read_compound(const json& from, const std::string& where, std::array<std::string, 2>& to) {
    if (from.is_array() && from.size() == 2) {
      read(from[0], where, to[0]);
      read(from[1], where, to[1]);
      return;
    }
    const std::string text = from.is_string() ? from.get<std::string>() : "";
    const std::size_t space = text.find(' ');
    if (space == text.npos || text.find(' ', space + 1) != text.npos)
      fail(where, "two tokens: \"a b\" or [\"a\", \"b\"]");
    to = {text.substr(0, space), text.substr(space + 1)};
  }
  static void read_compound(const json& from, const std::string& where, text_pattern& to) {
    const json_fields fields(from, where);
    std::optional<std::string> text, expression;
    fields("String", text);
    fields("Regex", expression);
    fields.finish();
    if (text.has_value() == expression.has_value()) fail(where, "a String or a Regex");
    to = text_pattern(text ? *text : *expression, expression.has_value());
  }
  static void read_compound(const json& from, const std::string& where, token_table& to) {
    if (!from.is_object()) fail(where, "an object of texts and ids");
    if (from.empty()) throw error(where + ": the vocabulary is empty");
    // By id, so that an id is far outside only where it is far beyond all others.
    std::vector<std::pair<std::int32_t, const std::string*>> by_id;
    by_id.reserve(from.size());
    for (const auto& [text, id] : from.get_ref<const json::object_t&>()) {
      std::int32_t number = 0;
      if (text.empty()) throw error(where + " has a token without text");
      read(id, "the id of " + token_table::shown(text), number);
      by_id.emplace_back(number, &text);
    }
    std::ranges::sort(by_id, {}, [](const auto& token) { return token.first; });
    if (static_cast<std::size_t>(by_id.back().first) > 2 * by_id.size() + 1024)
      throw error(token_table::shown(*by_id.back().second) + " has the id " + std::to_string(by_id.back().first) +
                  ", far outside a vocabulary of " + std::to_string(by_id.size()));
    for (const auto& [id, text] : by_id) to.add(*text, id);
  }
  static void read_compound(const json& from, const std::string& where, template_piece& to) {
    const json_fields fields(from, where);
    const char* key = from.contains("Sequence") ? "Sequence" : "SpecialToken";
    const json* inner = fields.find(key);
    fields.finish();
    if (inner == nullptr) fail(where, "a Sequence or a SpecialToken");
    const json_fields piece(*inner, where + "." + key);
    piece("id", to.token);
    piece("type_id", to.segment);
    piece.finish();
    to.kind = template_piece::special;
    if (*key == 'S' && key[1] == 'p') return;
    if (to.token != "A" && to.token != "B") fail(where, "a Sequence with the id A or B");
    to.kind = to.token == "A" ? template_piece::first_text : template_piece::second_text;
    to.token.clear();
  }
  static void read_compound(const json& from, const std::string& where,
                            std::map<std::string, std::vector<std::int32_t>>& to) {
    if (!from.is_object()) fail(where, "an object");
    for (const auto& [text, one] : from.items()) {
      const json_fields special(one, where + "." + text);
      special.ignore("id");
      special("ids", to[text]);
      special.ignore("tokens");
      special.finish();
    }
  }

  const json& from_;
  std::string where_;
  mutable std::vector<std::string> known_;
};

/// Writes the fields of a part as entries of an object.
class json_text {
 public:
  explicit json_text(std::string& to) : to_(to) {}

  template <class T>
  void operator()(const char* key, const T& value) const {
    to_ += std::string(", \"") + key + "\": ";
    write(value);
  }
  template <class T>
  void needed(const char* key, const T& value) const {
    (*this)(key, value);
  }
  void text_or_null(const char* key, const std::string& value) const {
    (*this)(key, value.empty() ? std::nullopt : std::optional(value));
  }
  void bytes(const char* key, const std::string& value) const {
    std::string text;
    for (std::size_t i = 0; i < value.size(); i += 3) {
      std::uint32_t bits = 0;
      for (std::size_t b = 0; b < 3; ++b)
        bits = bits << 8 | (i + b < value.size() ? static_cast<unsigned char>(value[i + b]) : 0u);
      for (std::size_t d = 0; d < 4; ++d)
        text += i + d > value.size() ? '=' : json_fields::base_64[bits >> (18 - 6 * d) & 63];
    }
    (*this)(key, text);
  }
  void off(const char* key) const { (*this)(key, std::optional<bool>()); }

  template <class Part>
  void part(const Part& of) const {
    to_ += std::string(R"({"type": ")") + Part::type + '"';
    Part::fields(of, *this);
    to_ += '}';
  }
  /// null, one part, or a Sequence of several, which `key` lists.
  template <class Any>
  void parts(const char* key, const std::vector<Any>& all) const {
    const auto one = [&](const Any& any) { std::visit([&](const auto& of) { part(of); }, any); };
    if (all.empty()) return void(to_ += "null");
    if (all.size() == 1) return one(all[0]);
    to_ += std::string(R"({"type": "Sequence", ")") + key + "\": ";
    list("[", "]", all, one);
    to_ += '}';
  }
  template <class List, class One>
  void list(const char* begin, const char* end, const List& all, const One& one) const {
    to_ += begin;
    bool first = true;
    for (const auto& of : all) {
      to_ += first ? "\n    " : ",\n    ";
      first = false;
      one(of);
    }
    to_ += end;
  }
  template <class T>
  void write(const T& value) const {
    if constexpr (optional_value<T>::value) {
      if (value) write(*value);
      else to_ += "null";
    } else if constexpr (has_names<T>) {
      to_ += std::string("\"") + names_of(value)[static_cast<std::size_t>(value)] + '"';
    } else if constexpr (std::is_same_v<T, char32_t>) {
      to_ += nlohmann::json(unicode::to_utf8(value)).dump();
    } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
      to_ += nlohmann::json(value).dump();
    } else {
      write_compound(value);
    }
  }

 private:
  template <class A, class B>
  void write_compound(const std::pair<A, B>& value) const {
    to_ += '[';
    write(value.first);
    to_ += ", ";
    write(value.second);
    to_ += ']';
  }
  template <class T>
  void write_compound(const std::vector<T>& all) const {
    list("[", "]", all, [&](const T& one) { write(one); });
  }
  void write_compound(const std::array<std::string, 2>& merge) const { write_compound(std::pair(merge[0], merge[1])); }
  void write_compound(const text_pattern& pattern) const {
    to_ += pattern.regular_expression() ? R"({"Regex": )" : R"({"String": )";
    write(pattern.text());
    to_ += '}';
  }
  void write_compound(const token_table& table) const {
    std::vector<std::int32_t> ids;
    for (std::size_t id = 0; id < table.ids(); ++id)
      if (!table.text(static_cast<std::int32_t>(id)).empty()) ids.push_back(static_cast<std::int32_t>(id));
    list("{", "}", ids, [&](std::int32_t id) {
      write(std::string(table.text(id)));
      to_ += ": " + std::to_string(id);
    });
  }
  void write_compound(const template_piece& piece) const {
    const bool special = piece.kind == template_piece::special;
    to_ += special ? R"({"SpecialToken": {"id": )" : R"({"Sequence": {"id": )";
    write(special ? piece.token : std::string(piece.kind == template_piece::first_text ? "A" : "B"));
    to_ += ", \"type_id\": " + std::to_string(piece.segment) + "}}";
  }
  void write_compound(const std::map<std::string, std::vector<std::int32_t>>& special) const {
    list("{", "}", special, [&](const auto& token) {
      write(token.first);
      to_ += ": {\"id\": ";
      write(token.first);
      (*this)("ids", token.second);
      (*this)("tokens", std::vector<std::string>(token.second.size(), token.first));
      to_ += '}';
    });
  }

  std::string& to_;
};

/// The fields of an added token.
void added_token_fields(auto& of, const auto& f) {
  f("id", of.id);
  f("content", of.text);
  f("single_word", of.single_word);
  f("lstrip", of.lstrip);
  f("rstrip", of.rstrip);
  f("normalized", of.normalized);
  f("special", of.special);
}

/// Parses one tokenizer.json.
class tokenizer_json_reader {
 public:
  using json = nlohmann::json;

  tokenizer_parts read(const json& file) {
    if (!file.is_object()) throw error("is not a tokenizer.json: it is not a JSON object");
    if (!file.contains("model") || !file["model"].is_object())
      throw error("is not a tokenizer.json: it has no object 'model'");
    const std::string known =
        " version truncation padding added_tokens normalizer pre_tokenizer post_processor decoder model ";
    for (const auto& [key, value] : file.items())
      if (known.find(" " + key + " ") == known.npos)
        throw error("it has " + token_table::shown(key) + ", which is not known");
    if (file.contains("version") && file["version"] != "1.0")
      throw error("its version is " + file["version"].dump() + "; 1.0 is read");
    tokenizer_parts parts;
    read_list(file, "normalizer", "normalizers", parts.normalizers);
    read_list(file, "pre_tokenizer", "pretokenizers", parts.pre_tokenizers);
    read_list(file, "post_processor", "processors", parts.post_processors);
    read_list(file, "decoder", "decoders", parts.decoders);
    read_part(typed_model(file["model"]), "model", parts.model);
    if (file.contains("added_tokens") && !file["added_tokens"].is_array()) throw error("'added_tokens' is not a list");
    for (const json& one : file.value("added_tokens", json::array())) {
      const json_fields fields(one, "added token " + std::to_string(parts.added_tokens.size() + 1));
      added_token a;
      a.special = false;
      added_token_fields(a, fields);
      fields.finish();
      parts.added_tokens.push_back(std::move(a));
    }
    return parts;
  }

 private:
  /// Reads a part, or the parts of a Sequence, or nothing.
  template <class Any>
  void read_list(const json& in, const std::string& key, const char* list, std::vector<Any>& to) {
    const json part = in.value(key, json());
    if (part.is_null()) return;
    if (!part.is_object() || part.value("type", json()) != "Sequence") return read_part(part, key, to.emplace_back());
    if (!part.value(list, json()).is_array()) throw error(key + ": a Sequence without a list '" + list + "'");
    for (const json& one : part[list]) read_list(json{{key, one}}, key, list, to);
  }
  template <class Any>
  void read_part(const json& from, const std::string& where, Any& to) {
    const json type = from.is_object() ? from.value("type", json()) : json();
    if (!type.is_string()) throw error(where + " must be an object with a type");
    std::string known;
    const bool found = [&]<std::size_t... Is>(std::index_sequence<Is...>) {
      return (read_as<std::variant_alternative_t<Is, Any>>(from, where, to, known) || ...);
    }(std::make_index_sequence<std::variant_size_v<Any>>());
    if (!found)
      throw error("its " + where + " is of type " + token_table::shown(type.get<std::string>()) +
                  ", which is not read; these are: " + known);
  }
  template <class Part, class Any>
  bool read_as(const json& from, const std::string& where, Any& to, std::string& known) {
    known += (known.empty() ? "" : ", ") + std::string(Part::type);
    if (from["type"] != Part::type) return false;
    const json_fields fields(from, where + " " + Part::type);
    fields.ignore("type");
    Part part;
    Part::fields(part, fields);
    if constexpr (requires { part.prepend_scheme; }) {  // older files have two other entries in its place
      bool prefixed = part.prepend_scheme != prepend_scheme::never;
      fields("add_prefix_space", prefixed);
      fields.ignore("str_rep");
      if (!from.contains("prepend_scheme"))
        part.prepend_scheme = prefixed ? prepend_scheme::always : prepend_scheme::never;
    }
    fields.finish();
    to = std::move(part);
    return true;
  }
  /// The model of an older file, without a type, by what it has.
  static json typed_model(const json& model) {
    if (model.contains("type")) return model;
    json typed = model;
    typed["type"] = model.contains("merges")                      ? "BPE"
                    : model.contains("unk_id")                    ? "Unigram"
                    : model.contains("continuing_subword_prefix") ? "WordPiece"
                                                                  : "WordLevel";
    return typed;
  }
};

}  // namespace detail

GRADUS_IMPL tokenizer parse_tokenizer_json(std::string_view text, const std::string& name) {
  const nlohmann::json file = parse_json(text, name);
  try {
    return tokenizer(detail::tokenizer_json_reader().read(file));
  } catch (const error& e) { throw error(name + ": " + e.what()); }
}

GRADUS_IMPL tokenizer read_tokenizer_json(const std::filesystem::path& path) {
  tokenizer read = parse_tokenizer_json(read_text(path), path.string());
  text_settings said = read_text_settings(path.parent_path());
  try {
    read.set(std::move(said));
  } catch (const error& e) { throw error(path.string() + ": " + e.what()); }
  return read;
}

GRADUS_IMPL std::string tokenizer_json(const tokenizer& of) {
  const tokenizer_parts& parts = of.parts();
  std::string text = R"({
  "version": "1.0",
  "truncation": null,
  "padding": null,
  "added_tokens": )";
  const detail::json_text to(text);
  to.list("[", "]", parts.added_tokens, [&](const added_token& a) {
    const std::size_t begin = text.size();
    detail::added_token_fields(a, to);
    text.replace(begin, 2, "{");
    text += '}';
  });
  text += ",\n  \"normalizer\": ";
  to.parts("normalizers", parts.normalizers);
  text += ",\n  \"pre_tokenizer\": ";
  to.parts("pretokenizers", parts.pre_tokenizers);
  text += ",\n  \"post_processor\": ";
  to.parts("processors", parts.post_processors);
  text += ",\n  \"decoder\": ";
  to.parts("decoders", parts.decoders);
  text += ",\n  \"model\": ";
  std::visit([&](const auto& model) { to.part(model); }, parts.model);
  return text + "\n}\n";
}

GRADUS_IMPL void write_tokenizer_json(const std::filesystem::path& path, const tokenizer& of) {
  write_file_atomically(path, tokenizer_json(of));
}

}  // namespace gradus
