#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <gradus/tokenizer/text_pattern.hpp>
#include <gradus/tokenizer/unicode.hpp>
#include <gradus/tokenizer/words.hpp>
#include <random>
#include <string>
#include <vector>

#include "../../support/seed.hpp"

using gradus::word_pattern;
using gradus::unicode::character_class;

namespace {

// ---- a plain reference ----------------------------------------------------------------------------------------------

struct letters {  // a text as characters with classes
  std::vector<std::string> bytes;
  std::vector<character_class> kinds;
  explicit letters(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
      const auto c = gradus::unicode::read_utf8(text, at);
      bytes.emplace_back(text.substr(at, c.bytes));
      kinds.push_back(c.valid ? gradus::unicode::classify(c.value) : character_class::other);
      at += c.bytes;
    }
  }
};

// How many characters each alternative of GPT-2's pattern matches at `at`, tried in its order.
std::size_t match(const letters& t, std::size_t at) {
  const std::size_t n = t.bytes.size();
  for (const char* end : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    const std::string_view wanted = end;
    std::string here;
    for (std::size_t i = at; i < std::min(n, at + wanted.size()); ++i) here += t.bytes[i];
    if (here == wanted) return wanted.size();
  }
  const auto run = [&](std::size_t from, character_class kind) {
    std::size_t i = from;
    while (i < n && t.kinds[i] == kind) ++i;
    return i - from;
  };
  for (const auto kind : {character_class::letter, character_class::number, character_class::other}) {
    if (t.bytes[at] == " ")
      if (const std::size_t count = run(at + 1, kind); count > 0) return count + 1;
    if (const std::size_t count = run(at, kind); count > 0) return count;
  }
  const std::size_t spaces = run(at, character_class::space);
  return at + spaces == n || spaces == 1 ? spaces : spaces - 1;
}

// The same for those of Llama 3 and Qwen 2, which differ in how many digits a word has.
std::size_t match_later(const letters& t, std::size_t at, std::size_t most_digits) {
  const std::size_t n = t.bytes.size();
  const auto kind = [&](std::size_t i) { return i < n ? t.kinds[i] : character_class::space; };
  const auto line_end = [&](std::size_t i) { return i < n && (t.bytes[i] == "\r" || t.bytes[i] == "\n"); };
  const auto run = [&](std::size_t from, const auto& fits) {
    std::size_t i = from;
    while (i < n && fits(i)) ++i;
    return i - from;
  };
  const auto run_of = [&](std::size_t from, character_class wanted) {
    return run(from, [&](std::size_t i) { return kind(i) == wanted; });
  };
  for (const char* end : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'\u017f"}) {
    const letters wanted(end);
    std::string here;
    for (std::size_t i = at; i < std::min(n, at + wanted.bytes.size()); ++i)
      here += t.bytes[i].size() > 1
                  ? t.bytes[i]
                  : std::string(1, static_cast<char>(std::tolower(static_cast<unsigned char>(t.bytes[i][0]))));
    if (here == end) return wanted.bytes.size();
  }
  const bool any_first = !line_end(at) && kind(at) != character_class::letter && kind(at) != character_class::number;
  for (const std::size_t first : {std::size_t{any_first}, std::size_t{0}})
    if (const std::size_t count = run_of(at + first, character_class::letter); count > 0) return first + count;
  if (const std::size_t count = run_of(at, character_class::number); count > 0) return std::min(count, most_digits);
  const std::size_t space = t.bytes[at] == " " ? 1 : 0;
  if (const std::size_t count = run_of(at + space, character_class::other); count > 0)
    return space + count + run(at + space + count, line_end);
  const std::size_t spaces = run_of(at, character_class::space);
  for (std::size_t count = spaces; count > 0; --count)
    if (line_end(at + count - 1)) return count;
  return at + spaces == n || spaces == 1 ? spaces : spaces - 1;
}

std::vector<std::string> plain_words(std::string_view text, word_pattern pattern = word_pattern::gpt2) {
  const letters t(text);
  std::vector<std::string> words;
  for (std::size_t at = 0; at < t.bytes.size();) {
    std::string word;
    std::size_t count =
        pattern == word_pattern::gpt2 ? match(t, at) : match_later(t, at, pattern == word_pattern::llama3 ? 3 : 1);
    for (; count > 0; --count) word += t.bytes[at++];
    words.push_back(word);
  }
  return words;
}

// ---- inputs ---------------------------------------------------------------------------------------------------------

std::string random_text(std::mt19937& random, std::size_t pieces) {
  static constexpr std::array samples{"a",
                                      "b",
                                      "ab",
                                      "the",
                                      "'s",
                                      "'ll",
                                      "'",
                                      "'v",
                                      "'S",
                                      "'rE",
                                      "'\xc5\xbf",
                                      "1234",
                                      "\r\n",
                                      "!",
                                      " ",
                                      " ",
                                      " ",
                                      "  ",
                                      "\n",
                                      "\r\n",
                                      "\t",
                                      "7",
                                      "42",
                                      "\xc2\xa0",
                                      "!",
                                      "...",
                                      "\xc3\xa9",
                                      "\xd0\xb6",
                                      "\xe4\xb8\xad",
                                      "\xf0\x9f\x98\x80",
                                      "\xd9\xa3",
                                      "\xff",
                                      "\xe2\x82",
                                      "\xe3\x80\x80",
                                      "\xcc\x81"};
  std::string text;
  for (std::size_t i = 0; i < pieces; ++i) text += samples[random() % samples.size()];
  return text;
}

using list = std::vector<std::string>;

list words(std::string_view text, word_pattern pattern = word_pattern::gpt2) {
  gradus::word_splitter splitter(text, pattern);
  list all;
  for (auto word = splitter.next(); !word.empty(); word = splitter.next()) all.emplace_back(word);
  return all;
}

}  // namespace

TEST_CASE("texts are split as GPT-2's pattern says") {
  CHECK(words("Hello world") == list{"Hello", " world"});
  CHECK(words("I'm 20.5% sure") == list{"I", "'m", " 20", ".", "5", "%", " sure"});
  CHECK(words("a  b \n c  ") == list{"a", " ", " b", " \n", " c", "  "});
  CHECK(words("''s 's") == list{"''", "s", " '", "s"});
  CHECK(words("'re've'l'll") == list{"'re", "'ve", "'", "l", "'ll"});
  CHECK(words("a\xff"
              "b \xc3") == list{"a", "\xff", "b", " \xc3"});
  CHECK(words("").empty());
  std::mt19937 random(gradus_test::fresh_seed());
  for (int round = 0; round < 500; ++round) {
    const std::string text = random_text(random, random() % 30);
    CHECK(words(text) == plain_words(text));
  }
}

TEST_CASE("texts are split as Llama 3's pattern says") {
  const auto split = [](std::string_view text) { return words(text, word_pattern::llama3); };
  CHECK(split("Hello world") == list{"Hello", " world"});
  CHECK(split("I'M 12345 (sure)") == list{"I", "'M", " ", "123", "45", " (", "sure", ")"});
  CHECK(split("(sure) \"yes\"") == list{"(sure", ")", " \"", "yes", "\""});
  CHECK(split("a  b \n \n c  ") == list{"a", " ", " b", " \n \n", " c", "  "});
  CHECK(split("x!\r\n\n y") == list{"x", "!\r\n\n", " y"});
  CHECK(split("\ta\nb") == list{"\ta", "\n", "b"});
  CHECK(split("'Re'\u017f'vE's") == list{"'Re", "'\u017f", "'vE", "'s"});
  CHECK(split("\xff"
              "b \xc3") == list{"\xff"
                                "b",
                                " \xc3"});
  CHECK(split("").empty());
  std::mt19937 random(gradus_test::fresh_seed());
  for (int round = 0; round < 500; ++round) {
    const std::string text = random_text(random, random() % 30);
    CHECK(split(text) == plain_words(text, word_pattern::llama3));
    CHECK(words(text, word_pattern::qwen2) == plain_words(text, word_pattern::qwen2));
  }
  CHECK(words("I'M 12345", word_pattern::qwen2) == list{"I", "'M", " ", "1", "2", "3", "4", "5"});
}

namespace {

list matches(const gradus::text_pattern& pattern, std::string_view text) {
  gradus::text_pattern::finder finder(pattern, text);
  list all;
  for (auto m = finder.next(); m; m = finder.next()) all.emplace_back(text.substr(m->begin, m->end - m->begin));
  return all;
}

}  // namespace

TEST_CASE("a pattern is a text, or one of the known expressions") {
  CHECK(matches(gradus::text_pattern("aa"), "aaaa a aa") == list{"aa", "aa", "aa"});
  CHECK(matches(gradus::text_pattern("."), "a.b") == list{"."});
  for (const auto pattern : {word_pattern::gpt2, word_pattern::llama3, word_pattern::qwen2}) {
    const auto spelled = std::string(gradus::word_patterns[static_cast<std::size_t>(pattern)]);
    CHECK(matches(gradus::text_pattern(spelled, true), "I'M 12345  ok") == words("I'M 12345  ok", pattern));
  }
}

TEST_CASE("another expression is PCRE2's, and means what Oniguruma makes of it; without PCRE2 it is refused") {
  try {
    gradus::text_pattern("a+", true);
  } catch (const gradus::error& e) {
    CHECK(std::string(e.what()).find("build with GRADUS_WITH_PCRE2") != std::string::npos);
    return;
  }
  CHECK(matches(gradus::text_pattern("\\p{N}{1,3}", true), "12345 \u0663") == list{"123", "45", "\u0663"});
  CHECK(matches(gradus::text_pattern("(?=[A-Z])", true), "aBcD").size() == 2);
  CHECK(matches(gradus::text_pattern("x*", true), "axxb") == list{"", "xx", ""});
  CHECK(matches(gradus::text_pattern("^.$", true), "a\nb") == list{"a", "b"});
  for (const char* other : {"\\w+", "\\h", "[a[bc]]", "[a&&b]", "[]a]", "(?m:a)", "\\p{Han}", "\\x41", "\\K"})
    CHECK_THROWS_WITH_AS(gradus::text_pattern(other, true), doctest::Contains("which is not read"), gradus::error);
  CHECK_THROWS_WITH_AS(gradus::text_pattern("(a", true),
                       doctest::Contains("the regular expression (a is none at byte 2"), gradus::error);
  // A right one needs more stack than compiled code has.
  std::string letters;
  for (int i = 0; i < 750; ++i) letters += "ab";
  CHECK(matches(gradus::text_pattern("(?:a|b)+", true), letters + "c" + letters) == list{letters, letters});
}

TEST_CASE("an expression that needs memory or steps without bound is an error that names it") {
  try {
    gradus::text_pattern("a+", true);
  } catch (const gradus::error&) { return; }
  CHECK_THROWS_WITH_AS(matches(gradus::text_pattern("(?:a|b)+", true), std::string(3'000'000, 'a')),
                       "the regular expression (?:a|b)+ on a text of 3000000 bytes: heap limit exceeded",
                       gradus::error);
  CHECK_THROWS_WITH_AS(matches(gradus::text_pattern("(?:a+)+[bc]", true), std::string(1000, 'a')),
                       "the regular expression (?:a+)+[bc] on a text of 1000 bytes: match limit exceeded",
                       gradus::error);
  CHECK_THROWS_WITH_AS(gradus::text_pattern(std::string(16385, 'a'), true),
                       doctest::Contains("has more than 16384 bytes"), gradus::error);
}
