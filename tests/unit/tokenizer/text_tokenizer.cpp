// A language model's tokens as text.
#include <doctest/doctest.h>

#include <cstdint>
#include <gradus/tokenizer/text_tokenizer.hpp>
#include <gradus/tokenizer/tokenizer_json.hpp>
#include <string>
#include <vector>

namespace gr = gradus;

TEST_CASE("without a BPE every byte is a token, and an empty text is a newline") {
  const gr::text_tokenizer bytes;
  CHECK(bytes.bytes());
  CHECK(bytes.vocabulary() == 256);
  CHECK(bytes.encode("a\xff") == std::vector<std::int32_t>{97, 255});
  CHECK(bytes.encode("") == std::vector<std::int32_t>{10});
  CHECK(bytes.decode(255) == "\xff");
  CHECK_FALSE(bytes.ends_text(10));
}

TEST_CASE("with a BPE an empty text is what ends a text, if there is such a token") {
  const gr::tokenizer bpe = gr::read_tokenizer_json(std::string(GRADUS_TEST_DATA) + "/tokenizer/tokenizer.json");
  const auto end = bpe.id_of("<|endoftext|>");
  const gr::text_tokenizer words(bpe);
  CHECK_FALSE(words.bytes());
  CHECK(words.vocabulary() == bpe.vocabulary());
  const auto ids = words.encode("the quick brown fox");
  CHECK(ids == bpe.encode("the quick brown fox"));
  std::string text;
  for (const auto id : ids) text += words.decode(id);
  CHECK(text == "the quick brown fox");
  REQUIRE(end.has_value());
  CHECK(words.encode("") == std::vector<std::int32_t>{*end});
  CHECK(words.ends_text(*end));
  CHECK_FALSE(words.ends_text(ids[0]));
}

TEST_CASE("a BPE with a token that begins texts puts it before each") {
  const gr::tokenizer bpe = gr::read_tokenizer_json(std::string(GRADUS_TEST_DATA) + "/tokenizer/llama3.json");
  const gr::text_tokenizer words(bpe);
  auto expected = bpe.encode("the fox");
  expected.insert(expected.begin(), *bpe.begin_token());
  CHECK(words.encode("the fox") == expected);
  CHECK(words.encode("") == std::vector<std::int32_t>{*bpe.begin_token()});
  CHECK(words.ends_text(*bpe.id_of("<|end_of_text|>")));
}
