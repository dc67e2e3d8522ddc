#pragma once
#include <algorithm>
#include <utility>

#include "bpe.hpp"
#include "gpt2_words.hpp"
#include "unicode.hpp"

namespace gradus {

GRADUS_IMPL bpe_tokenizer::bpe_tokenizer(std::vector<std::string> tokens, const std::array<token, 256>& byte_tokens,
                                         std::vector<bpe_merge> merges, std::vector<added_token> added)
    : tokens_(std::move(tokens)),
      byte_tokens_(byte_tokens),
      merges_(std::move(merges)),
      added_(std::move(added)),
      table_(merges_.size()) {
  if (tokens_.size() > std::size_t{std::numeric_limits<token>::max()})
    throw error("bpe: a vocabulary of " + std::to_string(tokens_.size()) + " tokens is too large");
  for (const token t : byte_tokens_) check(t, "a byte's token");
  check_merges();
  for (std::size_t i = 0; i < added_.size(); ++i) {
    check(added_[i].id, "an added token");
    if (added_[i].text.empty()) throw error("bpe: an added token has no text");
    for (std::size_t j = 0; j < i; ++j)
      if (added_[i].text == added_[j].text)
        throw error("bpe: the text of added token " + std::to_string(i + 1) + " occurs twice");
  }
  finders_ = {detail::added_token_finder(added_, false), detail::added_token_finder(added_, true)};
}

GRADUS_IMPL std::string_view bpe_tokenizer::bytes_of(token id) const {
  check(id, "a token");
  return tokens_[static_cast<std::size_t>(id)];
}

GRADUS_IMPL std::optional<bpe_tokenizer::token> bpe_tokenizer::added_token_id(std::string_view text) const {
  for (const added_token& a : added_)
    if (a.text == text) return a.id;
  return std::nullopt;
}

GRADUS_IMPL void bpe_tokenizer::check(token id, const char* what) const {
  if (id < 0 || static_cast<std::size_t>(id) >= tokens_.size())
    throw error(std::string("bpe: ") + what + " is " + std::to_string(id) + ", outside the vocabulary of " +
                std::to_string(tokens_.size()));
}

GRADUS_IMPL void bpe_tokenizer::check_merges() {
  for (std::size_t rank = 0; rank < merges_.size(); ++rank) {
    const bpe_merge& m = merges_[rank];
    const std::string which = "merge " + std::to_string(rank + 1);
    for (const token t : {m.left, m.right, m.merged}) check(t, which.c_str());
    const std::string &left = tokens_[static_cast<std::size_t>(m.left)],
                      &right = tokens_[static_cast<std::size_t>(m.right)];
    const std::string& merged = tokens_[static_cast<std::size_t>(m.merged)];
    if (left.empty() || right.empty() || merged.size() != left.size() + right.size() || !merged.starts_with(left) ||
        !merged.ends_with(right))
      throw error("bpe: " + which + " produces token " + std::to_string(m.merged) + ", which is not tokens " +
                  std::to_string(m.left) + " and " + std::to_string(m.right) + " together");
    if (!table_.insert(m, static_cast<std::int32_t>(rank))) throw error("bpe: " + which + " occurs twice");
  }
}

GRADUS_IMPL std::vector<bpe_tokenizer::token> bpe_tokenizer::encode(std::string_view text,
                                                                    encode_options options) const {
  std::vector<token> tokens;
  bpe_encoder(*this, options).encode(text, [&](std::span<const token> some) {
    tokens.insert(tokens.end(), some.begin(), some.end());
  });
  return tokens;
}

GRADUS_IMPL void bpe_encoder::encode_to(std::string_view text, const token_sink& sink) {
  if (options_.added_tokens) split(text, sink, 0);
  else encode_plain(text, sink);
}

GRADUS_IMPL void bpe_encoder::split(std::string_view text, const token_sink& sink, std::size_t round) {
  if (round == tokenizer_.finders_.size()) {
    encode_plain(text, sink);
    return;
  }
  const auto& finder = tokenizer_.finders_[round];
  while (finder.any() && !text.empty()) {
    const auto found = finder.find(tokenizer_.added_, text);
    if (found.token == nullptr) break;
    split(text.substr(0, found.begin), sink, round + 1);
    sink(std::span<const token>(&found.token->id, 1));
    text.remove_prefix(found.begin + found.token->text.size());
  }
  split(text, sink, round + 1);
}

GRADUS_IMPL void bpe_encoder::encode_plain(std::string_view text, const token_sink& sink) {
  gpt2_splitter words(text);
  for (gpt2_word w = words.next(); !w.bytes.empty(); w = words.next()) {
    if (w.valid) {
      sink(tokens_of(w.bytes));
      continue;
    }
    ++broken_words_;
    sink(options_.broken == broken_utf8::keep ? tokens_of(w.bytes) : tokens_of(unicode::replace_broken(w.bytes)));
  }
}

GRADUS_IMPL std::span<const bpe_encoder::token> bpe_encoder::tokens_of(std::string_view word) {
  if (word.size() > longest_word) {
    merge(word);
    return merged_;
  }
  if (const auto found = cache_.find(word); found != cache_.end())
    return std::span(cached_).subspan(found->second.begin, found->second.count);
  merge(word);
  if (cache_.size() == most_words) {
    cache_.clear();
    cached_.clear();
  }
  cache_.emplace(word, place{cached_.size(), merged_.size()});
  cached_.insert(cached_.end(), merged_.begin(), merged_.end());
  return merged_;
}

GRADUS_IMPL void bpe_encoder::merge(std::string_view word) {
  if (word.size() >= none) throw error("bpe: a word of " + std::to_string(word.size()) + " bytes is too long");
  symbols_.clear();
  for (std::size_t i = 0; i < word.size(); ++i)
    symbols_.push_back({tokenizer_.byte_tokens_[static_cast<unsigned char>(word[i])], static_cast<std::uint32_t>(i) - 1,
                        i + 1 < word.size() ? static_cast<std::uint32_t>(i) + 1 : none});
  candidates_.clear();
  for (std::uint32_t i = 0; i + 1 < symbols_.size(); ++i) consider(i);
  while (!candidates_.empty()) {
    std::ranges::pop_heap(candidates_, std::greater<>{});
    const candidate c = candidates_.back();
    candidates_.pop_back();
    symbol& left = symbols_[c.at];
    // Another merge may have used one of the two.
    if (left.id != c.left || left.next == none || symbols_[left.next].id != c.right) continue;
    symbols_[left.next].id = -1;
    left = {c.merged, left.previous, symbols_[left.next].next};
    if (left.next != none) {
      symbols_[left.next].previous = c.at;
      consider(c.at);
    }
    if (left.previous != none) consider(left.previous);
  }
  merged_.clear();
  for (std::uint32_t i = 0; i != none; i = symbols_[i].next) merged_.push_back(symbols_[i].id);
}

GRADUS_IMPL void bpe_encoder::consider(std::uint32_t at) {
  const token left = symbols_[at].id, right = symbols_[symbols_[at].next].id;
  if (const auto* m = tokenizer_.table_.find(left, right)) {
    candidates_.push_back({m->rank, at, left, right, m->merged});
    std::ranges::push_heap(candidates_, std::greater<>{});
  }
}

}  // namespace gradus
