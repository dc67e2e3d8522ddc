#pragma once
#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "bpe_trainer.hpp"
#include "unicode.hpp"

namespace gradus {

GRADUS_IMPL bpe_trainer::bpe_trainer(bpe_training options) : options_(std::move(options)) {
  const std::set<std::string> special(options_.special_tokens.begin(), options_.special_tokens.end());
  if (special.size() != options_.special_tokens.size()) throw error("bpe: a special token is given twice");
  if (special.contains("")) throw error("bpe: a special token has no text");
  const std::size_t least = 256 + special.size(), most = std::size_t{1} << 24;
  if (options_.vocabulary < least || options_.vocabulary > most)
    throw error("bpe: a vocabulary has from " + std::to_string(least) + " to " + std::to_string(most) +
                " tokens (256 bytes and " + std::to_string(special.size()) + " special ones), not " +
                std::to_string(options_.vocabulary));
}

GRADUS_IMPL void bpe_trainer::count(std::string_view text) {
  std::string whole;
  if (options_.broken == broken_utf8::replace && unicode::count_broken(text) > 0) {
    whole = unicode::replace_broken(text);
    text = whole;
  }
  word_splitter words(text, options_.pattern);
  for (std::string_view word = words.next(); !word.empty(); word = words.next()) add(word);
}

GRADUS_IMPL void bpe_trainer::add(std::string_view word) {
  const auto found = counts_.find(word);
  if (found != counts_.end()) ++found->second;
  else counts_.emplace(word, 1);
}

/// One training: words as tokens, and the pairs in them.
class bpe_trainer::run {
 public:
  explicit run(const bpe_trainer& from) : options_(from.options_) {
    start_from_bytes();
    for (const auto& [text, count] : from.counts_) {
      std::vector<token> symbols(text.size());
      std::ranges::transform(text, symbols.begin(), [&](char c) { return bytes_[static_cast<unsigned char>(c)]; });
      words_.push_back({std::move(symbols), static_cast<std::int64_t>(count)});
    }
    for (std::size_t w = 0; w < words_.size(); ++w)
      for (std::size_t i = 0; i + 1 < words_[w].symbols.size(); ++i)
        change({words_[w].symbols[i], words_[w].symbols[i + 1]}, words_[w].count, w);
    queue_new_pairs();
  }

  tokenizer train() {
    while (tokens_.size() + options_.special_tokens.size() < options_.vocabulary && !queue_.empty()) {
      std::pop_heap(queue_.begin(), queue_.end());
      entry top = std::move(queue_.back());
      queue_.pop_back();
      // Other merges may have made the pair rarer since it was queued.
      if (const std::int64_t now = pair_counts_.at(top.both); now != top.count) {
        top.count = now;
        if (now > 0) push(std::move(top));
        continue;
      }
      if (static_cast<std::uint64_t>(top.count) < options_.min_frequency) break;
      merge(top);
    }
    return finish();
  }

 private:
  using pair = std::pair<token, token>;
  struct pair_hash {
    std::size_t operator()(const pair& p) const {
      const std::uint64_t both =
          std::uint64_t{static_cast<std::uint32_t>(p.first)} << 32 | static_cast<std::uint32_t>(p.second);
      const std::uint64_t mixed = both * 0x9E3779B97F4A7C15u;
      return static_cast<std::size_t>(mixed ^ mixed >> 32);
    }
  };
  struct word {
    std::vector<token> symbols;
    std::int64_t count;
  };
  /// A pair, its count, and the words that may contain it.
  struct entry {
    std::int64_t count;
    pair both;
    std::vector<std::size_t> words;
    bool operator<(const entry& other) const { return count != other.count ? count < other.count : both > other.both; }
  };

  /// Numbers bytes as GPT-2 does: the visible ones of Latin-1 first.
  void start_from_bytes() {
    const auto visible = [](int b) { return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE; };
    for (const bool wanted : {true, false})
      for (int b = 0; b < 256; ++b) {
        if (visible(b) != wanted) continue;
        bytes_[static_cast<std::size_t>(b)] = static_cast<token>(tokens_.size());
        ids_.emplace(std::string(1, static_cast<char>(static_cast<unsigned char>(b))),
                     static_cast<token>(tokens_.size()));
        tokens_.emplace_back(1, static_cast<char>(static_cast<unsigned char>(b)));
      }
  }
  void push(entry e) {
    queue_.push_back(std::move(e));
    std::push_heap(queue_.begin(), queue_.end());
  }
  /// Changes the count of a pair in a word.
  void change(pair both, std::int64_t by, std::size_t in) {
    pair_counts_[both] += by;
    if (by <= 0) return;
    std::vector<std::size_t>& words = new_pairs_[both];
    if (words.empty() || words.back() != in) words.push_back(in);
  }
  void queue_new_pairs() {
    for (auto& [both, words] : new_pairs_)
      if (const std::int64_t count = pair_counts_.at(both); count > 0) push({count, both, std::move(words)});
    new_pairs_.clear();
  }
  /// Merges a pair everywhere. Two pairs may yield one token: "in" + "g" and "i" + "ng".
  void merge(const entry& top) {
    const auto [left, right] = top.both;
    std::string text = tokens_[static_cast<std::size_t>(left)] + tokens_[static_cast<std::size_t>(right)];
    // A special token keeps its text for itself.
    if (std::ranges::find(options_.special_tokens, text) != options_.special_tokens.end()) return;
    const auto [place, is_new] = ids_.emplace(text, static_cast<token>(tokens_.size()));
    if (is_new) tokens_.push_back(std::move(text));
    merges_.push_back(top.both);
    for (const std::size_t w : top.words) merge_in(w, top.both, place->second);
    queue_new_pairs();
  }
  void merge_in(std::size_t w, pair both, token merged) {
    const std::int64_t count = words_[w].count;
    std::vector<token>& symbols = words_[w].symbols;
    // Compacts in place: reads stay ahead of writes.
    std::size_t to = 0;
    for (std::size_t at = 0; at < symbols.size(); ++to) {
      if (at + 1 == symbols.size() || pair(symbols[at], symbols[at + 1]) != both) {
        symbols[to] = symbols[at++];
        continue;
      }
      if (to > 0) {
        change({symbols[to - 1], both.first}, -count, w);
        change({symbols[to - 1], merged}, count, w);
      }
      at += 2;
      if (at < symbols.size()) {
        change({both.second, symbols[at]}, -count, w);
        change({merged, symbols[at]}, count, w);
      }
      symbols[to] = merged;
    }
    symbols.resize(to);
  }
  tokenizer finish() {
    std::vector<std::string> spellings;
    for (const std::string& bytes : tokens_) spellings.push_back(detail::as_byte_characters(bytes));
    token_models::bpe model;
    // A pair that was merged twice, because it reappeared, has the later rank.
    std::set<pair> seen;
    for (auto m = merges_.rbegin(); m != merges_.rend(); ++m)
      if (seen.insert(*m).second)
        model.merges.push_back(
            {spellings[static_cast<std::size_t>(m->first)], spellings[static_cast<std::size_t>(m->second)]});
    std::ranges::reverse(model.merges);
    std::vector<added_token> added;
    for (const std::string& text : options_.special_tokens) {
      added.push_back({.text = text, .id = static_cast<token>(spellings.size())});
      spellings.push_back(text);
    }
    model.vocab = token_table(spellings);
    return tokenizer({.added_tokens = std::move(added),
                      .pre_tokenizers = pre_tokenizers::byte_level_by(options_.pattern),
                      .model = std::move(model),
                      .decoders = {decoders::byte_level()}});
  }

  const bpe_training& options_;
  std::array<token, 256> bytes_{};
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, token> ids_;
  std::vector<word> words_;
  std::unordered_map<pair, std::int64_t, pair_hash> pair_counts_;
  std::unordered_map<pair, std::vector<std::size_t>, pair_hash> new_pairs_;
  std::vector<entry> queue_;
  std::vector<pair> merges_;
};

GRADUS_IMPL tokenizer bpe_trainer::train() const {
  run r(*this);
  return r.train();
}

GRADUS_IMPL tokenizer byte_level_tokenizer() {
  std::vector<std::string> spellings;
  for (int b = 0; b < 256; ++b)
    spellings.push_back(detail::as_byte_characters(std::string(1, static_cast<char>(static_cast<unsigned char>(b)))));
  token_models::bpe model;
  model.vocab = token_table(spellings);
  return tokenizer({.pre_tokenizers = pre_tokenizers::byte_level_by(word_pattern::gpt2),
                    .model = std::move(model),
                    .decoders = {decoders::byte_level()}});
}

GRADUS_IMPL tokenizer train_bpe(std::string_view text, bpe_training options) {
  bpe_trainer trainer(std::move(options));
  trainer.count(text);
  return trainer.train();
}

}  // namespace gradus
