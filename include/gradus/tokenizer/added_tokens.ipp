#pragma once
#include <utility>

#include "../core/sort.hpp"
#include "added_tokens.hpp"
#include "unicode.hpp"

namespace gradus::detail {

/// The character that ends where text[end] begins.
inline unicode::utf8_character character_before(std::string_view text, std::size_t end) {
  std::size_t begin = end - 1;
  while (begin > 0 && end - begin < 4 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  return unicode::read_utf8(text, begin);
}

GRADUS_IMPL added_token_finder::added_token_finder(std::vector<added_token> tokens) : tokens_(std::move(tokens)) {
  sort_stably(tokens_, [](const added_token& a, const added_token& b) { return a.text.size() > b.text.size(); });
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const char first = tokens_[i].text.front();
    starting_[static_cast<unsigned char>(first)].push_back(static_cast<std::uint32_t>(i));
    if (starts_.find(first) == std::string::npos) starts_ += first;
  }
}

GRADUS_IMPL added_token_finder::match added_token_finder::find(std::string_view text, std::size_t at,
                                                               const token_test& is_token) const {
  if (tokens_.empty()) return {};
  for (; at < text.size(); ++at) {
    // Nearly all tokenizers have one first character, for which the C library is fastest.
    at = starts_.size() == 1 ? text.find(starts_.front(), at) : at;
    if (at == std::string_view::npos) break;
    for (const std::uint32_t i : starting_[static_cast<unsigned char>(text[at])])
      if (text.substr(at).starts_with(tokens_[i].text) && is_token(tokens_[i], at))
        return {at, at + tokens_[i].text.size(), &tokens_[i]};
  }
  return {};
}

GRADUS_IMPL added_token_finder::match added_token_finder::widened(match m, std::string_view text, std::size_t done) {
  using unicode::property;
  if (m.token->single_word)
    if ((m.begin > 0 && unicode::is(character_before(text, m.begin).value, property::word)) ||
        (m.end < text.size() && unicode::is(unicode::read_utf8(text, m.end).value, property::word)))
      return {};
  while (m.token->lstrip && m.begin > done) {
    const unicode::utf8_character c = character_before(text, m.begin);
    if (!unicode::is_space(c.value)) break;
    m.begin -= c.bytes;
  }
  while (m.token->rstrip && m.end < text.size()) {
    const unicode::utf8_character c = unicode::read_utf8(text, m.end);
    if (!unicode::is_space(c.value)) break;
    m.end += c.bytes;
  }
  return m;
}

}  // namespace gradus::detail
