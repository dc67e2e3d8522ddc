#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../core/error.hpp"
#include "bpe_tables.hpp"
#include "gpt2_words.hpp"
#include "tokens.hpp"
#include "unicode.hpp"

namespace gradus {

/// What becomes of bytes of a text that are no UTF-8.
enum class broken_utf8 {
  keep,     ///< they are bytes like any others: decode(encode(text)) == text, whatever the text
  replace,  ///< U+FFFD stands for them, as in Python's errors="replace": the ids that Hugging Face's tokenizers give
};

/// How a text is encoded.
struct encode_options {
  broken_utf8 broken = broken_utf8::keep;
  bool added_tokens = true;  ///< false: `<|endoftext|>` in the text is thirteen characters like any others
};

/// A byte-level BPE (byte pair encoding; Sennrich et al. 2016, Radford et al. 2019): a text is split into words by
/// GPT-2's pattern, a word into bytes, and bytes are merged by a list of pairs. Any bytes can be encoded, and decoding
/// gives them back.
///
/// Does not change once it is made, so threads may share it. tokenizer_json.hpp reads one from a file, and
/// bpe_trainer.hpp makes one from a text.
class bpe_tokenizer {
 public:
  using token = std::int32_t;

  /// `tokens[id]` is what token `id` stands for; where ids are left out it is empty. `byte_tokens[b]` is the token of
  /// byte b. Merges come in order of their rank. Throws gradus::error where an id is outside the vocabulary, where a
  /// merged token is not what its two are together, and where a pair, or the text of an added token, occurs twice.
  bpe_tokenizer(std::vector<std::string> tokens, const std::array<token, 256>& byte_tokens,
                std::vector<bpe_merge> merges, std::vector<added_token> added = {})
      : tokens_(std::move(tokens)),
        byte_tokens_(byte_tokens),
        merges_(std::move(merges)),
        added_(std::move(added)),
        table_(merges_.size()) {
    if (tokens_.size() > std::size_t{std::numeric_limits<token>::max()})
      throw error("bpe: a vocabulary of " + std::to_string(tokens_.size()) + " tokens is too large");
    for (const token t : byte_tokens_) check(t, "the token of a byte");
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

  /// How many ids there are: one more than the largest.
  std::size_t vocabulary() const { return tokens_.size(); }
  /// What a token stands for.
  std::string_view bytes_of(token id) const {
    check(id, "a token");
    return tokens_[static_cast<std::size_t>(id)];
  }
  token token_of_byte(unsigned char byte) const { return byte_tokens_[byte]; }
  std::span<const bpe_merge> merges() const { return merges_; }
  std::span<const added_token> added_tokens() const { return added_; }
  /// The id of the added token with this spelling, if there is one.
  std::optional<token> added_token_id(std::string_view text) const {
    for (const added_token& a : added_)
      if (a.text == text) return a.id;
    return std::nullopt;
  }

  /// The tokens of a text. To encode many texts, or one larger than its tokens should take in memory, use a
  /// bpe_encoder.
  std::vector<token> encode(std::string_view text, encode_options options = {}) const;

  /// The bytes that tokens stand for. They need not be whole characters. Throws gradus::error for a token outside the
  /// vocabulary.
  template <token_type Token>
  std::string decode(std::span<const Token> tokens) const {
    std::string text;
    for (const Token t : tokens) text += bytes_of(static_cast<token>(t));
    return text;
  }
  std::string decode(const std::vector<token>& tokens) const { return decode(std::span(tokens)); }

 private:
  friend class bpe_encoder;

  void check(token id, const char* what) const {
    if (id < 0 || static_cast<std::size_t>(id) >= tokens_.size())
      throw error(std::string("bpe: ") + what + " is " + std::to_string(id) + ", outside the vocabulary of " +
                  std::to_string(tokens_.size()));
  }
  void check_merges() {
    for (std::size_t rank = 0; rank < merges_.size(); ++rank) {
      const bpe_merge& m = merges_[rank];
      const std::string which = "merge " + std::to_string(rank + 1);
      for (const token t : {m.left, m.right, m.merged}) check(t, which.c_str());
      const std::string &left = tokens_[static_cast<std::size_t>(m.left)],
                        &right = tokens_[static_cast<std::size_t>(m.right)];
      const std::string& merged = tokens_[static_cast<std::size_t>(m.merged)];
      if (left.empty() || right.empty() || merged.size() != left.size() + right.size() || !merged.starts_with(left) ||
          !merged.ends_with(right))
        throw error("bpe: " + which + " gives token " + std::to_string(m.merged) + ", which is not tokens " +
                    std::to_string(m.left) + " and " + std::to_string(m.right) + " together");
      if (!table_.insert(m, static_cast<std::int32_t>(rank))) throw error("bpe: " + which + " occurs twice");
    }
  }

  std::vector<std::string> tokens_;
  std::array<token, 256> byte_tokens_;
  std::vector<bpe_merge> merges_;
  std::vector<added_token> added_;
  detail::merge_table table_;
  std::array<detail::added_token_finder, 2> finders_;
};

/// Encodes texts by a tokenizer, which must outlive it, and remembers the words it has seen: a word is merged once. One
/// thread uses it at a time.
class bpe_encoder {
 public:
  using token = bpe_tokenizer::token;

  explicit bpe_encoder(const bpe_tokenizer& tokenizer, encode_options options = {})
      : tokenizer_(tokenizer), options_(options) {}

  /// Calls `sink` with the tokens of the text, a few at a time, as a std::span<const std::int32_t>.
  template <class Sink>
  void encode(std::string_view text, Sink&& sink) {
    if (options_.added_tokens) split<0>(text, sink);
    else encode_plain(text, sink);
  }

  /// Words of the texts so far that had bytes that are no UTF-8 in them.
  std::uint64_t broken_words() const { return broken_words_; }

 private:
  // A cache that grew with the text would be memory in no budget: these are some 20 MB.
  static constexpr std::size_t most_words = std::size_t{1} << 17;
  static constexpr std::size_t longest_word = 64;
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  struct place {
    std::size_t begin;
    std::size_t count;
  };
  struct hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  struct symbol {
    token id;
    std::uint32_t previous, next;
  };
  /// A pair that could be merged: the one of least rank goes first, and of those the leftmost.
  struct candidate {
    std::int32_t rank;
    std::uint32_t at;
    token left, right, merged;
    bool operator>(const candidate& other) const { return std::tie(rank, at) > std::tie(other.rank, other.at); }
  };

  template <std::size_t Group, class Sink>
  void split(std::string_view text, Sink& sink) {
    if constexpr (Group == 2) {
      encode_plain(text, sink);
    } else {
      const auto& finder = tokenizer_.finders_[Group];
      while (finder.any() && !text.empty()) {
        const auto found = finder.find(tokenizer_.added_, text);
        if (found.token == nullptr) break;
        split<Group + 1>(text.substr(0, found.begin), sink);
        sink(std::span<const token>(&found.token->id, 1));
        text.remove_prefix(found.begin + found.token->text.size());
      }
      split<Group + 1>(text, sink);
    }
  }
  template <class Sink>
  void encode_plain(std::string_view text, Sink& sink) {
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

  std::span<const token> tokens_of(std::string_view word) {
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
  /// The tokens of one word, into merged_: O(n log n) in its bytes, for a word may be a megabyte of one letter.
  void merge(std::string_view word) {
    if (word.size() >= none) throw error("bpe: a word of " + std::to_string(word.size()) + " bytes is too long");
    symbols_.clear();
    for (std::size_t i = 0; i < word.size(); ++i)
      symbols_.push_back({tokenizer_.byte_tokens_[static_cast<unsigned char>(word[i])],
                          static_cast<std::uint32_t>(i) - 1,
                          i + 1 < word.size() ? static_cast<std::uint32_t>(i) + 1 : none});
    candidates_.clear();
    for (std::uint32_t i = 0; i + 1 < symbols_.size(); ++i) consider(i);
    while (!candidates_.empty()) {
      std::ranges::pop_heap(candidates_, std::greater<>{});
      const candidate c = candidates_.back();
      candidates_.pop_back();
      symbol& left = symbols_[c.at];
      // Another merge may have taken one of the two.
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
  void consider(std::uint32_t at) {
    const token left = symbols_[at].id, right = symbols_[symbols_[at].next].id;
    if (const auto* m = tokenizer_.table_.find(left, right)) {
      candidates_.push_back({m->rank, at, left, right, m->merged});
      std::ranges::push_heap(candidates_, std::greater<>{});
    }
  }

  const bpe_tokenizer& tokenizer_;
  encode_options options_;
  std::uint64_t broken_words_ = 0;
  std::unordered_map<std::string, place, hash, std::equal_to<>> cache_;
  std::vector<token> cached_;
  std::vector<symbol> symbols_;
  std::vector<candidate> candidates_;
  std::vector<token> merged_;
};

inline std::vector<bpe_tokenizer::token> bpe_tokenizer::encode(std::string_view text, encode_options options) const {
  std::vector<token> tokens;
  bpe_encoder(*this, options).encode(text, [&](std::span<const token> some) {
    tokens.insert(tokens.end(), some.begin(), some.end());
  });
  return tokens;
}

}  // namespace gradus
