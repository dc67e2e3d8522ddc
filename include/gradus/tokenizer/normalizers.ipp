#pragma once
#include <algorithm>
#include <array>
#include <cstring>

#include "normalizers.hpp"

namespace gradus::normalizers {

namespace detail {

/// A text without the characters for which drop(character) is true.
template <class Drop>
std::string without(std::string_view text, const Drop& drop) {
  std::string kept;
  kept.reserve(text.size());
  unicode::for_each_character(text, [&](char32_t c, std::string_view bytes) {
    if (!drop(c)) kept += bytes;
  });
  return kept;
}

constexpr bool is_ideograph(char32_t c) {
  // The ranges of tokenization.py, but for the last of its extensions, which begins at 2B820 there.
  constexpr std::array<std::array<char32_t, 2>, 8> blocks{{{0x3400, 0x4DBF},
                                                           {0x4E00, 0x9FFF},
                                                           {0xF900, 0xFAFF},
                                                           {0x20000, 0x2A6DF},
                                                           {0x2A700, 0x2B73F},
                                                           {0x2B740, 0x2B81F},
                                                           {0x2B920, 0x2CEAF},
                                                           {0x2F800, 0x2FA1F}}};
  return std::ranges::any_of(blocks, [&](const auto& b) { return c >= b[0] && c <= b[1]; });
}

/// Bytes of the cluster of characters at the start of a text (Unicode standard, annex 29). Clusters of flags, of joined
/// emoji and of Indic consonants, which have six bytes at least, count as several.
inline std::size_t cluster(std::string_view text) {
  using unicode::property;
  const auto is_in = [](char32_t c, char32_t low, char32_t high) { return c >= low && c <= high; };
  const auto join = [&](char32_t a, char32_t b) {
    if (unicode::is(a, property::breaks) || unicode::is(b, property::breaks)) return a == U'\r' && b == U'\n';
    if (unicode::is(b, property::extends) || unicode::is(a, property::prepended)) return true;
    // Hangul: leads, vowels and tails, and syllables of them.
    const auto lead = [&](char32_t c) { return is_in(c, 0x1100, 0x115F) || is_in(c, 0xA960, 0xA97C); };
    const auto vowel = [&](char32_t c) { return is_in(c, 0x1160, 0x11A7) || is_in(c, 0xD7B0, 0xD7C6); };
    const auto tail = [&](char32_t c) { return is_in(c, 0x11A8, 0x11FF) || is_in(c, 0xD7CB, 0xD7FB); };
    const auto syllable = [&](char32_t c) { return is_in(c, 0xAC00, 0xD7A3); };
    if (tail(b)) return vowel(a) || tail(a) || syllable(a);
    if (vowel(b)) return lead(a) || vowel(a) || (syllable(a) && (a - 0xAC00) % 28 == 0);
    return lead(a) && (lead(b) || syllable(b));
  };
  unicode::utf8_character last = unicode::read_utf8(text, 0);
  std::size_t end = last.bytes;
  while (end < text.size()) {
    const unicode::utf8_character c = unicode::read_utf8(text, end);
    if (!join(last.value, c.value)) break;
    end += c.bytes;
    last = c;
  }
  return end;
}

}  // namespace detail

GRADUS_IMPL void check_growth(std::size_t bytes, std::size_t most) {
  if (bytes > most)
    throw error("the tokenizer's normalizers make more than " + std::to_string(most) +
                " bytes of a text; they may make 32 times its size and 256 bytes");
}

GRADUS_IMPL void strip_accents::operator()(std::string& text) const {
  text = detail::without(text, [](char32_t c) { return unicode::is(c, unicode::property::mark); });
}

GRADUS_IMPL void strip::operator()(std::string& text) const {
  std::size_t begin = text.size(), end = 0, at = 0;
  unicode::for_each_character(text, [&](char32_t c, std::string_view bytes) {
    if (!unicode::is_space(c)) {
      begin = std::min(begin, at);
      end = at + bytes.size();
    }
    at += bytes.size();
  });
  if (strip_right) text.resize(std::max(end, strip_left ? 0 : std::min(begin, end)));
  if (strip_left) text.erase(0, begin);
}

GRADUS_IMPL void replace::prepare() const {
  if (pattern.text().empty()) throw error("Replace: the pattern is empty");
  if (pattern.regular_expression() && content.find('$') != content.npos)
    throw error("Replace: the content '" + content + "' asks for parts of a match by '$', which is not read");
}

GRADUS_IMPL void replace::operator()(std::string& text, std::size_t most) const {
  std::string replaced;
  std::size_t done = 0;
  text_pattern::finder matches(pattern, text);
  for (auto m = matches.next(); m; m = matches.next()) {
    replaced.append(text, done, m->begin - done).append(content);
    done = m->end;
    check_growth(replaced.size(), most);
  }
  if (done == 0 && replaced.empty()) return;
  text = std::move(replaced.append(text, done));
}

GRADUS_IMPL void bert::operator()(std::string& text) const {
  std::string to;
  to.reserve(text.size() + text.size() / 8);
  unicode::for_each_character(text, [&](char32_t c, std::string_view bytes) {
    if (clean_text && unicode::is(c, unicode::property::control)) return;
    const bool alone = handle_chinese_chars && detail::is_ideograph(c);
    if (alone) to += ' ';
    if (clean_text && unicode::is_space(c)) to += ' ';
    else to += bytes;
    if (alone) to += ' ';
  });
  if (strip_accents.value_or(lowercase))
    to = detail::without(unicode::normalized(to, unicode::normal_form::nfd),
                         [](char32_t c) { return unicode::is(c, unicode::property::accent); });
  text = lowercase ? unicode::lower_case(to) : std::move(to);
}

GRADUS_IMPL void precompiled::prepare() {
  const auto number = [&](std::size_t at) {
    std::uint32_t n = 0;  // little-endian
    for (std::size_t i = 4; i-- > 0;) n = n << 8 | static_cast<unsigned char>(charsmap[at + i]);
    return n;
  };
  const std::size_t bytes = charsmap.size() < 4 ? 0 : number(0);
  if (bytes == 0 || bytes % 4 != 0 || bytes > charsmap.size() - 4)
    throw error("Precompiled: its charsmap of " + std::to_string(charsmap.size()) + " bytes has no trie");
  trie_.resize(bytes / 4);
  for (std::size_t i = 0; i < trie_.size(); ++i) trie_[i] = number(4 + 4 * i);
}

GRADUS_IMPL std::optional<std::string_view> precompiled::replacement(std::string_view of) const {
  // A unit of the double array holds the byte that leads to it, where its children are, and whether it ends a key.
  const auto children = [](std::uint32_t unit) { return unit >> 10 << ((unit & 1 << 9) >> 6); };
  std::size_t at = children(trie_[0]);
  for (const char c : of) {
    const auto byte = static_cast<unsigned char>(c);
    at ^= byte;
    if (byte == 0 || at >= trie_.size() || (trie_[at] & 0x800000FF) != byte) break;
    const bool ends = (trie_[at] >> 8 & 1) != 0;
    at ^= children(trie_[at]);
    if (!ends) continue;
    const std::size_t value = at < trie_.size() ? trie_[at] & 0x7FFFFFFF : texts().size();
    if (value >= texts().size()) break;
    const std::string_view text = texts().substr(value);
    return text.substr(0, text.find('\0'));
  }
  return std::nullopt;
}

GRADUS_IMPL void precompiled::operator()(std::string& text, std::size_t most) const {
  std::string to;
  to.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view all = std::string_view(text).substr(at, detail::cluster(std::string_view(text).substr(at)));
    at += all.size();
    check_growth(to.size(), most);
    if (const auto whole = all.size() < 6 ? replacement(all) : std::nullopt) {
      to += *whole;
      continue;
    }
    unicode::for_each_character(all, [&](char32_t, std::string_view one) { to += replacement(one).value_or(one); });
  }
  text = unicode::replace_broken(to);
}

}  // namespace gradus::normalizers
