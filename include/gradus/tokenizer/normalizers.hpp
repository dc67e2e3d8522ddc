#pragma once
// How a tokenizer rewrites a text before it splits it, with the names of Hugging Face's tokenizers 0.23. A text is
// UTF-8.
//
// The parts of a tokenizer, here and in the other headers of this folder, are structs of one kind: `type` is the name
// in a tokenizer.json, and `fields(part, f)` calls f(key, value) for each of its entries there; so nothing else knows
// how a part is read and written. `prepare()`, where there is one, checks the fields and makes what the part needs of
// them.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "text_pattern.hpp"
#include "unicode.hpp"

namespace gradus::normalizers {

/// The most bytes that normalizers may make of a text of `bytes`: no tokenizer of a model makes half of it, and one
/// from elsewhere whose replacements are long, or follow each other, would fill any memory.
constexpr std::size_t most_bytes(std::size_t bytes) { return 32 * bytes + 256; }
/// Throws gradus::error if a text of `bytes` has become longer than `most`.
void check_growth(std::size_t bytes, std::size_t most);

/// A normal form of Unicode.
template <unicode::normal_form Form>
struct unicode_form {
  static constexpr const char* type = std::array{"NFC", "NFD", "NFKC", "NFKD"}[static_cast<std::size_t>(Form)];
  static void fields(auto&, const auto&) {}
  void operator()(std::string& text) const { text = unicode::normalized(text, Form); }
};
using nfc = unicode_form<unicode::normal_form::nfc>;
using nfd = unicode_form<unicode::normal_form::nfd>;
using nfkc = unicode_form<unicode::normal_form::nfkc>;
using nfkd = unicode_form<unicode::normal_form::nfkd>;

/// Makes letters small.
struct lowercase {
  static constexpr const char* type = "Lowercase";
  static void fields(auto&, const auto&) {}
  void operator()(std::string& text) const { text = unicode::lower_case(text); }
};

/// Removes marks. It does not decompose characters: put nfd before it.
struct strip_accents {
  static constexpr const char* type = "StripAccents";
  static void fields(auto&, const auto&) {}
  void operator()(std::string& text) const;
};

/// Removes white space at the ends.
struct strip {
  bool strip_left = true, strip_right = true;

  static constexpr const char* type = "Strip";
  static void fields(auto& of, const auto& f) {
    f("strip_left", of.strip_left);
    f("strip_right", of.strip_right);
  }
  void operator()(std::string& text) const;
};

/// Replaces each match of a pattern.
struct replace {
  text_pattern pattern;
  std::string content;

  static constexpr const char* type = "Replace";
  static void fields(auto& of, const auto& f) {
    f.needed("pattern", of.pattern);
    f("content", of.content);
  }
  /// Throws gradus::error where parts of a match are asked for ("$1").
  void prepare() const;
  /// Throws gradus::error if the result is longer than `most`.
  void operator()(std::string& text, std::size_t most) const;
  void operator()(std::string& text) const { (*this)(text, most_bytes(text.size())); }
};

/// Puts something before a text that is not empty.
struct prepend {
  std::string what;

  static constexpr const char* type = "Prepend";
  static void fields(auto& of, const auto& f) { f("prepend", of.what); }
  void operator()(std::string& text) const {
    if (!text.empty()) text.insert(0, what);
  }
};

/// What BERT does to a text (Devlin et al. 2019, tokenization.py), in this order.
struct bert {
  bool clean_text = true;                  ///< removes control characters, and makes each white space a space
  bool handle_chinese_chars = true;        ///< puts spaces around CJK ideographs, so that each is a word
  std::optional<bool> strip_accents = {};  ///< removes accents: "é" becomes "e"; not given: as `lowercase`
  bool lowercase = true;

  static constexpr const char* type = "BertNormalizer";
  static void fields(auto& of, const auto& f) {
    f("clean_text", of.clean_text);
    f("handle_chinese_chars", of.handle_chinese_chars);
    f("strip_accents", of.strip_accents);
    f("lowercase", of.lowercase);
  }
  void operator()(std::string& text) const;
};

/// The rules of a SentencePiece model, which replace characters and clusters of them (Kudo and Richardson 2018). Like
/// Hugging Face's, looks at clusters below six bytes, of which the first rule that fits replaces the whole, and else at
/// characters.
struct precompiled {
  std::string charsmap;  ///< bytes: the size of a trie, the trie as a double array of uint32, and texts that end with 0

  static constexpr const char* type = "Precompiled";
  static void fields(auto& of, const auto& f) { f.bytes("precompiled_charsmap", of.charsmap); }
  /// Throws gradus::error unless there are a trie and texts.
  void prepare();
  /// Throws gradus::error if the result is longer than `most`.
  void operator()(std::string& text, std::size_t most) const;
  void operator()(std::string& text) const { (*this)(text, most_bytes(text.size())); }

 private:
  /// What replaces a text, which begins with what a rule fits; nothing if none does.
  std::optional<std::string_view> replacement(std::string_view of) const;
  std::vector<std::uint32_t> trie_;
  std::string_view texts() const { return std::string_view(charsmap).substr(4 + 4 * trie_.size()); }
};

using any = std::variant<nfc, nfd, nfkc, nfkd, lowercase, strip_accents, strip, replace, prepend, bert, precompiled>;

}  // namespace gradus::normalizers

#ifndef GRADUS_COMPILED
#include "normalizers.ipp"
#endif
