#pragma once
// How a tokenizer makes a text of tokens, with the names of Hugging Face's tokenizers 0.23.

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include "../core/config.hpp"
#include "normalizers.hpp"
#include "pre_tokenizers.hpp"

// Each part rewrites a list of texts: first those of the tokens, at last those that make the result when joined. With
// `raw`, bytes that are no characters stay as they are, so that the text can go on with the bytes that they lack.
namespace gradus::decoders {

using texts = std::vector<std::string>;

/// Bytes of the characters that stand for them; its entries change nothing.
struct byte_level : byte_level_fields {
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
struct metaspace : metaspace_fields {
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
struct replace : normalizers::replace {
  void operator()(texts& all, bool raw) const;
};

using any = std::variant<byte_level, word_piece, metaspace, bpe, byte_fallback, fuse, strip, replace>;

}  // namespace gradus::decoders

#ifndef GRADUS_COMPILED
#include "decoders.ipp"
#endif
