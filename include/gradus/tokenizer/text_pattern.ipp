#pragma once
#ifdef GRADUS_WITH_PCRE2
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#endif

#include <algorithm>
#include <cstdint>
#include <new>
#include <utility>

#include "../core/printable.hpp"
#include "text_pattern.hpp"
#include "unicode.hpp"

namespace gradus {

namespace detail {

inline std::string shown_expression(std::string_view text) {
  return "the regular expression " + printable(text.substr(0, 200)) + (text.size() > 200 ? "…" : "");
}

/// What an expression has that means one thing in Oniguruma and another in PCRE2; "" if there is nothing.
inline std::string differing_syntax(std::string_view expression) {
  bool in_class = false;
  for (std::size_t i = 0; i < expression.size(); ++i) {
    const std::string_view rest = expression.substr(i);
    if (rest[0] == '\\' && rest.size() > 1) {
      const bool is_letter = (rest[1] | 32) >= 'a' && (rest[1] | 32) <= 'z';
      if (is_letter && std::string_view("pPsSdDrntAzZ").find(rest[1]) == std::string_view::npos)
        return std::string(rest.substr(0, 2));
      if (const std::size_t end = rest.substr(0, 40).find('}');
          (rest[1] | 32) == 'p' && (rest.substr(2, 1) != "{" || end > 5))
        return std::string(rest.substr(0, std::min<std::size_t>(end, 30) + 1));
      ++i;
    } else if (in_class) {
      if (rest[0] == '[' || rest.starts_with("&&")) return rest[0] == '[' ? "'[' in a class" : "'&&' in a class";
      in_class = rest[0] != ']';
    } else if (rest[0] == '[') {
      in_class = true;
      i += rest.starts_with("[^") ? 1 : 0;
      if (expression.substr(i + 1).starts_with(']')) return "']' at the start of a class";
    } else if (rest.starts_with("(?") && rest.find_first_of("msx", 2) < rest.find_first_of(":)=!<>", 2)) {
      return std::string(rest.substr(0, rest.find_first_of(":)", 2)));
    }
  }
  return "";
}

#ifdef GRADUS_WITH_PCRE2
struct compiled_expression {
  std::unique_ptr<pcre2_code, decltype(&pcre2_code_free)> code{nullptr, &pcre2_code_free};
};

/// What a finder matches with. An expression from elsewhere may ask for any amount of memory and steps: a step that may
/// be taken back needs some 150 bytes, and there are 2 for each character of a text that `(?:a|b)+` matches.
struct expression_match {
  static constexpr std::uint32_t most_memory = 256 << 10;  // KiB
  static constexpr std::size_t least_steps = 1'000'000, steps_a_byte = 16;

  std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> data;
  std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)> limits;

  expression_match(const pcre2_code* code, std::size_t bytes)
      : data(pcre2_match_data_create_from_pattern(code, nullptr), &pcre2_match_data_free),
        limits(pcre2_match_context_create(nullptr), &pcre2_match_context_free) {
    if (!data || !limits) throw std::bad_alloc();
    const std::size_t steps = least_steps + steps_a_byte * std::min<std::size_t>(bytes, 100'000'000);
    pcre2_set_heap_limit(limits.get(), most_memory);
    pcre2_set_match_limit(limits.get(), static_cast<std::uint32_t>(steps));
    pcre2_set_depth_limit(limits.get(), static_cast<std::uint32_t>(steps));
  }
  int find(const pcre2_code* code, std::string_view text, std::size_t at) const {
    const auto match = [&](std::uint32_t options) {
      return pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at, options, data.get(),
                         limits.get());
    };
    // Compiled code has 32 KiB of stack; the interpreter has memory.
    const int count = match(0);
    return count == PCRE2_ERROR_JIT_STACKLIMIT ? match(PCRE2_NO_JIT) : count;
  }
};

inline std::string pcre2_message(int number) {
  PCRE2_UCHAR8 text[120] = {};
  pcre2_get_error_message(number, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}
#else
struct compiled_expression {};
struct expression_match {};
#endif

}  // namespace detail

GRADUS_IMPL text_pattern::text_pattern(std::string text, bool regular_expression)
    : text_(std::move(text)), regular_expression_(regular_expression) {
  if (!regular_expression_) return;
  if (const auto known = std::ranges::find(word_patterns, text_); known != word_patterns.end()) {
    known_ = static_cast<word_pattern>(known - word_patterns.begin());
    return;
  }
  const auto fail = [&](const std::string& why) { throw error(detail::shown_expression(text_) + " " + why); };
  constexpr std::size_t longest = 16384;  // PCRE2 takes some more
  if (text_.size() > longest) fail("has more than " + std::to_string(longest) + " bytes");
  if (const std::string other = detail::differing_syntax(text_); !other.empty())
    fail("has " + other + ", which is not read");
#ifdef GRADUS_WITH_PCRE2
  int problem = 0;
  PCRE2_SIZE at = 0;
  auto compiled = std::make_shared<detail::compiled_expression>();
  compiled->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text_.data()), text_.size(),
                                     PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_MATCH_INVALID_UTF, &problem, &at,
                                     nullptr));
  if (!compiled->code) fail("is none at byte " + std::to_string(at) + ": " + detail::pcre2_message(problem));
  pcre2_jit_compile(compiled->code.get(), PCRE2_JIT_COMPLETE);  // without it, matching is slower
  compiled_ = std::move(compiled);
#else
  fail("is not one of GPT-2's, Llama 3's and Qwen 2's; for others, build with GRADUS_WITH_PCRE2");
#endif
}

GRADUS_IMPL text_pattern::finder::finder(const text_pattern& pattern, std::string_view text)
    : pattern_(pattern), text_(text) {
#ifdef GRADUS_WITH_PCRE2
  if (!pattern_.compiled_) return;
  found_ = std::make_shared<detail::expression_match>(pattern_.compiled_->code.get(), text.size());
#endif
}

GRADUS_IMPL std::optional<text_pattern::match> text_pattern::finder::next() {
  while (at_ <= text_.size()) {
    match found{text_.npos, text_.npos};
    if (pattern_.known_) {
      const std::size_t bytes = word_splitter(text_.substr(at_), *pattern_.known_).next().size();
      if (bytes == 0) return std::nullopt;
      found = {at_, at_ + bytes};
    } else if (!pattern_.regular_expression_) {
      found.begin = text_.find(pattern_.text_, at_);
      if (found.begin == text_.npos) return std::nullopt;
      found.end = found.begin + pattern_.text_.size();
    }
#ifdef GRADUS_WITH_PCRE2
    else {
      const int count = found_->find(pattern_.compiled_->code.get(), text_, at_);
      if (count == PCRE2_ERROR_NOMATCH) return std::nullopt;
      if (count < 0)
        throw error(detail::shown_expression(pattern_.text_) + " on a text of " + std::to_string(text_.size()) +
                    " bytes: " + detail::pcre2_message(count));
      const PCRE2_SIZE* place = pcre2_get_ovector_pointer(found_->data.get());
      found = {place[0], place[1]};
    }
#endif
    if (found.begin == found.end && last_end_ == found.end) {
      if (at_ == text_.size()) return std::nullopt;
      at_ += unicode::read_utf8(text_, at_).bytes;
      continue;
    }
    at_ = found.end;
    last_end_ = found.end;
    return found;
  }
  return std::nullopt;
}

}  // namespace gradus
