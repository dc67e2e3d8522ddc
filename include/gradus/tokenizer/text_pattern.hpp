#pragma once
// What tokenizers look for in a text: a string or a regular expression.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "words.hpp"

namespace gradus {

namespace detail {
struct compiled_expression;
struct expression_match;
}  // namespace detail

/// A string or a regular expression. The expressions of `word_pattern` have code of their own; others are PCRE2's, if
/// GRADUS_WITH_PCRE2 is defined and the program is linked with it (Debian's libpcre2-dev). PCRE2 takes its classes
/// `\p{...}` from its own version of Unicode, 14 in Debian 12, and Hugging Face's tokenizers from 16: characters that
/// came between belong to no class here.
class text_pattern {
 public:
  text_pattern() = default;
  /// Throws gradus::error for an expression that is none, that has more than 16 KiB, that would match other texts in
  /// Oniguruma, which tokenizers are written for, or that needs PCRE2 where it is not there.
  explicit text_pattern(std::string text, bool regular_expression = false);

  const std::string& text() const { return text_; }
  bool regular_expression() const { return regular_expression_; }

  /// A place in a text.
  struct match {
    std::size_t begin = 0, end = 0;
  };
  class finder;

  friend bool operator==(const text_pattern& a, const text_pattern& b) {
    return a.text_ == b.text_ && a.regular_expression_ == b.regular_expression_;
  }

 private:
  std::string text_;
  bool regular_expression_ = false;
  std::optional<word_pattern> known_;
  std::shared_ptr<const detail::compiled_expression> compiled_;
};

/// Finds a pattern in a text, again and again. Both must outlive it.
class text_pattern::finder {
 public:
  finder(const text_pattern& pattern, std::string_view text);
  /// The next match after the last one, which may be empty, but not where the last one ended; nothing at the end.
  /// Throws gradus::error if PCRE2 needs more than 256 MiB to find it, or too many steps for the text's size.
  std::optional<match> next();

 private:
  const text_pattern& pattern_;
  std::string_view text_;
  std::size_t at_ = 0;
  std::optional<std::size_t> last_end_;
  std::shared_ptr<detail::expression_match> found_;
};

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "text_pattern.ipp"
#endif
