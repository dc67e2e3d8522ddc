#pragma once
#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>

#include "token_models.hpp"
#include "unicode.hpp"

namespace gradus {

GRADUS_IMPL std::string detail::byte_token(unsigned char byte) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  return {'<', '0', 'x', digits[byte / 16], digits[byte % 16], '>'};
}

GRADUS_IMPL std::array<std::int32_t, 256> detail::byte_tokens(const token_table& vocab) {
  std::array<std::int32_t, 256> all{};
  for (std::size_t b = 0; b < 256; ++b) all[b] = vocab.find(byte_token(static_cast<unsigned char>(b))).value_or(-1);
  return all;
}

namespace token_models {

namespace detail {
/// A number as Hugging Face's reader makes it of its shortest decimal digits: these as a whole number, rounded, times a
/// power of ten, rounded again. Two spellings of a word may have scores that differ in the last bit alone.
inline double digits_by_power(double x) {
  if (x == 0 || !std::isfinite(x)) return x;
  char text[40];
  const char* end = std::to_chars(text, text + sizeof text, std::abs(x), std::chars_format::scientific).ptr;
  std::uint64_t digits = 0;
  int power = 0;
  const char* at = text;
  for (; *at != 'e'; ++at) {
    if (*at == '.') continue;
    digits = digits * 10 + static_cast<std::uint64_t>(*at - '0');
    --power;
  }
  int exponent = 0;
  std::from_chars(at + (at[1] == '+' ? 2 : 1), end, exponent);
  power += exponent + 1;
  if (std::abs(power) > 300) return x;
  const double scale = std::pow(10.0, std::abs(power)), whole = static_cast<double>(digits);
  return std::copysign(power < 0 ? whole / scale : whole * scale, x);
}
}  // namespace detail

GRADUS_IMPL void bpe::prepare() {
  if (unk_token) unknown_ = vocab.at(*unk_token, "the unknown token");
  bytes_ = gradus::detail::byte_tokens(vocab);
  characters_.clear();
  for (std::size_t id = 0; id < vocab.ids(); ++id) {
    const std::string_view text = vocab.text(static_cast<std::int32_t>(id));
    if (text.empty()) continue;
    const unicode::utf8_character c = unicode::read_utf8(text, 0);
    if (c.bytes != text.size() || !c.valid) continue;
    if (c.value >= characters_.size()) characters_.resize(c.value + 1, -1);
    characters_[c.value] = static_cast<std::int32_t>(id);
  }
  table_ = gradus::detail::pair_table(merges.size());
  joined_.assign(joints, false);
  // Not where a character may vanish or be one token with its neighbour, nor where its bytes or an unknown token merge.
  separable_ = continuing_subword_prefix.empty() && end_of_word_suffix.empty() && !ignore_merges;
  const bool all_bytes = std::ranges::none_of(bytes_, [](std::int32_t id) { return id < 0; });
  if (byte_fallback ? !all_bytes : fuse_unk || !unk_token) separable_ = false;
  std::vector<bool> is_byte(vocab.ids());
  for (const std::int32_t id : bytes_)
    if (id >= 0) is_byte[static_cast<std::size_t>(id)] = true;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right] = merges[rank];
    const std::string which = "merge " + std::to_string(rank + 1) + ":";
    const std::int32_t a = vocab.at(left, which), b = vocab.at(right, which);
    if (!right.starts_with(continuing_subword_prefix))
      throw error(which + " " + token_table::shown(right) + " does not begin with " + continuing_subword_prefix);
    const std::int32_t both = vocab.at(left + right.substr(continuing_subword_prefix.size()), which);
    if (!table_.insert(a, b, static_cast<std::int32_t>(rank), both))
      throw error(which + " " + token_table::shown(left + " " + right) + " occurs twice");
    if (is_byte[static_cast<std::size_t>(a)] || is_byte[static_cast<std::size_t>(b)] || a == unknown_ || b == unknown_)
      separable_ = false;
    char32_t last = 0;
    unicode::for_each_character(left, [&](char32_t c, std::string_view) { last = c; });
    joined_[joint(last, unicode::read_utf8(right, 0).value)] = true;
  }
}

GRADUS_IMPL std::size_t bpe::separable(std::string_view word) const {
  if (!separable_ || word.empty()) return word.size();
  unicode::utf8_character last = unicode::read_utf8(word, 0);
  for (std::size_t at = last.bytes; at < word.size(); at += last.bytes) {
    const unicode::utf8_character c = unicode::read_utf8(word, at);
    if (!joined_[joint(last.value, c.value)]) return at;
    last = c;
  }
  return word.size();
}

GRADUS_IMPL std::optional<std::int32_t> bpe::token_of(std::string_view character, bool is_first, bool is_last) const {
  const bool prefixed = !is_first && !continuing_subword_prefix.empty();
  if (prefixed || (is_last && !end_of_word_suffix.empty()))
    return vocab.find((prefixed ? continuing_subword_prefix : "") + std::string(character) +
                      (is_last ? end_of_word_suffix : ""));
  const char32_t c = unicode::read_utf8(character, 0).value;
  if (c >= characters_.size() || characters_[c] < 0) return std::nullopt;
  return characters_[c];
}

GRADUS_IMPL void bpe::split(std::string_view word, gradus::detail::spelling_scratch& scratch) const {
  auto& symbols = scratch.symbols;
  symbols.clear();
  const auto add = [&](std::int32_t id) {
    const auto at = static_cast<std::uint32_t>(symbols.size());
    symbols.push_back({id, at - 1, at + 1});
  };
  bool pending = false;  // an unknown token that the next unknown character may share
  std::size_t at = 0;
  unicode::for_each_character(word, [&](char32_t, std::string_view character) {
    const bool is_first = at == 0;
    at += character.size();
    if (const auto id = token_of(character, is_first, at == word.size())) {
      if (pending) add(unknown_);
      pending = false;
      return add(*id);
    }
    const bool prefixed = !is_first && !continuing_subword_prefix.empty();
    const std::string spelled = (prefixed ? continuing_subword_prefix : "") + std::string(character) +
                                (at == word.size() ? end_of_word_suffix : "");
    const auto byte = [&](char c) { return bytes_[static_cast<unsigned char>(c)]; };
    if (byte_fallback && std::ranges::none_of(spelled, [&](char c) { return byte(c) < 0; })) {
      for (const char c : spelled) add(byte(c));
    } else if (unk_token) {
      if (pending && !fuse_unk) add(unknown_);
      pending = true;
    }
  });
  if (pending) add(unknown_);
  if (!symbols.empty()) symbols.back().next = none;
}

GRADUS_IMPL void bpe::spell(std::string_view word, std::vector<std::int32_t>& to,
                            gradus::detail::spelling_scratch& scratch) const {
  if (ignore_merges)
    if (const auto whole = vocab.find(word)) return to.push_back(*whole);
  if (word.size() >= none) throw error("bpe: a word of " + std::to_string(word.size()) + " bytes is too long");
  split(word, scratch);
  auto& [symbols, candidates, paths] = scratch;
  if (symbols.empty()) return;
  candidates.clear();
  for (std::uint32_t i = 0; i + 1 < symbols.size(); ++i) consider(i, scratch);
  while (!candidates.empty()) {
    std::ranges::pop_heap(candidates, std::greater<>{});
    const auto c = candidates.back();
    candidates.pop_back();
    auto& left = symbols[c.at];
    // Another merge may have used one of the two.
    if (left.id != c.left || left.next == none || symbols[left.next].id != c.right) continue;
    symbols[left.next].id = -1;
    left = {c.merged, left.previous, symbols[left.next].next};
    if (left.next != none) {
      symbols[left.next].previous = c.at;
      consider(c.at, scratch);
    }
    if (left.previous != none) consider(left.previous, scratch);
  }
  for (std::uint32_t i = 0; i != none; i = symbols[i].next) to.push_back(symbols[i].id);
}

GRADUS_IMPL void bpe::consider(std::uint32_t at, gradus::detail::spelling_scratch& scratch) const {
  const std::int32_t left = scratch.symbols[at].id, right = scratch.symbols[scratch.symbols[at].next].id;
  if (const auto* m = table_.find(left, right)) {
    scratch.candidates.push_back({m->rank, at, left, right, m->result});
    std::ranges::push_heap(scratch.candidates, std::greater<>{});
  }
}

GRADUS_IMPL void word_piece::prepare() { unknown_ = vocab.at(unk_token, "the unknown token"); }

GRADUS_IMPL void word_piece::spell(std::string_view word, std::vector<std::int32_t>& to,
                                   gradus::detail::spelling_scratch&) const {
  const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; };  // a character
  if (static_cast<std::size_t>(std::ranges::count_if(word, std::not_fn(continues))) > max_input_chars_per_word)
    return to.push_back(unknown_);
  const std::size_t before = to.size();
  std::string rest(word);  // after the tokens found, with the prefix in front
  for (std::size_t prefix = 0; rest.size() > prefix; prefix = continuing_subword_prefix.size()) {
    std::optional<std::int32_t> found;
    std::size_t end = std::min(rest.size(), vocab.longest());
    for (; end > prefix; --end)
      if ((end == rest.size() || !continues(rest[end])) && (found = vocab.find(std::string_view(rest).substr(0, end))))
        break;
    if (!found) {
      to.resize(before);
      return to.push_back(unknown_);
    }
    to.push_back(*found);
    rest.replace(0, end, continuing_subword_prefix);
  }
}

GRADUS_IMPL void unigram::prepare() {
  if (vocab.empty()) throw error("the vocabulary is empty");
  if (!unk_id || *unk_id >= vocab.size()) throw error("the vocabulary has no unknown token: 'unk_id' names none");
  tokens_ = {};
  scores_.clear();
  double least = 0;
  for (std::size_t id = 0; id < vocab.size(); ++id) {
    tokens_.add(vocab[id].first, static_cast<std::int32_t>(id));
    if (!std::isfinite(vocab[id].second))
      throw error("the score of " + token_table::shown(vocab[id].first) + " is no number");
    scores_.push_back(detail::digits_by_power(vocab[id].second));
    least = id == 0 ? scores_[id] : std::min(least, scores_[id]);
  }
  unknown_score_ = least - 10;
  bytes_ = gradus::detail::byte_tokens(tokens_);
  std::vector<std::string_view> texts;
  for (const auto& [text, score] : vocab) texts.push_back(text);
  trie_ = gradus::detail::text_trie(texts);
}

GRADUS_IMPL void unigram::spell(std::string_view word, std::vector<std::int32_t>& to,
                                gradus::detail::spelling_scratch& scratch) const {
  const auto unknown = static_cast<std::int32_t>(*unk_id);
  auto& paths = scratch.paths;
  paths.assign(word.size() + 1, {});
  for (std::size_t at = 0, bytes = 0; at < word.size(); at += bytes) {
    const double here = paths[at].score;
    const auto reach = [&](std::size_t end, double score, std::int32_t id) {
      auto& path = paths[end];
      if (!path.reached || score > path.score) path = {score, at, id, true};
    };
    bytes = unicode::read_utf8(word, at).bytes;
    bool single = false;
    trie_.for_each_at(word, at, [&](std::size_t end, std::int32_t id) {
      reach(end, scores_[static_cast<std::size_t>(id)] + here, id);
      single = single || end == at + bytes;
    });
    if (!single) reach(at + bytes, unknown_score_ + here, unknown);
  }
  // From the end, with neighbouring unknown characters as one.
  std::vector<std::pair<std::size_t, std::size_t>> spelled;
  bool fused = false;
  for (std::size_t end = word.size(); end > 0; end = paths[end].begin) {
    const bool is_unknown = paths[end].last == unknown;
    if (is_unknown && fused) spelled.back().first = paths[end].begin;
    else spelled.emplace_back(paths[end].begin, end);
    fused = is_unknown;
  }
  for (auto s = spelled.rbegin(); s != spelled.rend(); ++s) {
    const std::string_view text = word.substr(s->first, s->second - s->first);
    if (const auto id = tokens_.find(text)) {
      to.push_back(*id);
    } else if (const auto byte = [&](char c) { return bytes_[static_cast<unsigned char>(c)]; };
               byte_fallback && std::ranges::none_of(text, [&](char c) { return byte(c) < 0; })) {
      for (const char c : text) to.push_back(byte(c));
    } else {
      to.push_back(unknown);
    }
  }
}

}  // namespace token_models

}  // namespace gradus
