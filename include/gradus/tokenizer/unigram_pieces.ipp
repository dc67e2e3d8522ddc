#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string_view>

#include "text_trie.hpp"
#include "unicode.hpp"
#include "unigram_pieces.hpp"

namespace gradus::detail {

/// The derivative of the logarithm of the gamma function, to 1e-9: by its recurrence and its asymptotic series.
inline double digamma(double x) {
  double shift = 0;
  for (; x < 8; ++x) shift -= 1 / x;
  const double square = 1 / (x * x);
  return shift + std::log(x) - 0.5 / x - square * (1.0 / 12 - square * (1.0 / 120 - square / 252));
}

/// Parts of words that occur `least` times and are longer than a character: of those that only occur together as parts
/// of a longer one, that one. Calls found(part, count). The words are sorted.
class frequent_parts {
 public:
  static constexpr std::size_t longest = 16;  // characters

  explicit frequent_parts(const std::vector<counted_word>& words) {
    std::vector<std::size_t> starts;
    for (const counted_word& word : words) {
      starts.clear();
      for (std::size_t at = 0; at < word.text.size(); at += unicode::read_utf8(word.text, at).bytes)
        starts.push_back(at);
      for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
        const std::size_t end = i + longest < starts.size() ? starts[i + longest] : word.text.size();
        ends_.push_back({std::string_view(word.text).substr(starts[i], end - starts[i]), word.count});
      }
    }
    std::ranges::sort(ends_, {}, &part::text);
  }

  /// In a sorted list of what begins anywhere in a word, parts of words are what neighbours have in common.
  template <class Found>
  void for_each(std::uint64_t least, const Found& found) const {
    struct open_part {
      std::size_t size;
      std::uint64_t count;
    };
    std::vector<open_part> open;  // beginnings of the last text, short ones first
    std::string_view last;
    const auto close = [&](std::size_t common) {
      std::uint64_t carried = 0;
      for (; !open.empty() && open.back().size > common; open.pop_back()) {
        carried += open.back().count;
        const std::string_view text = last.substr(0, open.back().size);
        if (carried >= least && unicode::read_utf8(text, 0).bytes < text.size()) found(text, carried);
      }
      return carried;
    };
    const auto add = [&](std::size_t size, std::uint64_t count) {
      if (open.empty() || open.back().size < size) open.push_back({size, 0});
      open.back().count += count;
    };
    for (const part& next : ends_) {
      auto common = static_cast<std::size_t>(std::ranges::mismatch(last, next.text).in1 - last.begin());
      while (common < next.text.size() && (static_cast<unsigned char>(next.text[common]) & 0xC0) == 0x80) --common;
      if (const std::uint64_t carried = close(common); carried > 0 && common > 0) add(common, carried);
      last = next.text;
      add(last.size(), next.count);
    }
    close(0);
  }

 private:
  struct part {
    std::string_view text;
    std::uint64_t count;
  };
  std::vector<part> ends_;
};

/// One training.
class piece_trainer {
 public:
  piece_trainer(const std::vector<counted_word>& words, const piece_training& options)
      : words_(words), options_(options) {
    begin();
  }

  std::vector<std::pair<std::string, double>> learn() {
    const std::size_t enough = options_.pieces + options_.pieces / 10;
    for (;;) {
      for (int step = 0; step < 2; ++step) fit();
      if (pieces_.size() <= enough) break;
      prune(enough);
    }
    keep_best(options_.pieces, [&](std::size_t i) { return pieces_[i].score; });
    std::ranges::sort(pieces_, [](const piece& a, const piece& b) {
      return a.score != b.score ? a.score > b.score : a.text < b.text;
    });
    std::vector<std::pair<std::string, double>> all;
    for (const piece& p : pieces_) all.emplace_back(p.text, p.score);
    return all;
  }

 private:
  struct piece {
    std::string text;
    double score;
    bool character;
  };
  /// A piece in a word.
  struct edge {
    std::size_t begin, end, id;
  };

  /// Candidates, with what they cover of the texts as their first probabilities.
  void begin() {
    constexpr std::size_t most = 1'000'000;
    struct candidate {
      std::string_view text;
      double weight;
    };
    std::vector<candidate> parts;
    const frequent_parts all(words_);
    all.for_each(options_.min_frequency, [&](std::string_view text, std::uint64_t count) {
      if (std::ranges::find(options_.reserved, text) != options_.reserved.end()) return;
      std::size_t length = 0;
      unicode::for_each_character(text, [&](char32_t, std::string_view) { ++length; });
      parts.push_back({text, static_cast<double>(count * length)});
    });
    std::ranges::sort(parts, [](const candidate& a, const candidate& b) {
      return a.weight != b.weight ? a.weight > b.weight : a.text < b.text;
    });
    parts.resize(std::min(parts.size(), most));
    for (const auto& [text, count] : count_characters(words_))
      pieces_.push_back({text, static_cast<double>(count), true});
    for (const candidate& c : parts) pieces_.push_back({std::string(c.text), c.weight, false});
    double sum = 0;
    for (const piece& p : pieces_) sum += p.score;
    for (piece& p : pieces_) p.score = std::log(p.score / sum);
    rebuild();
  }

  void rebuild() {
    std::vector<std::string_view> texts;
    for (const piece& p : pieces_) texts.push_back(p.text);
    trie_ = text_trie(texts);
  }

  /// The pieces in a word, in the order of their beginnings.
  const std::vector<edge>& edges_of(std::string_view word) {
    edges_.clear();
    for (std::size_t at = 0; at < word.size(); at += unicode::read_utf8(word, at).bytes)
      trie_.for_each_at(word, at, [&](std::size_t end, std::int32_t id) {
        edges_.push_back({at, end, static_cast<std::size_t>(id)});
      });
    return edges_;
  }

  /// How often each piece is expected in the words: for each, over all its spellings, by forward and backward sums.
  std::vector<double> expected_counts() {
    constexpr double nothing = -std::numeric_limits<double>::infinity();
    const auto add = [](double& sum, double term) {
      const double high = std::max(sum, term), low = std::min(sum, term);
      sum = low < high - 50 ? high : high + std::log1p(std::exp(low - high));
    };
    std::vector<double> counts(pieces_.size()), before, after;
    for (const counted_word& word : words_) {
      const std::vector<edge>& edges = edges_of(word.text);
      before.assign(word.text.size() + 1, nothing);
      after.assign(word.text.size() + 1, nothing);
      before.front() = after.back() = 0;
      for (const edge& e : edges) add(before[e.end], before[e.begin] + pieces_[e.id].score);
      for (auto e = edges.rbegin(); e != edges.rend(); ++e) add(after[e->begin], pieces_[e->id].score + after[e->end]);
      for (const edge& e : edges)
        counts[e.id] += static_cast<double>(word.count) *
                        std::exp(before[e.begin] + pieces_[e.id].score + after[e.end] - before.back());
    }
    return counts;
  }

  /// Expectation and maximisation, with a prior that makes rare pieces rarer (as SentencePiece). Drops pieces that are
  /// hardly expected; characters stay.
  void fit() {
    constexpr double least = 0.5;
    const std::vector<double> counts = expected_counts();
    std::vector<piece> kept;
    double sum = 0;
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      if (counts[i] < least && !pieces_[i].character) continue;
      const double count = std::max(counts[i], least);
      sum += count;
      kept.push_back({std::move(pieces_[i].text), digamma(count), pieces_[i].character});
    }
    for (piece& p : kept) p.score -= digamma(sum);
    pieces_ = std::move(kept);
    rebuild();
  }

  /// The pieces of the most probable spelling of a text without the piece `without`.
  const std::vector<std::size_t>& best_spelling(std::string_view text, std::size_t without) {
    struct path {
      double score = -std::numeric_limits<double>::infinity();
      edge last{};
    };
    std::vector<path> paths(text.size() + 1);
    paths.front().score = 0;
    for (const edge& e : edges_of(text)) {
      const double score = paths[e.begin].score + pieces_[e.id].score;
      if (e.id != without && score > paths[e.end].score) paths[e.end] = {score, e};
    }
    spelling_.clear();
    for (std::size_t end = text.size(); end > 0; end = paths[end].last.begin) spelling_.push_back(paths[end].last.id);
    return spelling_;
  }

  /// Keeps three quarters of the pieces, but at least so many: those without which the words would lose most of their
  /// probability, if best spellings counted alone and the best spelling of a piece by others took its place in them.
  void prune(std::size_t least) {
    std::vector<double> counts(pieces_.size()), losses(pieces_.size());
    for (const counted_word& word : words_)
      for (const std::size_t id : best_spelling(word.text, pieces_.size()))
        counts[id] += static_cast<double>(word.count);
    const double all = std::accumulate(counts.begin(), counts.end(), 0.0);
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      if (pieces_[i].character || counts[i] == 0) continue;
      const std::vector<std::size_t>& others = best_spelling(pieces_[i].text, i);
      const double more = std::log(all + counts[i] * static_cast<double>(others.size() - 1));
      losses[i] = std::log(counts[i]) - std::log(all);
      for (const std::size_t other : others) losses[i] -= std::log(counts[other] + counts[i]) - more;
      losses[i] *= counts[i];
    }
    std::size_t used = 0;
    for (std::size_t i = 0; i < pieces_.size(); ++i) used += pieces_[i].character || counts[i] > 0 ? 1 : 0;
    keep_best(std::max(least, std::min(used, pieces_.size() / 4 * 3)),
              [&](std::size_t i) { return counts[i] == 0 ? -std::numeric_limits<double>::infinity() : losses[i]; });
    rebuild();
  }

  /// Keeps all characters, and of the other pieces the ones with the highest values, `count` pieces in all.
  template <class Value>
  void keep_best(std::size_t count, const Value& value) {
    std::vector<std::size_t> order(pieces_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
      if (pieces_[a].character != pieces_[b].character) return pieces_[a].character;
      const double of_a = value(a), of_b = value(b);
      return of_a != of_b ? of_a > of_b : a < b;
    });
    order.resize(std::min(order.size(), count));
    std::vector<piece> kept;
    for (const std::size_t i : order) kept.push_back(std::move(pieces_[i]));
    pieces_ = std::move(kept);
  }

  const std::vector<counted_word>& words_;
  const piece_training& options_;
  std::vector<piece> pieces_;
  text_trie trie_;
  std::vector<edge> edges_;            // of edges_of()
  std::vector<std::size_t> spelling_;  // of best_spelling()
};

GRADUS_IMPL std::map<std::string, std::uint64_t, std::less<>> count_characters(const std::vector<counted_word>& words) {
  std::map<std::string, std::uint64_t, std::less<>> counts;
  for (const counted_word& word : words)
    unicode::for_each_character(word.text, [&](char32_t, std::string_view c) {
      const auto place = counts.find(c);
      if (place != counts.end()) place->second += word.count;
      else counts.emplace(c, word.count);
    });
  return counts;
}

GRADUS_IMPL std::vector<std::pair<std::string, double>> learn_pieces(const std::vector<counted_word>& words,
                                                                     const piece_training& options) {
  return piece_trainer(words, options).learn();
}

}  // namespace gradus::detail
