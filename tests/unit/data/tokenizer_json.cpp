#include <doctest/doctest.h>

#include <filesystem>
#include <functional>
#include <gradus/data/bpe_trainer.hpp>
#include <gradus/data/tokenizer_json.hpp>
#include <gradus/io/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "../../support/seed.hpp"

using nlohmann::json;
using token = gradus::bpe_tokenizer::token;

namespace {

json small() { return json::parse(gradus::tokenizer_json(gradus::train_bpe("ab ab cab", {.vocabulary = 260}))); }

void refused(const std::function<void(json&)>& spoil, const char* message) {
  json file = small();
  spoil(file);
  CHECK_THROWS_WITH_AS(gradus::parse_tokenizer_json(file.dump(), "t.json"), doctest::Contains(message), gradus::error);
}

}  // namespace

TEST_CASE("merges are read as one text or as two") {
  json file = small();
  const auto expected = gradus::parse_tokenizer_json(file.dump()).encode("ab cab");
  for (auto& m : file["model"]["merges"]) {
    const auto text = m.get<std::string>();
    const auto space = text.find(' ');
    m = {text.substr(0, space), text.substr(space + 1)};
  }
  CHECK(gradus::parse_tokenizer_json(file.dump()).encode("ab cab") == expected);
}

TEST_CASE("what a file need not say is what GPT-2 does") {
  json file = small();
  for (const char* key : {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                          "byte_fallback", "ignore_merges", "type"})
    file["model"].erase(key);
  for (const char* key :
       {"normalizer", "post_processor", "decoder", "added_tokens", "version", "truncation", "padding"})
    file.erase(key);
  file["pre_tokenizer"] = {{"type", "ByteLevel"}};
  CHECK(gradus::parse_tokenizer_json(file.dump()).encode("ab") ==
        gradus::parse_tokenizer_json(small().dump()).encode("ab"));
  file["model"]["continuing_subword_prefix"] = "";  // as in GPT-2's own file
  CHECK_NOTHROW(gradus::parse_tokenizer_json(file.dump()));
}

TEST_CASE("a tokenizer.json that would give other tokens is refused") {
  refused([](json& f) { f["model"]["type"] = "WordPiece"; },
          "t.json: its model is of type WordPiece; BPE is needed here; read_wordpiece_json reads WordPiece");
  refused([](json& f) { f["model"]["type"] = 3; }, "its model is of type 3; BPE is needed");
  refused([](json& f) { f["model"]["dropout"] = 0.1; }, "model.dropout is 0.1");
  refused([](json& f) { f["model"]["end_of_word_suffix"] = "</w>"; }, "model.end_of_word_suffix is </w>");
  refused([](json& f) { f["model"]["byte_fallback"] = true; }, "model.byte_fallback is true");
  refused([](json& f) { f["model"]["ignore_merges"] = 1; }, "model.ignore_merges must be true or false");
  refused([](json& f) { f["normalizer"] = {{"type", "NFC"}}; }, "a normalizer (NFC)");
  refused([](json& f) { f["pre_tokenizer"] = nullptr; }, "its pre_tokenizer is none");
  refused([](json& f) { f["pre_tokenizer"]["type"] = "Metaspace"; },
          "its pre_tokenizer is Metaspace; ByteLevel is read (GPT-2), or a Sequence of Split and ByteLevel (Llama 3)");
  refused([](json& f) { f["pre_tokenizer"]["add_prefix_space"] = true; }, "add_prefix_space is true");
  refused([](json& f) { f["pre_tokenizer"]["use_regex"] = false; }, "use_regex is false");
  refused([](json& f) { f["added_tokens"][0]["lstrip"] = true; }, "'lstrip' is not supported");
}

TEST_CASE("a malformed tokenizer.json is refused in one line that says what is wrong") {
  CHECK_THROWS_WITH_AS(gradus::parse_tokenizer_json("", "t.json"), doctest::Contains("t.json: is not JSON"),
                       gradus::error);
  CHECK_THROWS_WITH_AS(gradus::parse_tokenizer_json("[1]", "t.json"), doctest::Contains("is not a JSON object"),
                       gradus::error);
  CHECK_THROWS_WITH_AS(gradus::parse_tokenizer_json("{}", "t.json"), doctest::Contains("no object 'model'"),
                       gradus::error);
  CHECK_THROWS_WITH_AS(gradus::parse_tokenizer_json(R"({"a":1,"a":2})", "t.json"),
                       doctest::Contains(R"("a" occurs twice)"), gradus::error);
  CHECK_THROWS_WITH_AS(gradus::parse_tokenizer_json(std::string(100000, '['), "t.json"),
                       doctest::Contains("nests deeper"), gradus::error);
  CHECK_THROWS_WITH_AS(gradus::read_tokenizer_json("/nowhere/t.json"), "/nowhere/t.json: no such file", gradus::error);
  refused([](json& f) { f["model"].erase("vocab"); }, "has no object 'model.vocab'");
  refused([](json& f) { f["model"]["vocab"] = json::array(); }, "has no object 'model.vocab'");
  refused(
      [](json& f) {
        f["model"]["vocab"] = json::object();
        f["model"]["merges"] = json::array();
        f["added_tokens"] = json::array();
      },
      "its vocabulary is empty");
  refused([](json& f) { f["model"]["vocab"]["a"] = -1; }, R"(the id of "a" must be a whole number)");
  refused([](json& f) { f["model"]["vocab"]["a"] = 1.5; }, R"(the id of "a" must be a whole number)");
  refused([](json& f) { f["model"]["vocab"]["a"] = "1"; }, R"(the id of "a" must be a whole number)");
  refused([](json& f) { f["model"]["vocab"]["a"] = 1ull << 40; }, R"(the id of "a" must be a whole number)");
  refused([](json& f) { f["model"]["vocab"]["a"] = 2000000000; },
          R"("a" has the id 2000000000, far outside a vocabulary of)");
  refused([](json& f) { f["model"]["vocab"]["a"] = f["model"]["vocab"]["b"]; }, "have the same id");
  refused([](json& f) { f["model"]["vocab"][""] = 500; }, "a token without text");
  refused([](json& f) { f["model"]["vocab"].erase("z"); }, R"(no token "z" for the byte 122)");
  refused([](json& f) { f["model"]["vocab"].erase("a"); }, R"(merge 1: "a" is not in the vocabulary)");
  refused([](json& f) { f["model"]["vocab"].erase("ab"); }, R"(merge 1: "ab" is not in the vocabulary)");
  refused([](json& f) { f["model"].erase("merges"); }, "has no list 'model.merges'");
  refused([](json& f) { f["model"]["merges"][0] = "ab"; }, R"(merge 1 is "ab": it must be two tokens with a space)");
  refused([](json& f) { f["model"]["merges"][0] = "a b c"; }, "it must be two tokens with a space");
  refused([](json& f) { f["model"]["merges"][0] = 7; }, "merge 1 must be two tokens");
  refused([](json& f) { f["model"]["merges"][0] = {"a", "b", "c"}; }, "merge 1 must be two tokens");
  refused([](json& f) { f["model"]["merges"][1] = f["model"]["merges"][0]; }, "merge 2 occurs twice");
  refused([](json& f) { f["added_tokens"] = 1; }, "'added_tokens' is not a list");
  refused([](json& f) { f["added_tokens"][0] = "x"; }, "added token 1 must be an object");
  refused([](json& f) { f["added_tokens"][0]["id"] = 5; }, R"("<|endoftext|>" has the id 5, but in the vocabulary)");
  refused([](json& f) { f["added_tokens"][0]["content"] = ""; }, "added token 1 has no text");
  refused([](json& f) { f["added_tokens"][0]["special"] = 1; }, "'special' must be true or false");
  refused([](json& f) { f["added_tokens"].push_back(f["added_tokens"][0]); }, "occurs twice");
  refused([](json& f) { f["model"]["vocab"]["\x1b[31m"] = -1; }, R"("\u001b[31m")");
}

TEST_CASE("a tokenizer.json that was cut short or changed is read or refused, and nothing else") {
  std::mt19937 random(gradus_test::fresh_seed());
  const std::string whole = gradus::tokenizer_json(gradus::train_bpe("ab ab cab", {.vocabulary = 260}));
  for (int round = 0; round < 300; ++round) {
    std::string text = whole.substr(0, round % 3 == 0 ? random() % whole.size() : whole.size());
    for (int i = 0; i < round % 4 && !text.empty(); ++i) text[random() % text.size()] = static_cast<char>(random());
    try {
      const auto read = gradus::parse_tokenizer_json(text);
      CHECK(read.decode(read.encode("abc")) == "abc");
    } catch (const gradus::error& e) { CHECK(std::string(e.what()).find('\n') == std::string::npos); }
  }
}

TEST_CASE("a tokenizer.json of Llama 3's kind is read and written") {
  const std::string text = "We'LL pay 12345, ok?\n\n  yes";
  const auto trained = gradus::train_bpe(text, {.vocabulary = 260, .pattern = gradus::word_pattern::llama3});
  json file = json::parse(gradus::tokenizer_json(trained));
  CHECK(file["pre_tokenizer"]["pretokenizers"][0]["type"] == "Split");
  file["model"]["ignore_merges"] = true;
  file["added_tokens"].push_back({{"id", 300}, {"content", "<|begin_of_text|>"}});
  file["post_processor"] = {{"type", "Sequence"},
                            {"processors",
                             {{{"type", "ByteLevel"}},
                              {{"type", "TemplateProcessing"},
                               {"single", {{{"SpecialToken", {{"id", "<|begin_of_text|>"}, {"type_id", 0}}}}}}}}}};
  const auto read = gradus::parse_tokenizer_json(file.dump());
  CHECK(read.settings().pattern == gradus::word_pattern::llama3);
  CHECK(read.settings().whole_words);
  CHECK(read.begin_token() == 300);
  CHECK(read.encode(text) == trained.encode(text));  // without the begin token
  const auto again = gradus::parse_tokenizer_json(gradus::tokenizer_json(read));
  CHECK(gradus::tokenizer_json(again) == gradus::tokenizer_json(read));
  CHECK(again.begin_token() == 300);

  const auto other = [&](const std::function<void(json&)>& spoil, const char* message) {
    json spoiled = file;
    spoil(spoiled);
    CHECK_THROWS_WITH_AS(gradus::parse_tokenizer_json(spoiled.dump(), "t.json"), doctest::Contains(message),
                         gradus::error);
  };
  other([](json& f) { f["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = R"(\p{N}|\p{L}+)"; },
        R"(splits by another pattern than those of GPT-2 and Llama 3: \\p{N}|\\p{L}+)");
  other([](json& f) { f["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Removed"; }, "by another pattern");
  other([](json& f) { f["pre_tokenizer"]["pretokenizers"][0]["invert"] = true; }, "by another pattern");
  other([](json& f) { f["pre_tokenizer"]["pretokenizers"][1]["use_regex"] = true; }, "splits twice");
  other([](json& f) { f["pre_tokenizer"]["pretokenizers"].erase(1); }, "its pre_tokenizer is Sequence; ByteLevel is");
  other([](json& f) { f["pre_tokenizer"]["pretokenizers"][0]["type"] = "Digits"; }, "its pre_tokenizer is Sequence");
  other([](json& f) { f["added_tokens"].erase(1); }, R"(adds "<|begin_of_text|>", which is no token)");
  other([](json& f) { f["model"]["vocab"]["\xe4\xb8\xad"] = 301; }, "with ignore_merges, the token");
}

TEST_CASE("tokens that are no bytes stand for themselves, and ids may be left out") {
  json file = small();
  file["model"]["vocab"]["\xe4\xb8\xad"] = 400;
  const auto read = gradus::parse_tokenizer_json(file.dump());
  CHECK(read.vocabulary() == 401);
  CHECK(read.bytes_of(400) == "\xe4\xb8\xad");
  CHECK(read.bytes_of(399).empty());
}
