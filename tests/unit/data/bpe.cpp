#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <gradus/data/bpe.hpp>
#include <gradus/data/bpe_trainer.hpp>
#include <gradus/data/text.hpp>
#include <gradus/data/tokenizer_json.hpp>
#include <gradus/data/unicode.hpp>
#include <gradus/data/words.hpp>
#include <gradus/io/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../../support/seed.hpp"

using gradus::bpe_tokenizer;
using gradus::broken_utf8;
using gradus::word_pattern;
using gradus::unicode::character_class;
using token = bpe_tokenizer::token;

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

// The same for Llama 3's.
std::size_t match_llama3(const letters& t, std::size_t at) {
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
  if (const std::size_t count = run_of(at, character_class::number); count > 0) return std::min(count, std::size_t{3});
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
    std::size_t count = pattern == word_pattern::gpt2 ? match(t, at) : match_llama3(t, at);
    for (; count > 0; --count) word += t.bytes[at++];
    words.push_back(word);
  }
  return words;
}

std::vector<token> plain_encode(const bpe_tokenizer& tokenizer, std::string_view text) {
  std::vector<token> all;
  for (const std::string& word : plain_words(text, tokenizer.settings().pattern)) {
    std::vector<token> ids;
    for (const char c : word) ids.push_back(tokenizer.token_of_byte(static_cast<unsigned char>(c)));
    for (bool merged = true; merged;) {
      merged = false;
      for (const gradus::bpe_merge& m : tokenizer.merges()) {
        const auto pair =
            std::ranges::adjacent_find(ids, [&](token a, token b) { return a == m.left && b == m.right; });
        if (pair == ids.end()) continue;
        *pair = m.merged;
        ids.erase(pair + 1);
        merged = true;
        break;
      }
    }
    all.insert(all.end(), ids.begin(), ids.end());
  }
  return all;
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
std::string random_bytes(std::mt19937& random, std::size_t count) {
  std::string text(count, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

bpe_tokenizer fixture() { return gradus::read_tokenizer_json(GRADUS_TEST_DATA "/tokenizer/tokenizer.json"); }

}  // namespace

namespace {

using list = std::vector<std::string>;

list words(std::string_view text, word_pattern pattern = word_pattern::gpt2) {
  gradus::word_splitter splitter(text, pattern);
  list all;
  for (auto w = splitter.next(); !w.bytes.empty(); w = splitter.next()) all.emplace_back(w.bytes);
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
  }
}

namespace {

// Checks the ids of recorded texts: [hexadecimal bytes, ids].
void check_ids(const bpe_tokenizer& tokenizer, const std::string& file, const char* part) {
  const auto texts = gradus::parse_json(gradus::read_text(file), file)[part];
  REQUIRE(texts.size() > 40);
  for (const auto& item : texts) {
    const auto hex = item[0].get<std::string>();
    std::string text;
    for (std::size_t i = 0; i < hex.size(); i += 2) text += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    const auto ids = item[1].get<std::vector<token>>();
    CHECK(tokenizer.encode(text, {.broken = broken_utf8::replace}) == ids);
    CHECK(tokenizer.decode(ids) == gradus::unicode::replace_broken(text));
    if (gradus::unicode::replace_broken(text) == text) CHECK(tokenizer.encode(text) == ids);
  }
}

}  // namespace

TEST_CASE("ids are those of Hugging Face's tokenizers for the text with broken UTF-8 replaced") {
  const auto tokenizer = fixture();
  CHECK(tokenizer.vocabulary() == 700);
  check_ids(tokenizer, GRADUS_TEST_DATA "/tokenizer/cases.json", "texts");
}

TEST_CASE("with Llama 3's pattern, too, ids are those of Hugging Face's tokenizers") {
  const auto tokenizer = gradus::read_tokenizer_json(GRADUS_TEST_DATA "/tokenizer/llama3.json");
  CHECK(tokenizer.settings().whole_words);
  CHECK(tokenizer.begin_token() == tokenizer.added_token_id("<|begin_of_text|>"));
  CHECK(tokenizer.end_token() == tokenizer.added_token_id("<|end_of_text|>"));
  check_ids(tokenizer, GRADUS_TEST_DATA "/tokenizer/bert_llama3_cases.json", "llama3");
  // No merges make this word, so it is one token only where words may be tokens.
  CHECK(tokenizer.encode(" wonderful").size() == 1);
  CHECK(tokenizer.encode(" wonderfully").size() > 1);
  check_ids(gradus::parse_tokenizer_json(gradus::tokenizer_json(tokenizer)),
            GRADUS_TEST_DATA "/tokenizer/bert_llama3_cases.json", "llama3");
}

TEST_CASE("the merges are those of the plain algorithm, for any text and any tokenizer") {
  std::mt19937 random(gradus_test::fresh_seed());
  for (int round = 0; round < 30; ++round) {
    const auto pattern = round % 2 == 0 ? word_pattern::gpt2 : word_pattern::llama3;
    const auto tokenizer =
        gradus::train_bpe(random_text(random, 300), {.vocabulary = 257 + random() % 100, .pattern = pattern});
    gradus::bpe_encoder encoder(tokenizer);  // one for all texts: words it remembers are encoded the same
    for (int i = 0; i < 10; ++i) {
      const std::string text = random_text(random, random() % 60);
      std::vector<token> ids;
      encoder.encode(text, [&](std::span<const token> some) { ids.insert(ids.end(), some.begin(), some.end()); });
      CHECK(ids == plain_encode(tokenizer, text));
    }
  }
}

TEST_CASE("any bytes come back from their tokens") {
  std::mt19937 random(gradus_test::fresh_seed());
  const auto tokenizer = fixture();
  for (int round = 0; round < 100; ++round) {
    const std::string text =
        round % 2 == 0 ? random_bytes(random, random() % 300) : random_text(random, random() % 100);
    CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
    const auto ids = tokenizer.encode(text);
    const std::vector<std::uint16_t> narrow(ids.begin(), ids.end());
    CHECK(tokenizer.decode<std::uint16_t>(narrow) == text);
  }
}

TEST_CASE("a word of a million letters is encoded in no more than its share of time and memory") {
  const auto tokenizer = fixture();
  const std::string text(1000000, 'a');
  CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
}

TEST_CASE("added tokens are found in a text, the longest first, and left alone where that is asked for") {
  const auto plain = gradus::train_bpe("", {.vocabulary = 256, .special_tokens = {}});
  std::vector<std::string> tokens;
  std::array<token, 256> bytes{};
  for (token t = 0; t < 256; ++t) tokens.emplace_back(plain.bytes_of(t));
  for (std::size_t b = 0; b < 256; ++b) bytes[b] = plain.token_of_byte(static_cast<unsigned char>(b));
  for (const char* text : {"<a>", "<a><b>", "end", "<b>"}) tokens.emplace_back(text);
  const bpe_tokenizer tokenizer(tokens, bytes, {},
                                {{"<a>", 256}, {"<a><b>", 257}, {"end", 258, false, true}, {"<b>", 259, true, true}});
  using list = std::vector<token>;
  const token x = bytes['x'];
  CHECK(tokenizer.encode("x<a>x") == list{x, 256, x});
  CHECK(tokenizer.encode("<a><a><b>end") == list{256, 257, 258});
  CHECK(tokenizer.encode("<b><a>") == list{259, 256});
  CHECK(tokenizer.encode("<a", {}) == list{bytes['<'], bytes['a']});
  CHECK(tokenizer.encode("end", {.added_tokens = false}) == list{bytes['e'], bytes['n'], bytes['d']});
  CHECK(tokenizer.decode(list{256, 258, x}) == "<a>endx");
  CHECK(tokenizer.added_token_id("end") == 258);
  CHECK_FALSE(tokenizer.added_token_id("none").has_value());
}

TEST_CASE("bytes that are no UTF-8 are kept or replaced, and counted") {
  const auto tokenizer = fixture();
  const std::string text = "caf\xe9 noir \xff\xff";  // Latin-1
  CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
  CHECK(tokenizer.decode(tokenizer.encode(text, {.broken = broken_utf8::replace})) ==
        "caf\xEF\xBF\xBD noir \xEF\xBF\xBD\xEF\xBF\xBD");
  gradus::bpe_encoder encoder(tokenizer);
  encoder.encode(text, [](std::span<const token>) {});
  CHECK(encoder.broken_words() == 2);
}

TEST_CASE("threads may share a tokenizer") {
  const auto tokenizer = fixture();
  const std::string text = gradus::read_text(GRADUS_TEST_DATA "/tokenizer/train.txt");
  const auto expected = tokenizer.encode(text);
  std::vector<std::vector<token>> found(4);
  std::vector<std::thread> threads;
  for (auto& ids : found) threads.emplace_back([&] { ids = tokenizer.encode(text); });
  for (auto& t : threads) t.join();
  for (const auto& ids : found) CHECK(ids == expected);
}

TEST_CASE("a tokenizer that cannot be is refused") {
  const auto plain = gradus::train_bpe("", {.vocabulary = 256, .special_tokens = {}});
  std::vector<std::string> tokens;
  std::array<token, 256> bytes{};
  for (token t = 0; t < 256; ++t) tokens.emplace_back(plain.bytes_of(t));
  for (std::size_t b = 0; b < 256; ++b) bytes[b] = plain.token_of_byte(static_cast<unsigned char>(b));
  tokens.emplace_back("ab");
  const token a = bytes['a'], b = bytes['b'];
  CHECK_NOTHROW(bpe_tokenizer(tokens, bytes, {{a, b, 256}}));
  CHECK_THROWS_WITH_AS(bpe_tokenizer(tokens, bytes, {{a, b, 256}, {a, b, 256}}), "bpe: merge 2 occurs twice",
                       gradus::error);
  CHECK_THROWS_WITH_AS(bpe_tokenizer(tokens, bytes, {{b, a, 256}}),
                       doctest::Contains("merge 1 produces token 256, which is not"), gradus::error);
  CHECK_THROWS_WITH_AS(bpe_tokenizer(tokens, bytes, {{a, b, 257}}),
                       "bpe: merge 1 is 257, outside the vocabulary of 257", gradus::error);
  CHECK_THROWS_AS(bpe_tokenizer(tokens, bytes, {{-1, b, 256}}), gradus::error);
  CHECK_THROWS_WITH_AS(bpe_tokenizer(tokens, bytes, {}, {{"x", 300}}), doctest::Contains("an added token is 300"),
                       gradus::error);
  CHECK_THROWS_WITH_AS(bpe_tokenizer(tokens, bytes, {}, {{"", 3}}), doctest::Contains("no text"), gradus::error);
  CHECK_THROWS_WITH_AS(bpe_tokenizer(tokens, bytes, {}, {{"x", 3}, {"x", 4}}),
                       doctest::Contains("the text of added token 2 occurs twice"), gradus::error);
  CHECK_THROWS_WITH_AS(plain.decode(std::vector<token>{5, 256}), "bpe: a token is 256, outside the vocabulary of 256",
                       gradus::error);
  CHECK_THROWS_AS(plain.decode(std::vector<token>{-1}), gradus::error);
}
