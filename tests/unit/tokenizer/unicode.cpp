#include <doctest/doctest.h>

#include <gradus/io/json.hpp>
#include <gradus/io/text_file.hpp>
#include <gradus/tokenizer/unicode.hpp>
#include <random>
#include <string>

#include "../../support/seed.hpp"

using gradus::unicode::character_class;

TEST_CASE("characters have the classes that the pattern of Hugging Face's ByteLevel gives them") {
  const std::string path = GRADUS_TEST_DATA "/tokenizer/cases.json";
  const auto runs = gradus::parse_json(gradus::read_text(path), path)["classes"];
  REQUIRE(runs.size() > 1000);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto first = runs[i][0].get<char32_t>();
    const char32_t end = i + 1 < runs.size() ? runs[i + 1][0].get<char32_t>() : 0x110000;
    const std::string name = runs[i][1];
    const auto expected = name == "letter"   ? character_class::letter
                          : name == "number" ? character_class::number
                          : name == "space"  ? character_class::space
                                             : character_class::other;
    for (char32_t c = first; c < end; ++c) wrong += gradus::unicode::classify(c) != expected;
  }
  CHECK(wrong == 0);
}

TEST_CASE("every code point is read back from its UTF-8, and surrogates are none") {
  std::size_t wrong = 0;
  for (char32_t c = 0; c < 0x110000; ++c) {
    const std::string text = gradus::unicode::to_utf8(c);
    const auto read = gradus::unicode::read_utf8(text, 0);
    const bool surrogate = c >= 0xD800 && c < 0xE000;
    if (surrogate) wrong += read.valid;
    else wrong += !read.valid || read.value != c || read.bytes != text.size();
  }
  CHECK(wrong == 0);
}

TEST_CASE("what is no UTF-8 is replaced as Python's errors=\"replace\" does") {
  const auto replaced = [](std::string_view text) {
    std::string shown = gradus::unicode::replace_broken(text);
    for (std::size_t at; (at = shown.find("\xEF\xBF\xBD")) != std::string::npos;) shown.replace(at, 3, "?");
    return shown;
  };
  CHECK(replaced("caf\xc3\xa9") == "caf\xc3\xa9");
  CHECK(replaced("\xff") == "?");
  CHECK(replaced("\xc0\x80") == "??");            // longer than needed
  CHECK(replaced("\xed\xa0\x80") == "???");       // a surrogate
  CHECK(replaced("\xf4\x90\x80\x80") == "????");  // past the last code point
  CHECK(replaced("\xe2\x82") == "?");             // cut short by the end
  CHECK(replaced("\xf0\x9f\x98x") == "?x");       // cut short by a letter
  CHECK(replaced("\xe2\x82\xe2\x82\xac") == "?\xe2\x82\xac");
  CHECK(replaced("\x80\xc3") == "??");
}

TEST_CASE("any bytes are read to their end, and what is replaced is UTF-8") {
  std::mt19937 random(gradus_test::fresh_seed());
  for (int round = 0; round < 200; ++round) {
    std::string text(random() % 40, '\0');
    for (char& c : text) c = static_cast<char>(random() % 2 == 0 ? random() : 0x80 + random() % 0x80);
    const std::string whole = gradus::unicode::replace_broken(text);
    CHECK(gradus::unicode::replace_broken(whole) == whole);
    for (std::size_t at = 0; at < whole.size();) {
      const auto c = gradus::unicode::read_utf8(whole, at);
      REQUIRE(c.valid);
      at += c.bytes;
    }
  }
}
