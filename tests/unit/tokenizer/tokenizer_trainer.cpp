#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <gradus/io/text_file.hpp>
#include <gradus/tokenizer/tokenizer_trainer.hpp>
#include <gradus/tokenizer/tokenizer_json.hpp>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "../../support/seed.hpp"

using token = gradus::tokenizer::token;

namespace {

std::vector<std::array<std::string, 2>> merges_of(const gradus::tokenizer& t) {
  return std::get<gradus::token_models::bpe>(t.parts().model).merges;
}

}  // namespace

TEST_CASE("the merges are those that Hugging Face's BpeTrainer learned from the text") {
  const auto theirs = gradus::read_tokenizer_json(GRADUS_TEST_DATA "/tokenizer/tokenizer.json");
  const auto ours = gradus::train_tokenizer(gradus::read_text(GRADUS_TEST_DATA "/tokenizer/train.txt"), {.vocabulary = 700});
  CHECK(merges_of(ours) == merges_of(theirs));
  CHECK(ours.vocabulary() == theirs.vocabulary());
  CHECK(ours.id_of("<|endoftext|>") == 699);  // last, as in GPT-2
  CHECK(theirs.id_of("<|endoftext|>") == 0);
}

TEST_CASE("the most frequent pair is merged, and of equal ones that with the smaller ids") {
  const auto trained = gradus::train_tokenizer("ab ab ab cd cd ab", {.vocabulary = 263});
  // " " is behind the visible bytes, so "a"+"b" (4) is first; " "+"ab" (3) goes before "c"+"d" (2) and " "+"c" by its
  // count.
  CHECK(merges_of(trained) ==
        std::vector<std::array<std::string, 2>>{{"a", "b"}, {"Ġ", "ab"}, {"c", "d"}, {"Ġ", "cd"}});
  CHECK(trained.vocabulary() == 261);  // no pair is left that occurs twice
}

TEST_CASE("training is deterministic, whether the text comes whole or in parts") {
  std::mt19937 random(gradus_test::fresh_seed());
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "aab bcc\n"[random() % 8];
  const auto whole = gradus::train_tokenizer(text, {.vocabulary = 300});
  gradus::tokenizer_trainer trainer({.vocabulary = 300});
  for (std::size_t at = 0; at < text.size();) {  // cut behind words that a space follows
    std::size_t end = text.find(" b", at + 500);
    if (end == std::string::npos || text[end - 1] == ' ' || text[end - 1] == '\n') end = text.size();
    trainer.count(std::string_view(text).substr(at, end - at));
    at = end;
  }
  CHECK(gradus::tokenizer_json(trainer.train()) == gradus::tokenizer_json(whole));
}

TEST_CASE("a trained tokenizer is read back from its file as it was") {
  const std::string text = gradus::read_text(GRADUS_TEST_DATA "/tokenizer/train.txt");
  const auto path = std::filesystem::temp_directory_path() / "gradus_trained_tokenizer.json";
  const auto trained =
      gradus::train_tokenizer(text, {.vocabulary = 400, .special_tokens = {"<|endoftext|>", "<\"pad\">", "\xc3\xa9 x"}});
  gradus::write_tokenizer_json(path, trained);
  const auto back = gradus::read_tokenizer_json(path);
  CHECK(gradus::tokenizer_json(back) == gradus::tokenizer_json(trained));
  CHECK(back.encode(text + "<\"pad\">\xc3\xa9 x") == trained.encode(text + "<\"pad\">\xc3\xa9 x"));
  CHECK(back.decode(std::vector<token>{399}) == "\xc3\xa9 x");
  std::filesystem::remove(path);
}

TEST_CASE("random bytes train a tokenizer that gives them back") {
  std::mt19937 random(gradus_test::fresh_seed());
  std::string text(5000, '\0');
  for (char& c : text) c = static_cast<char>(random() % 7 == 0 ? random() : 0xC0 + random() % 4);
  for (const auto broken : {gradus::broken_utf8::keep, gradus::broken_utf8::replace}) {
    const auto trained = gradus::train_tokenizer(text, {.vocabulary = 500, .broken = broken});
    CHECK(trained.decode(trained.encode(text)) == text);
    CHECK(gradus::parse_tokenizer_json(gradus::tokenizer_json(trained)).encode(text) == trained.encode(text));
  }
}

TEST_CASE("a special token keeps its text to itself") {
  const auto trained = gradus::train_tokenizer("pad pad pad pad", {.vocabulary = 300, .special_tokens = {"pad"}});
  const auto last = static_cast<token>(trained.vocabulary() - 1);
  for (const auto& [left, right] : merges_of(trained)) CHECK(left + right != "pad");
  CHECK(trained.encode("pad") == std::vector<token>{last});
}

TEST_CASE("a vocabulary that has no room is refused") {
  CHECK_THROWS_WITH_AS(gradus::tokenizer_trainer({.vocabulary = 256}),
                       "bpe: a vocabulary has from 257 to 16777216 tokens (256 bytes and 1 special ones), not 256",
                       gradus::error);
  CHECK_THROWS_AS(gradus::tokenizer_trainer({.vocabulary = 0}), gradus::error);
  CHECK_THROWS_AS(gradus::tokenizer_trainer({.vocabulary = std::size_t{1} << 40}), gradus::error);
  CHECK_THROWS_WITH_AS(gradus::tokenizer_trainer({.special_tokens = {"a", "a"}}), doctest::Contains("twice"), gradus::error);
  CHECK_THROWS_WITH_AS(gradus::tokenizer_trainer({.special_tokens = {""}}), doctest::Contains("no text"), gradus::error);
  CHECK(gradus::train_tokenizer("", {.vocabulary = 5000}).vocabulary() == 257);
}
