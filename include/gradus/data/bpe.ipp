#pragma once
#include <algorithm>
#include <utility>

#include "bpe.hpp"
#include "unicode.hpp"

namespace gradus {

GRADUS_IMPL bpe_tokenizer::bpe_tokenizer(std::vector<std::string> tokens, const std::array<token, 256>& byte_tokens,
                                         std::vector<bpe_merge> merges, std::vector<added_token> added,
                                         bpe_settings settings)
    : tokens_(std::move(tokens)),
      byte_tokens_(byte_tokens),
      merges_(std::move(merges)),
      added_(std::move(added)),
      settings_(settings),
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
  std::array<std::vector<detail::added_token_finder::entry>, 2> rounds;
  for (const added_token& a : added_) rounds[a.second ? 1 : 0].push_back({a.text, a.id});
  first_ = detail::added_token_finder(std::move(rounds[0]));
  second_ = detail::added_token_finder(std::move(rounds[1]));
  if (settings_.begin_token) check(*settings_.begin_token, "the token before a text");
  if (settings_.whole_words) index_words();
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

GRADUS_IMPL std::optional<bpe_tokenizer::token> bpe_tokenizer::end_token() const {
  const auto id = added_token_id("<|endoftext|>");
  return id ? id : added_token_id("<|end_of_text|>");
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

GRADUS_IMPL void bpe_tokenizer::index_words() {
  std::vector<bool> is_added(tokens_.size());
  for (const added_token& a : added_) is_added[static_cast<std::size_t>(a.id)] = true;
  for (std::size_t id = 0; id < tokens_.size(); ++id) {
    if (tokens_[id].empty() || is_added[id]) continue;
    const auto [same, is_new] = words_.emplace(tokens_[id], static_cast<token>(id));
    if (!is_new)
      throw error("bpe: tokens " + std::to_string(same->second) + " and " + std::to_string(id) +
                  " have the same bytes, and a word may be either");
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
  const auto words = [&](std::string_view part) { encode_plain(part, sink); };
  const auto found = [&](token id) { sink(std::span<const token>(&id, 1)); };
  if (!options_.added_tokens) words(text);
  else
    tokenizer_.first_.split(
        text, [&](std::string_view part) { tokenizer_.second_.split(part, words, found); }, found);
}

GRADUS_IMPL void bpe_encoder::encode_plain(std::string_view text, const token_sink& sink) {
  word_splitter words(text, tokenizer_.settings_.pattern);
  for (text_word w = words.next(); !w.bytes.empty(); w = words.next()) {
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
  if (const auto whole = tokenizer_.words_.find(word); whole != tokenizer_.words_.end()) {
    merged_ = {whole->second};
    return;
  }
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
