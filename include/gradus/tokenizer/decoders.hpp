#pragma once
// How a tokenizer makes a text of tokens, with the names of Hugging Face's tokenizers 0.23.

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include "../core/config.hpp"
#include "pre_tokenizers.hpp"
#include "text_pattern.hpp"

// Each part rewrites a list of texts: first those of the tokens, at last those that make the result when joined. With
// `raw`, bytes that are no characters stay as they are, so that the text can go on with the bytes that they lack.
namespace gradus::decoders {

using texts = std::vector<std::string>;

/// Bytes of the characters that stand for them.
struct byte_level {
  bool add_prefix_space = true, trim_offsets = true, use_regex = true;  ///< change nothing

  static constexpr const char* type = "ByteLevel";
  static void fields(auto& of, const auto& f) {
    f("add_prefix_space", of.add_prefix_space);
    f("trim_offsets", of.trim_offsets);
    f("use_regex", of.use_regex);
  }
  void operator()(texts& all, bool raw) const;
};

/// Words with spaces between them, but none before what continues a word; `cleanup` joins punctuation and English
/// contractions to the words before them.
struct word_piece {
  std::string prefix = "##";
  bool cleanup = true;

  static constexpr const char* type = "WordPiece";
  static void fields(auto& of, const auto& f) {
    f("prefix", of.prefix);
    f("cleanup", of.cleanup);
  }
  void operator()(texts& all, bool raw) const;
};

/// A space for each `replacement`, but none at the start of the text.
struct metaspace {
  char32_t replacement = U'\u2581';
  gradus::prepend_scheme prepend_scheme = gradus::prepend_scheme::always;
  bool split_words = true;  ///< changes nothing

  static constexpr const char* type = "Metaspace";
  static void fields(auto& of, const auto& f) {
    f("replacement", of.replacement);
    f("prepend_scheme", of.prepend_scheme);
    f("split", of.split_words);
  }
  void operator()(texts& all, bool raw) const;
};

/// A space for each `suffix`, but none at the end of the text.
struct bpe {
  std::string suffix = "</w>";

  static constexpr const char* type = "BPEDecoder";
  static void fields(auto& of, const auto& f) { f("suffix", of.suffix); }
  void operator()(texts& all, bool raw) const;
};

/// Bytes of the tokens `<0x00>` to `<0xFF>`.
struct byte_fallback {
  static constexpr const char* type = "ByteFallback";
  static void fields(auto&, const auto&) {}
  void operator()(texts& all, bool raw) const;
};

/// One text of all.
struct fuse {
  static constexpr const char* type = "Fuse";
  static void fields(auto&, const auto&) {}
  void operator()(texts& all, bool raw) const;
};

/// Without up to `start` and `stop` characters `content` at the ends of each text.
struct strip {
  char32_t content = U' ';
  std::size_t start = 0, stop = 0;

  static constexpr const char* type = "Strip";
  static void fields(auto& of, const auto& f) {
    f("content", of.content);
    f("start", of.start);
    f("stop", of.stop);
  }
  void operator()(texts& all, bool raw) const;
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
  /// As normalizers::replace.
  void prepare() const;
  void operator()(texts& all, bool raw) const;
};

using any = std::variant<byte_level, word_piece, metaspace, bpe, byte_fallback, fuse, strip, replace>;

}  // namespace gradus::decoders

#ifndef GRADUS_COMPILED
#include "decoders.ipp"
#endif
