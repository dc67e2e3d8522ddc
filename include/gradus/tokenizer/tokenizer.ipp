#pragma once
#include <algorithm>
#include <array>
#include <utility>

#include "tokenizer.hpp"
#include "unicode.hpp"

namespace gradus {

GRADUS_IMPL tokenizer::tokenizer(tokenizer_parts parts) : parts_(std::move(parts)) {
  const auto prepare = [](auto& part) {
    if constexpr (requires { part.prepare(); }) part.prepare();
  };
  for (auto& part : parts_.normalizers) std::visit(prepare, part);
  for (auto& part : parts_.pre_tokenizers) std::visit(prepare, part);
  std::visit(prepare, parts_.model);
  for (auto& part : parts_.post_processors) std::visit(prepare, part);
  for (auto& part : parts_.decoders) std::visit(prepare, part);
  constexpr auto is_byte_level = [](const auto& part) {
    return std::holds_alternative<pre_tokenizers::byte_level>(part);
  };
  if (std::ranges::count_if(parts_.pre_tokenizers, is_byte_level) > 4)
    throw error("more than 4 ByteLevel pre-tokenizers; each may double a text, and tokenizers have one");
  byte_level_ = !parts_.pre_tokenizers.empty() &&
                std::holds_alternative<pre_tokenizers::byte_level>(parts_.pre_tokenizers.back());
  place_added_tokens();
  layout_ = post_processors::layout_of(parts_.post_processors);
  for (const auto& [text, ids] : layout_.special_tokens)
    for (const token id : ids) static_cast<void>(spelling(id));
  set({});
}

/// Added tokens that the model does not know are numbered after its tokens, in their order.
GRADUS_IMPL void tokenizer::place_added_tokens() {
  const token_table& known = table();
  std::array<std::vector<added_token>, 2> rounds;
  std::optional<token> last;
  std::vector<std::string_view> texts;
  ids_ = known.ids();
  for (std::size_t i = 0; i < parts_.added_tokens.size(); ++i) {
    const added_token& a = parts_.added_tokens[i];
    const std::string which = "the added token " + token_table::shown(a.text) + " ";
    if (a.text.empty()) throw error("an added token has no text");
    if (std::ranges::find(texts, a.text) != texts.end()) throw error(which + "occurs twice");
    texts.push_back(a.text);
    const auto count = static_cast<token>(known.count());
    const token id = known.find(a.text).value_or(last && *last >= count ? *last + 1 : count);
    if (a.id != id)
      throw error(which + "has the id " + std::to_string(a.id) + ", and not " + std::to_string(id) +
                  (known.find(a.text) ? ", as in the vocabulary" : ", the one after the others"));
    if (const std::string_view other = known.text(id); !other.empty() && other != a.text)
      throw error(which + "has the id " + std::to_string(id) + " of " + token_table::shown(other));
    last = std::max(last.value_or(id), id);
    added_.emplace(id, i);
    ids_ = std::max(ids_, static_cast<std::size_t>(id) + 1);
    shown_.push_back(a.text);
    if (a.normalized) normalize(shown_.back());
  }
  for (const bool special : {true, false})
    for (std::size_t i = 0; i < shown_.size(); ++i) {
      added_token a = parts_.added_tokens[i];
      a.text = shown_[i];
      if (a.special == special && !a.text.empty()) rounds[a.normalized ? 1 : 0].push_back(std::move(a));
    }
  before_ = detail::added_token_finder(std::move(rounds[0]));
  after_ = detail::added_token_finder(std::move(rounds[1]));
}

GRADUS_IMPL const token_table& tokenizer::table() const {
  return std::visit([](const auto& model) -> const token_table& { return tokens_of(model); }, parts_.model);
}

GRADUS_IMPL std::string_view tokenizer::spelling(token id) const {
  if (const auto a = added_.find(id); a != added_.end()) return parts_.added_tokens[a->second].text;
  if (id < 0 || static_cast<std::size_t>(id) >= vocabulary())
    throw error("the token " + std::to_string(id) + " is outside the vocabulary of " + std::to_string(vocabulary()));
  return table().text(id);
}

GRADUS_IMPL std::optional<tokenizer::token> tokenizer::id_of(std::string_view spelling) const {
  for (const added_token& a : parts_.added_tokens)
    if (a.text == spelling) return a.id;
  return table().find(spelling);
}

GRADUS_IMPL std::string tokenizer::bytes_of(token id) const {
  // After itself, since the first token of a text may lose a space.
  const std::array twice{id, id};
  const std::string one = decode(std::span(twice).first(1)), two = decode(twice);
  return two.substr(std::min(one.size(), two.size()));
}

GRADUS_IMPL std::optional<tokenizer::token> tokenizer::begin_token() const {
  if (settings_.adds_begin) return *settings_.adds_begin && settings_.begin ? id_of(*settings_.begin) : std::nullopt;
  const template_piece& first = layout_.single.front();
  if (first.kind != template_piece::special) return std::nullopt;
  const std::vector<token>& ids = layout_.special_tokens.at(first.token);
  return ids.empty() ? std::nullopt : std::optional(ids.front());
}

GRADUS_IMPL void tokenizer::set(text_settings of) {
  std::optional<token> end;
  if (of.end) {
    end = id_of(*of.end);
    if (!end)
      throw error("the eos_token " + token_table::shown(*of.end) + " of the files beside it is not one of its tokens");
  } else if (of.says_end) {
    for (const token id : of.end_ids)
      if (!end && static_cast<std::size_t>(id) < ids_) end = id;
  } else {
    for (const char* text :
         {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|im_end|>", "<｜end▁of▁sentence｜>"})
      for (const added_token& a : parts_.added_tokens)
        if (!end && a.text == text) end = a.id;
  }
  end_ = end;
  settings_ = std::move(of);
}

GRADUS_IMPL std::vector<tokenizer::token> tokenizer::end_tokens() const {
  std::vector<token> all = settings_.end_ids;
  if (end_ && std::ranges::find(all, *end_) == all.end()) all.insert(all.begin(), *end_);
  return all;
}

GRADUS_IMPL void tokenizer::normalize(std::string& text) const {
  const std::size_t most = normalizers::most_bytes(text.size());
  const auto apply = [&](const auto& rewrite) {
    if constexpr (requires { rewrite(text, most); }) rewrite(text, most);
    else rewrite(text);
    normalizers::check_growth(text.size(), most);
  };
  for (const auto& part : parts_.normalizers) std::visit(apply, part);
}

template <class Sink>
void tokenizer::split(text_piece piece, std::size_t stage, const Sink& sink) const {
  const auto& parts = parts_.pre_tokenizers;
  if (stage == parts.size()) return sink(piece.text);
  std::visit(
      [&]<class Part>(const Part& part) {
        part.split(piece, [&](text_piece some) {
          // The last pre-tokenizer's bytes become characters when a new word is spelled.
          if (std::is_same_v<Part, pre_tokenizers::byte_level> && stage + 1 < parts.size()) {
            const std::string characters = detail::as_byte_characters(some.text);
            split({characters, some.first}, stage + 1, sink);
          } else {
            split(some, stage + 1, sink);
          }
        });
      },
      parts[stage]);
}

GRADUS_IMPL void tokenizer::split(std::string_view text, broken_utf8 broken,
                                  const std::function<void(std::string_view)>& sink) const {
  std::string rewritten;
  if ((broken == broken_utf8::replace || !keeps_broken()) && unicode::count_broken(text) > 0)
    text = rewritten = unicode::replace_broken(text);
  if (!parts_.normalizers.empty()) {
    rewritten = text;
    normalize(rewritten);
    text = rewritten;
  }
  if (!text.empty()) split({text}, 0, sink);
}

GRADUS_IMPL std::vector<tokenizer::token> tokenizer::encode(std::string_view text, encode_options options) const {
  std::vector<token> tokens;
  token_encoder(*this, options).encode(text, [&](std::span<const token> some) {
    tokens.insert(tokens.end(), some.begin(), some.end());
  });
  return tokens;
}

GRADUS_IMPL model_input tokenizer::assembled(const std::vector<template_piece>& layout, std::vector<token> first,
                                             std::vector<token> second, std::size_t max_length) const {
  std::size_t special = 0;
  for (const template_piece& piece : layout)
    if (piece.kind == template_piece::special) special += layout_.special_tokens.at(piece.token).size();
  if (max_length < special)
    throw error("a length of " + std::to_string(max_length) + " has no room for the " + std::to_string(special) +
                " special tokens");
  // Hugging Face's strategy longest_first: a text of up to half the room is whole.
  if (const std::size_t room = max_length - special; first.size() + second.size() > room) {
    auto& shorter = first.size() > second.size() ? second : first;
    auto& longer = first.size() > second.size() ? first : second;
    if (shorter.size() > room / 2) shorter.resize(room / 2);
    longer.resize(room - shorter.size());
  }
  model_input all;
  for (const template_piece& piece : layout) {
    const auto& ids = piece.kind == template_piece::special      ? layout_.special_tokens.at(piece.token)
                      : piece.kind == template_piece::first_text ? first
                                                                 : second;
    all.ids.insert(all.ids.end(), ids.begin(), ids.end());
    all.segments.resize(all.ids.size(), piece.segment);
  }
  return all;
}

GRADUS_IMPL model_input tokenizer::input(std::string_view text, std::size_t max_length) const {
  return assembled(layout_.single, encode(text, {.broken = broken_utf8::replace}), {}, max_length);
}

GRADUS_IMPL model_input tokenizer::input(std::string_view first, std::string_view second,
                                         std::size_t max_length) const {
  return assembled(layout_.pair, encode(first, {.broken = broken_utf8::replace}),
                   encode(second, {.broken = broken_utf8::replace}), max_length);
}

GRADUS_IMPL std::string tokenizer::decode(std::span<const token> tokens, broken_utf8 broken) const {
  std::vector<std::string> texts;
  for (const token id : tokens) {
    const auto a = added_.find(id);
    const std::string_view text = a != added_.end() ? std::string_view(shown_[a->second]) : spelling(id);
    if (!text.empty()) texts.emplace_back(text);
  }
  const bool raw = broken == broken_utf8::keep;
  const auto size = [&] {
    std::size_t bytes = 0;
    for (const std::string& text : texts) bytes += text.size();
    return bytes;
  };
  const std::size_t most = normalizers::most_bytes(size());
  const auto apply = [&](const auto& rewrite) {
    rewrite(texts, raw);
    if (size() > most)
      throw error("the tokenizer's decoders make more than " + std::to_string(most) +
                  " bytes of a text; they may make 32 times its size and 256 bytes");
  };
  for (const auto& part : parts_.decoders) std::visit(apply, part);
  std::string all;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (i > 0 && parts_.decoders.empty()) all += ' ';
    all += texts[i];
  }
  return all;
}

GRADUS_IMPL void token_encoder::encode_to(std::string_view text, const token_sink& sink) {
  std::string whole;
  if (const std::size_t broken = unicode::count_broken(text); broken > 0) {
    broken_ += broken;
    if (options_.broken == broken_utf8::replace || !tokenizer_.keeps_broken()) {
      whole = unicode::replace_broken(text);
      text = whole;
    }
  }
  const auto is_token = [&](const added_token&) { return options_.added_tokens; };
  if (!options_.added_tokens) {
    if (!text.empty()) encode_between(text, true, is_token, sink);
    return;
  }
  tokenizer_.before_.split(
      text, [&](std::string_view part) { encode_between(part, part.data() == text.data(), is_token, sink); },
      [&](token id, std::size_t) { sink(std::span<const token>(&id, 1)); },
      [](const added_token&, std::size_t) { return true; });
}

GRADUS_IMPL void token_encoder::encode_between(std::string_view text, bool first, const token_filter& is_token,
                                               const token_sink& sink) {
  std::string rewritten;
  if (!tokenizer_.parts_.normalizers.empty()) {
    rewritten = text;
    tokenizer_.normalize(rewritten);
    text = rewritten;
  }
  tokenizer_.after_.split(
      text,
      [&](std::string_view part) {
        tokenizer_.split({part, first && part.data() == text.data()}, 0,
                         [&](std::string_view word) { add_word(word, sink); });
      },
      [&](token id, std::size_t) { sink(std::span<const token>(&id, 1)); },
      [&](const added_token& t, std::size_t) { return is_token(t); });
}

GRADUS_IMPL void token_encoder::encode_parts(std::span<const text_part> parts,
                                             const std::function<void(std::span<const token>, int group)>& sink) {
  std::string text;
  std::vector<std::size_t> ends;
  for (const text_part& part : parts) {
    text += unicode::replace_broken(part.text);
    ends.push_back(text.size());
  }
  const auto part_at = [&](std::size_t at) {
    return static_cast<std::size_t>(std::ranges::upper_bound(ends, at) - ends.begin());
  };
  const auto is_mark = [&](const added_token& t) {
    const auto spells = [&](const text_part& part) { return part.marks && part.text.find(t.text) != part.text.npos; };
    return t.special || std::ranges::any_of(parts, spells);
  };
  const auto with_marks = [](const text_part& part) { return part.marks; };
  const auto is_token = [&](const added_token& t, std::size_t begin) {
    const auto in = parts.subspan(part_at(begin), part_at(begin + t.text.size() - 1) + 1 - part_at(begin));
    const auto same = [&](const text_part& part) { return part.group == in.front().group; };
    return std::ranges::all_of(in, same) && (std::ranges::all_of(in, with_marks) || !is_mark(t));
  };
  const bool all_marks = std::ranges::all_of(parts, with_marks);
  const auto tokens_of_text = [&](const std::string& some, bool first) {
    std::vector<token> tokens;
    encode_between(
        some, first, [&](const added_token& t) { return all_marks || !is_mark(t); },
        [&](std::span<const token> word) { tokens.insert(tokens.end(), word.begin(), word.end()); });
    return tokens;
  };
  tokenizer_.before_.split(
      text,
      [&](std::string_view piece) {
        const auto begin = static_cast<std::size_t>(piece.data() - text.data()), end = begin + piece.size();
        std::size_t last = begin;  // of the group before
        for (std::size_t at = begin; at < end;) {
          std::size_t part = part_at(at), stop = at;
          const int group = parts[part].group;
          for (; stop < end && parts[part].group == group; ++part) stop = std::min(end, ends[part]);
          const std::string here = text.substr(at, stop - at);
          std::vector<token> tokens = tokens_of_text(here, at == 0);
          // What a tokenizer puts before each text, such as SentencePiece's space, is no part of what continues one. So
          // its tokens are those after the text before, or after a line, unless they would change these.
          for (const std::string& before : {text.substr(last, at - last), std::string("\n")}) {
            if (at == begin) break;
            const std::vector<token> alone = tokens_of_text(before, last == 0);
            std::vector<token> both = tokens_of_text(before + here, last == 0);
            if (both.size() < alone.size() || !std::equal(alone.begin(), alone.end(), both.begin())) continue;
            tokens.assign(both.begin() + static_cast<std::ptrdiff_t>(alone.size()), both.end());
            break;
          }
          sink(tokens, group);
          last = std::exchange(at, stop);
        }
      },
      [&](token id, std::size_t begin) { sink(std::span<const token>(&id, 1), parts[part_at(begin)].group); },
      is_token);
}

GRADUS_IMPL void token_encoder::add_word(std::string_view word, const token_sink& sink) {
  const auto* bpe = std::get_if<token_models::bpe>(&tokenizer_.parts_.model);
  while (!word.empty()) {
    const bool whole = word.size() <= longest_word || bpe == nullptr || tokenizer_.byte_level_;
    const std::size_t bytes = whole ? word.size() : bpe->separable(word);
    sink(tokens_of(word.substr(0, bytes)));
    word.remove_prefix(bytes);
  }
}

GRADUS_IMPL std::span<const token_encoder::token> token_encoder::tokens_of(std::string_view word) {
  if (word.size() > longest_word) {
    spell(word);
    return spelled_;
  }
  if (const auto found = words_.find(word); found != words_.end())
    return std::span(known_).subspan(found->second.begin, found->second.count);
  spell(word);
  if (words_.size() == most_words) {
    words_.clear();
    known_.clear();
  }
  words_.emplace(word, place{known_.size(), spelled_.size()});
  known_.insert(known_.end(), spelled_.begin(), spelled_.end());
  return spelled_;
}

GRADUS_IMPL void token_encoder::spell(std::string_view word) {
  spelled_.clear();
  std::string characters;
  if (tokenizer_.byte_level_) {
    characters = detail::as_byte_characters(word);
    word = characters;
  }
  std::visit([&](const auto& model) { model.spell(word, spelled_, scratch_); }, tokenizer_.parts_.model);
}

}  // namespace gradus
