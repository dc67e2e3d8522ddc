#pragma once
// How a tokenizer splits a normalized text into words, with the names of Hugging Face's tokenizers 0.23.

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "../core/config.hpp"
#include "text_pattern.hpp"
#include "unicode.hpp"

namespace gradus {

/// What becomes of the matches at which a text is split.
enum class split_behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };
constexpr auto names_of(split_behavior) {
  return std::array{"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
}

/// Where a Metaspace puts its character before a text.
enum class prepend_scheme { always, never, first };
constexpr auto names_of(prepend_scheme) { return std::array{"always", "never", "first"}; }

/// A part of a text.
struct text_piece {
  std::string_view text;
  bool first = true;  ///< the whole text begins with it
};

namespace detail {

/// The character that stands for a byte: visible ones stand for themselves; the others are 256, 257, … in order
/// (Radford et al. 2019, encoder.py).
constexpr std::array<char32_t, 256> byte_characters() {
  std::array<char32_t, 256> characters{};
  char32_t next = 256;
  for (char32_t b = 0; b < 256; ++b) {
    const bool visible = (b >= U'!' && b <= U'~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    characters[b] = visible ? b : next++;
  }
  return characters;
}
/// The characters of a text's bytes.
std::string as_byte_characters(std::string_view text);
/// The byte that a character stands for; -1: none.
int byte_of_character(char32_t c);

/// Splits a piece where events say: `events(report)` calls report(begin, end, is_match) for all of its text, in order.
template <class Events, class Sink>
void split_by(split_behavior how, text_piece piece, const Events& events, const Sink& sink) {
  struct {
    std::size_t begin = 0, end = 0;
    bool match = false;
  } last;
  const auto flush = [&] {
    if (last.begin < last.end)
      sink(text_piece{piece.text.substr(last.begin, last.end - last.begin), piece.first && last.begin == 0});
  };
  events([&](std::size_t begin, std::size_t end, bool match) {
    const bool joined = how == split_behavior::contiguous             ? match == last.match
                        : how == split_behavior::merged_with_previous ? match && !last.match
                        : how == split_behavior::merged_with_next     ? last.match && !match
                                                                      : false;
    if (!joined) {
      flush();
      last.begin = how == split_behavior::removed && match ? end : begin;
    }
    last.end = end;
    last.match = match;
  });
  flush();
}

/// Splits at characters.
template <class Is, class Sink>
void split_at(split_behavior how, text_piece piece, const Is& is, const Sink& sink) {
  split_by(
      how, piece,
      [&](const auto& report) {
        std::size_t done = 0, at = 0;
        unicode::for_each_character(piece.text, [&](char32_t c, std::string_view bytes) {
          if (is(c)) {
            if (done < at) report(done, at, false);
            done = at + bytes.size();
            report(at, done, true);
          }
          at += bytes.size();
        });
        if (done < at) report(done, at, false);
      },
      sink);
}

/// Splits at the matches of a pattern; with `invert`, at what is between them.
template <class Sink>
void split_at(split_behavior how, text_piece piece, const text_pattern& pattern, bool invert, const Sink& sink) {
  split_by(
      how, piece,
      [&](const auto& report) {
        std::size_t done = 0;
        text_pattern::finder matches(pattern, piece.text);
        for (auto m = matches.next(); m; m = matches.next()) {
          if (done < m->begin) report(done, m->begin, invert);
          report(m->begin, m->end, !invert);
          done = m->end;
        }
        if (done < piece.text.size()) report(done, piece.text.size(), invert);
      },
      sink);
}

}  // namespace detail

/// The entries of a ByteLevel, wherever one stands; what each of them changes there is said there.
struct byte_level_fields {
  bool add_prefix_space = true, trim_offsets = true, use_regex = true;

  static constexpr const char* type = "ByteLevel";
  static void fields(auto& of, const auto& f) {
    f("add_prefix_space", of.add_prefix_space);
    f("trim_offsets", of.trim_offsets);
    f("use_regex", of.use_regex);
  }
};

/// The entries of a Metaspace, before and after the model.
struct metaspace_fields {
  char32_t replacement = U'\u2581';
  gradus::prepend_scheme prepend_scheme = gradus::prepend_scheme::always;
  bool split_words = true;

  static constexpr const char* type = "Metaspace";
  static void fields(auto& of, const auto& f) {
    f("replacement", of.replacement);
    f("prepend_scheme", of.prepend_scheme);
    f("split", of.split_words);
  }
};

// Each `split(piece, sink)` calls sink(text_piece) for the parts of a piece, in order.
namespace pre_tokenizers {

/// At white space, which is removed, and at each punctuation character.
struct bert {
  static constexpr const char* type = "BertPreTokenizer";
  static void fields(auto&, const auto&) {}
  template <class Sink>
  void split(text_piece piece, const Sink& sink) const {
    detail::split_at(split_behavior::removed, piece, unicode::is_space, [&](text_piece word) {
      detail::split_at(
          split_behavior::isolated, word, [](char32_t c) { return is_punctuation(c); }, sink);
    });
  }
  static bool is_punctuation(char32_t c) { return unicode::is(c, unicode::property::punctuation); }
};

/// By GPT-2's pattern, if `use_regex`. After it, a text consists of the characters that stand for its bytes.
struct byte_level : byte_level_fields {
  template <class Sink>
  void split(text_piece piece, const Sink& sink) const {
    std::string with_space;
    if (add_prefix_space && !piece.text.starts_with(' ')) {
      with_space.reserve(piece.text.size() + 1);
      with_space.append(1, ' ').append(piece.text);
      piece.text = with_space;
    }
    if (!use_regex) return sink(piece);
    word_splitter words(piece.text, word_pattern::gpt2);
    for (auto word = words.next(); !word.empty(); word = words.next()) {
      sink(text_piece{word, piece.first});
      piece.first = false;
    }
  }
};

/// Writes a character for each space, and splits before it.
struct metaspace : metaspace_fields {
  template <class Sink>
  void split(text_piece piece, const Sink& sink) const {
    const std::string mark = unicode::to_utf8(replacement);
    std::string text;
    text.reserve(piece.text.size() + piece.text.size() / 4);
    for (const char c : piece.text) {
      if (c == ' ') text += mark;
      else text += c;
    }
    const bool may_prepend = prepend_scheme == gradus::prepend_scheme::always ||
                             (prepend_scheme == gradus::prepend_scheme::first && piece.first);
    if (may_prepend && !text.starts_with(mark)) text.insert(0, mark);
    piece.text = text;
    if (!split_words) return sink(piece);
    detail::split_at(
        split_behavior::merged_with_next, piece, [&](char32_t c) { return c == replacement; }, sink);
  }
};

/// Into runs of `\w` and runs of other characters, without white space.
struct whitespace {
  static constexpr const char* type = "Whitespace";
  static void fields(auto&, const auto&) {}
  template <class Sink>
  void split(text_piece piece, const Sink& sink) const {
    detail::split_at(split_behavior::removed, piece, unicode::is_space, [&](text_piece part) {
      detail::split_at(
          split_behavior::contiguous, part, [](char32_t c) { return unicode::is(c, unicode::property::word); }, sink);
    });
  }
};

/// At white space, which is removed.
struct whitespace_split {
  static constexpr const char* type = "WhitespaceSplit";
  static void fields(auto&, const auto&) {}
  template <class Sink>
  void split(text_piece piece, const Sink& sink) const {
    detail::split_at(split_behavior::removed, piece, unicode::is_space, sink);
  }
};

/// At punctuation.
struct punctuation {
  split_behavior behavior = split_behavior::isolated;

  static constexpr const char* type = "Punctuation";
  static void fields(auto& of, const auto& f) { f("behavior", of.behavior); }
  template <class Sink>
  void split(text_piece piece, const Sink& sink) const {
    detail::split_at(behavior, piece, bert::is_punctuation, sink);
  }
};

/// At numbers: at each digit, or at runs of them.
struct digits {
  bool individual_digits = false;

  static constexpr const char* type = "Digits";
  static void fields(auto& of, const auto& f) { f("individual_digits", of.individual_digits); }
  template <class Sink>
  void split(text_piece piece, const Sink& sink) const {
    detail::split_at(
        individual_digits ? split_behavior::isolated : split_behavior::contiguous, piece,
        [](char32_t c) { return unicode::is(c, unicode::property::numeric); }, sink);
  }
};

/// At the matches of a pattern, or with `invert` at what is between them.
struct pattern_split {
  text_pattern pattern;
  split_behavior behavior = split_behavior::isolated;
  bool invert = false;

  static constexpr const char* type = "Split";
  static void fields(auto& of, const auto& f) {
    f.needed("pattern", of.pattern);
    f("behavior", of.behavior);
    f("invert", of.invert);
  }
  /// Throws gradus::error for an empty pattern.
  void prepare() const;
  template <class Sink>
  void split(text_piece piece, const Sink& sink) const {
    detail::split_at(behavior, piece, pattern, invert, sink);
  }
};

using any = std::variant<bert, byte_level, metaspace, whitespace, whitespace_split, punctuation, digits, pattern_split>;

/// The pre-tokenizers of a byte-level BPE that splits texts by a pattern.
std::vector<any> byte_level_by(word_pattern pattern);

}  // namespace pre_tokenizers

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "pre_tokenizers.ipp"
#endif
