#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <gradus/io/text_file.hpp>
#include <gradus/tokenizer/tokenizer_json.hpp>
#include <gradus/tokenizer/tokenizer_trainer.hpp>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "../../support/seed.hpp"

using gradus::tokenizer_kind;
using token = gradus::tokenizer::token;

namespace {

std::vector<std::array<std::string, 2>> merges_of(const gradus::tokenizer& t) {
  return std::get<gradus::token_models::bpe>(t.parts().model).merges;
}

}  // namespace

TEST_CASE("the merges are those that Hugging Face's BpeTrainer learned from the text") {
  const auto theirs = gradus::read_tokenizer_json(GRADUS_TEST_DATA "/tokenizer/tokenizer.json");
  const auto ours =
      gradus::train_tokenizer(gradus::read_text(GRADUS_TEST_DATA "/tokenizer/train.txt"), {.vocabulary = 700});
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
  const auto trained = gradus::train_tokenizer(
      text, {.vocabulary = 400, .special_tokens = {"<|endoftext|>", "<\"pad\">", "\xc3\xa9 x"}});
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

TEST_CASE("tokens of WordPiece are special ones, characters, and merges; they begin or continue a word") {
  const auto trained = gradus::train_tokenizer(
      "Ab ab ab, \xc3\xa1"
      "bab cb",
      {.kind = tokenizer_kind::wordpiece});
  std::vector<std::string> tokens;
  for (std::size_t id = 0; id < trained.vocabulary(); ++id)
    tokens.emplace_back(trained.spelling(static_cast<token>(id)));
  // Without case and accents, "ab" is there three times and "abab" once.
  CHECK(tokens ==
        std::vector<std::string>{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ",", "a", "b", "c", "##a", "##b", "ab"});
  CHECK(trained.decode(trained.input("abab cx").ids) == "[CLS] abab [UNK] [SEP]");
  const auto cased = gradus::train_tokenizer("Ab", {.kind = tokenizer_kind::wordpiece, .lowercase = false});
  CHECK(cased.id_of("A").has_value());
}

TEST_CASE("WordPiece learns the vocabulary of Hugging Face's WordPieceTrainer") {
  // WordPieceTrainer(vocab_size=45, min_frequency=4) of tokenizers 0.23.3 finds these tokens, in a random order.
  std::string text;
  for (const auto& [word, count] : {std::pair("low ", 21),
                                    {"lower ", 10},
                                    {"newest ", 35},
                                    {"widest ", 17},
                                    {"new ", 8},
                                    {"wide ", 13},
                                    {"slowly ", 6},
                                    {"West ", 3}})
    for (int i = 0; i < count; ++i) text += word;
  const std::set<std::string> theirs{"##d",   "##e",    "##er",  "##es",   "##est", "##i",    "##l", "##ly",  "##o",
                                     "##ow",  "##owly", "##r",   "##s",    "##t",   "##w",    "##y", "[CLS]", "[MASK]",
                                     "[PAD]", "[SEP]",  "[UNK]", "d",      "e",     "i",      "l",   "low",   "lower",
                                     "n",     "ne",     "new",   "newest", "o",     "r",      "s",   "sl",    "slowly",
                                     "t",     "w",      "wi",    "wid",    "wide",  "widest", "y"};
  const auto trained =
      gradus::train_tokenizer(text, {.kind = tokenizer_kind::wordpiece, .vocabulary = 45, .min_frequency = 4});
  std::set<std::string> ours;
  for (std::size_t id = 0; id < trained.vocabulary(); ++id) ours.emplace(trained.spelling(static_cast<token>(id)));
  CHECK(ours == theirs);
}

TEST_CASE("a unigram model has all characters, and the parts of words that make texts most probable") {
  std::string text;
  for (int i = 0; i < 50; ++i) text += "hello\tworld\n hello there  \xef\xac\x81x\n";
  const auto trained = gradus::train_tokenizer(text, {.kind = tokenizer_kind::unigram, .vocabulary = 18});
  const auto& model = std::get<gradus::token_models::unigram>(trained.parts().model);
  std::set<std::string> tokens;
  double sum = 0;
  for (std::size_t id = 0; id < model.vocab.size(); ++id) {
    const auto& [piece, score] = model.vocab[id];
    tokens.insert(piece);
    if (id >= 3) sum += std::exp(score);
    if (id >= 4) CHECK(score <= model.vocab[id - 1].second);
  }
  CHECK(tokens.size() == 18);
  for (const char* piece :
       {"<pad>", "</s>", "<unk>", "d", "e", "f", "h", "i", "l", "o", "r", "t", "w", "x", "\u2581", "\u2581hello"})
    CHECK_MESSAGE(tokens.contains(piece), piece);
  CHECK(sum <= 1);
  CHECK(trained.decode(trained.encode("hello  world\n\xef\xac\x81")) == "hello world fi");
  CHECK(trained.input("hello").ids == std::vector<token>{*trained.id_of("\u2581hello"), 1});
  CHECK(trained.encode("q").back() == 2);
}

TEST_CASE("texts are as probable by a unigram model as by that of Hugging Face's UnigramTrainer") {
  std::uint32_t state = 1;
  const auto draw = [&](std::uint32_t below) { return ((state = state * 1664525u + 1013904223u) >> 16) % below; };
  std::string text, unseen;  // Zipf's words of syllables; and others
  for (int i = 0; i < 2500; ++i) {
    std::string word;
    for (std::uint32_t left = 1 + draw(4); left > 0; --left) {
      std::uint32_t s = draw(60);
      s = s * s / 60;
      word += {"bcdfghklmnprstvz"[s % 16], "aeiou"[s % 5]};
      if (s % 3 == 0) word += 'n';
    }
    for (int n = i < 1500 ? 400 / (i + 1) + 1 : 0; n > 0; --n) text += word + " ";
    if (i >= 1500) unseen += word + " ";
  }
  const auto trained = gradus::train_tokenizer(text, {.kind = tokenizer_kind::unigram, .vocabulary = 300});
  const auto& pieces = std::get<gradus::token_models::unigram>(trained.parts().model).vocab;
  double sum = 0;
  for (std::size_t id = 3; id < pieces.size(); ++id) sum += std::exp(pieces[id].second);
  const auto logarithm = [&](const std::string& of) {
    double all = 0;
    for (const token id : trained.encode(of)) all += pieces[static_cast<std::size_t>(id)].second - std::log(sum);
    return all;
  };
  // Theirs are UnigramTrainer's of tokenizers 0.23.3, of the most probable spellings, with the same options. It counts
  // a word once when it chooses candidates, which suits words that the text does not have.
  CHECK(logarithm(text) > -35759.8);
  CHECK(logarithm(unseen) > -11844.3 * 1.03);
}

TEST_CASE("a trained tokenizer of each kind is small enough, the same each time, and read back from its file") {
  const std::string text = gradus::read_text(GRADUS_TEST_DATA "/tokenizer/train.txt");
  for (const auto kind : {tokenizer_kind::bpe, tokenizer_kind::wordpiece, tokenizer_kind::unigram}) {
    const std::string name = names_of(kind)[static_cast<std::size_t>(kind)];
    CAPTURE(name);
    const auto trained = gradus::train_tokenizer(text, {.kind = kind, .vocabulary = 1500});
    CHECK(trained.vocabulary() == 1500);
    gradus::tokenizer_trainer lines({.kind = kind, .vocabulary = 1500});
    for (std::size_t at = 0; at < text.size();) {  // before a letter that begins a line
      std::size_t end = at;
      do end = std::min(text.find('\n', end), text.size() - 1) + 1;
      while (end < text.size() && (text[end] < 'a' || text[end] > 'z'));
      lines.count(std::string_view(text).substr(at, end - at));
      at = end;
    }
    // But for a byte-level BPE, for which white space before a line's first word is another word alone.
    if (kind != tokenizer_kind::bpe) CHECK((gradus::tokenizer_json(lines.train()) == gradus::tokenizer_json(trained)));
    const auto back = gradus::parse_tokenizer_json(gradus::tokenizer_json(trained));
    CHECK((gradus::tokenizer_json(back) == gradus::tokenizer_json(trained)));
    CHECK((back.encode(text) == trained.encode(text)));
    // The text's own characters are known.
    if (const auto unknown = trained.id_of(kind == tokenizer_kind::wordpiece ? "[UNK]" : "<unk>"))
      CHECK(std::ranges::count(trained.encode(text), *unknown) == 0);
  }
}

TEST_CASE("a vocabulary that has no room is refused") {
  CHECK_THROWS_WITH_AS(gradus::tokenizer_trainer({.vocabulary = 256}),
                       "bpe: a vocabulary has from 257 to 16777216 tokens (256 bytes and 1 special ones), not 256",
                       gradus::error);
  CHECK_THROWS_AS(gradus::tokenizer_trainer({.vocabulary = 0}), gradus::error);
  CHECK_THROWS_AS(gradus::tokenizer_trainer({.vocabulary = std::size_t{1} << 40}), gradus::error);
  CHECK_THROWS_WITH_AS(gradus::tokenizer_trainer({.special_tokens = {"a", "a"}}), doctest::Contains("twice"),
                       gradus::error);
  CHECK_THROWS_WITH_AS(gradus::tokenizer_trainer({.special_tokens = {""}}), doctest::Contains("no text"),
                       gradus::error);
  CHECK(gradus::train_tokenizer("", {.vocabulary = 5000}).vocabulary() == 257);
  const auto refused = [](const char* text, const gradus::tokenizer_training& options, const char* message) {
    CHECK_THROWS_WITH_AS(gradus::train_tokenizer(text, options), doctest::Contains(message), gradus::error);
  };
  for (const auto kind : {tokenizer_kind::wordpiece, tokenizer_kind::unigram}) {
    refused("", {.kind = kind, .vocabulary = 3}, "to 16777216 tokens (other ones and ");
    refused("", {.kind = kind, .special_tokens = {"[X]"}}, kind == tokenizer_kind::unigram ? "</s>" : "[SEP]");
    CHECK(gradus::train_tokenizer("", {.kind = kind}).vocabulary() == (kind == tokenizer_kind::unigram ? 3 : 5));
  }
  refused("abcd", {.kind = tokenizer_kind::wordpiece, .vocabulary = 10},
          "the characters of the texts need 7 tokens: a vocabulary of 12 at least, and not 10, or a limit");
  refused("abcd", {.kind = tokenizer_kind::unigram, .vocabulary = 7},
          "the characters of the texts need 5 tokens: a vocabulary of 8 at least, and not 7, or a limit");
  CHECK(gradus::train_tokenizer("aa bb c", {.kind = tokenizer_kind::unigram, .vocabulary = 7, .characters = 3})
            .encode("abc")
            .back() == 2);
}
