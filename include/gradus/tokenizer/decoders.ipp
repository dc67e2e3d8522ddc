#pragma once
#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "decoders.hpp"
#include "normalizers.hpp"
#include "token_models.hpp"
#include "unicode.hpp"

namespace gradus::decoders {

namespace detail {
inline void replace_all(std::string& text, std::string_view from, std::string_view to) {
  std::string made;
  std::size_t done = 0;
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, done)) {
    made.append(text, done, at - done).append(to);
    done = at + from.size();
  }
  if (done > 0) text = made.append(text, done);
}
}  // namespace detail

GRADUS_IMPL void byte_level::operator()(texts& all, bool raw) const {
  std::string bytes;
  for (const std::string& text : all) {
    const std::size_t before = bytes.size();
    bool represents = true;
    unicode::for_each_character(text, [&](char32_t c, std::string_view) {
      const int byte = gradus::detail::byte_of_character(c);
      represents = represents && byte >= 0;
      bytes += static_cast<char>(static_cast<unsigned char>(byte));
    });
    if (!represents) bytes.replace(before, bytes.npos, text);
  }
  all = {raw ? std::move(bytes) : unicode::replace_broken(bytes)};
}

GRADUS_IMPL void word_piece::operator()(texts& all, bool) const {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 11> joined{{{" .", "."},
                                                                                  {" ?", "?"},
                                                                                  {" !", "!"},
                                                                                  {" ,", ","},
                                                                                  {" ' ", "'"},
                                                                                  {" n't", "n't"},
                                                                                  {" 'm", "'m"},
                                                                                  {" do not", " don't"},
                                                                                  {" 's", "'s"},
                                                                                  {" 've", "'ve"},
                                                                                  {" 're", "'re"}}};
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i > 0 && all[i].starts_with(prefix)) all[i].erase(0, prefix.size());
    else if (i > 0) all[i].insert(0, " ");
    if (cleanup)
      for (const auto& [from, to] : joined) detail::replace_all(all[i], from, to);
  }
}

GRADUS_IMPL void metaspace::operator()(texts& all, bool) const {
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool drop = i == 0 && prepend_scheme != gradus::prepend_scheme::never;
    std::string text;
    unicode::for_each_character(all[i], [&](char32_t c, std::string_view bytes) {
      if (c != replacement) text += bytes;
      else if (!drop) text += ' ';
    });
    all[i] = std::move(text);
  }
}

GRADUS_IMPL void bpe::operator()(texts& all, bool) const {
  if (suffix.empty()) return;
  for (std::size_t i = 0; i < all.size(); ++i) detail::replace_all(all[i], suffix, i + 1 < all.size() ? " " : "");
}

GRADUS_IMPL void byte_fallback::operator()(texts& all, bool raw) const {
  texts made;
  std::string bytes;
  const auto flush = [&] {
    if (bytes.empty()) return;
    if (raw || unicode::count_broken(bytes) == 0) made.push_back(bytes);
    else made.insert(made.end(), bytes.size(), std::string(unicode::replacement_in_utf8));
    bytes.clear();
  };
  const auto value = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
  };
  for (std::string& text : all) {
    const bool is_byte = text.size() == 6 && text.starts_with("<0x") && text[5] == '>' && value(text[4]) >= 0 &&
                         (value(text[3]) >= 0 || text[3] == '+');
    if (is_byte) {
      bytes += static_cast<char>(static_cast<unsigned char>(std::max(value(text[3]), 0) * 16 + value(text[4])));
      continue;
    }
    flush();
    made.push_back(std::move(text));
  }
  flush();
  all = std::move(made);
}

GRADUS_IMPL void fuse::operator()(texts& all, bool) const {
  std::string one;
  for (const std::string& text : all) one += text;
  all = {std::move(one)};
}

GRADUS_IMPL void strip::operator()(texts& all, bool) const {
  const std::string one = unicode::to_utf8(content);
  for (std::string& text : all) {
    std::size_t begin = 0, end = text.size();
    for (std::size_t i = 0; i < start && std::string_view(text).substr(begin).starts_with(one); ++i)
      begin += one.size();
    for (std::size_t i = 0; i < stop && std::string_view(text).substr(begin, end - begin).ends_with(one); ++i)
      end -= one.size();
    text = text.substr(begin, end - begin);
  }
}

GRADUS_IMPL void replace::operator()(texts& all, bool) const {
  for (std::string& text : all) normalizers::replace::operator()(text);
}

}  // namespace gradus::decoders
