#pragma once
// What a tokenizer puts around the tokens of a text, with the names of Hugging Face's tokenizers 0.23.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "../core/error.hpp"
#include "pre_tokenizers.hpp"

namespace gradus {

/// A part of what a model reads: a text, or a special token.
struct template_piece {
  enum : int { first_text, second_text, special };
  int kind = first_text;
  std::string token = {};  ///< of a special one
  int segment = 0;
};

namespace post_processors {

/// A special token and its id.
using marked = std::pair<std::string, std::int32_t>;

/// Pieces as the file says.
struct template_processing {
  std::vector<template_piece> single, pair;
  std::map<std::string, std::vector<std::int32_t>> special_tokens;

  static constexpr const char* type = "TemplateProcessing";
  static void fields(auto& of, const auto& f) {
    f("single", of.single);
    f("pair", of.pair);
    f("special_tokens", of.special_tokens);
  }
  /// Throws gradus::error for a special token without ids, for more than 1024 of them in a template, and for a pair
  /// that lacks a text.
  void prepare() const {
    for (const auto* pieces : {&single, &pair}) {
      int texts[2] = {};
      std::size_t ids = 0;
      for (const template_piece& piece : *pieces) {
        const auto special = special_tokens.find(piece.token);
        if (piece.kind != template_piece::special) ++texts[piece.kind];
        else if (special == special_tokens.end())
          throw error("the template has '" + piece.token + "', which is not among its special tokens");
        else ids += special->second.size();
      }
      if (ids > 1024) throw error("a template has " + std::to_string(ids) + " special tokens; 1024 may be");
      if (texts[0] != 1 || texts[1] != (pieces == &pair ? 1 : 0))
        throw error("a template must have its text, or its two texts, once each");
    }
  }
};

/// [CLS] A [SEP] and [CLS] A [SEP] B [SEP], with the second text in segment 1.
struct bert {
  marked sep{"[SEP]", 0}, cls{"[CLS]", 0};

  static constexpr const char* type = "BertProcessing";
  static void fields(auto& of, const auto& f) {
    f("sep", of.sep);
    f("cls", of.cls);
  }
};

/// `<s> A </s>` and `<s> A </s></s> B </s>`, all in segment 0.
struct roberta {
  marked sep{"</s>", 2}, cls{"<s>", 0};
  bool trim_offsets = true, add_prefix_space = true;  ///< change no token

  static constexpr const char* type = "RobertaProcessing";
  static void fields(auto& of, const auto& f) {
    f("sep", of.sep);
    f("cls", of.cls);
    f("trim_offsets", of.trim_offsets);
    f("add_prefix_space", of.add_prefix_space);
  }
};

/// Nothing: it changes no token.
struct byte_level : byte_level_fields {};

using any = std::variant<template_processing, bert, roberta, byte_level>;

/// What the parts write, as one template; without them, the texts alone. Throws gradus::error if two of them write
/// something.
inline template_processing layout_of(const std::vector<any>& parts) {
  using p = template_piece;
  template_processing all{{{p::first_text}}, {{p::first_text}, {p::second_text, {}, 1}}, {}};
  int writers = 0;
  const auto around = [&](const marked& cls, const marked& sep, int more, int segment) {
    all.special_tokens = {{cls.first, {cls.second}}, {sep.first, {sep.second}}};
    all.single = {{p::special, cls.first}, {p::first_text}, {p::special, sep.first}};
    all.pair = all.single;
    for (int i = 0; i < more; ++i) all.pair.push_back({p::special, sep.first});
    all.pair.push_back({p::second_text, {}, segment});
    all.pair.push_back({p::special, sep.first, segment});
  };
  for (const any& part : parts) {
    if (!std::holds_alternative<byte_level>(part) && ++writers > 1)
      throw error("two post-processors write special tokens; one is read");
    if (const auto* as_said = std::get_if<template_processing>(&part)) all = *as_said;
    if (const auto* b = std::get_if<bert>(&part)) around(b->cls, b->sep, 0, 1);
    if (const auto* r = std::get_if<roberta>(&part)) around(r->cls, r->sep, 1, 0);
  }
  return all;
}

}  // namespace post_processors

}  // namespace gradus
