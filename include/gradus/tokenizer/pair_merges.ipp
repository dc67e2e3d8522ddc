#pragma once
#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "pair_merges.hpp"

namespace gradus::detail {

/// One training: words as tokens, and the pairs in them.
class pair_merger {
 public:
  pair_merger(std::vector<symbol_word> words, std::vector<std::string>& tokens, const merge_training& options)
      : options_(options), tokens_(tokens), words_(std::move(words)) {
    for (std::size_t id = 0; id < tokens_.size(); ++id) ids_.emplace(tokens_[id], static_cast<token>(id));
    for (std::size_t w = 0; w < words_.size(); ++w)
      for (std::size_t i = 0; i + 1 < words_[w].symbols.size(); ++i)
        change({words_[w].symbols[i], words_[w].symbols[i + 1]}, words_[w].count, w);
    queue_new_pairs();
  }

  std::vector<std::array<std::string, 2>> learn() {
    while (tokens_.size() < options_.vocabulary && !queue_.empty()) {
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
    return distinct_merges();
  }

 private:
  using token = std::int32_t;
  using pair = std::pair<token, token>;
  struct pair_hash {
    std::size_t operator()(const pair& p) const {
      const std::uint64_t both =
          std::uint64_t{static_cast<std::uint32_t>(p.first)} << 32 | static_cast<std::uint32_t>(p.second);
      const std::uint64_t mixed = both * 0x9E3779B97F4A7C15u;
      return static_cast<std::size_t>(mixed ^ mixed >> 32);
    }
  };
  /// A pair, its count, and the words that may contain it.
  struct entry {
    std::int64_t count;
    pair both;
    std::vector<std::size_t> words;
    bool operator<(const entry& other) const { return count != other.count ? count < other.count : both > other.both; }
  };

  const std::string& text(token id) const { return tokens_[static_cast<std::size_t>(id)]; }
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
    std::string merged = text(top.both.first) + text(top.both.second).substr(options_.prefix.size());
    if (std::ranges::find(options_.reserved, merged) != options_.reserved.end()) return;
    const auto [place, is_new] = ids_.emplace(merged, static_cast<token>(tokens_.size()));
    if (is_new) tokens_.push_back(std::move(merged));
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
  /// A pair that was merged twice, because it reappeared, has the later rank.
  std::vector<std::array<std::string, 2>> distinct_merges() const {
    std::vector<std::array<std::string, 2>> all;
    std::set<pair> seen;
    for (auto m = merges_.rbegin(); m != merges_.rend(); ++m)
      if (seen.insert(*m).second) all.push_back({text(m->first), text(m->second)});
    std::ranges::reverse(all);
    return all;
  }

  const merge_training& options_;
  std::vector<std::string>& tokens_;
  std::vector<symbol_word> words_;
  std::unordered_map<std::string, token> ids_;
  std::unordered_map<pair, std::int64_t, pair_hash> pair_counts_;
  std::unordered_map<pair, std::vector<std::size_t>, pair_hash> new_pairs_;
  std::vector<entry> queue_;
  std::vector<pair> merges_;
};

GRADUS_IMPL std::vector<std::array<std::string, 2>> learn_merges(std::vector<symbol_word> words,
                                                                 std::vector<std::string>& tokens,
                                                                 const merge_training& options) {
  return pair_merger(std::move(words), tokens, options).learn();
}

}  // namespace gradus::detail
