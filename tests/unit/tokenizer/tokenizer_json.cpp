#include <doctest/doctest.h>

#include <functional>
#include <gradus/io/json.hpp>
#include <gradus/tokenizer/tokenizer_json.hpp>
#include <gradus/tokenizer/tokenizer_trainer.hpp>
#include <random>
#include <string>
#include <vector>

#include "../../support/seed.hpp"

using nlohmann::json;

namespace {

json small() { return json::parse(gradus::tokenizer_json(gradus::train_tokenizer("ab ab cab", {.vocabulary = 260}))); }

void refused(const std::function<void(json&)>& spoil, const char* message) {
  json file = small();
  spoil(file);
  CHECK_THROWS_WITH_AS(gradus::parse_tokenizer_json(file.dump(), "t.json"), doctest::Contains(message), gradus::error);
}

}  // namespace

TEST_CASE("merges are read as one text or as two") {
  json file = small();
  const auto expected = gradus::parse_tokenizer_json(file.dump()).encode("ab cab");
  for (auto& m : file["model"]["merges"]) m = m[0].get<std::string>() + " " + m[1].get<std::string>();
  CHECK(gradus::parse_tokenizer_json(file.dump()).encode("ab cab") == expected);
}

TEST_CASE("what a file need not say is what Hugging Face's tokenizers take it for") {
  json file = small();
  for (const char* key : {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                          "byte_fallback", "ignore_merges", "type"})
    file["model"].erase(key);
  for (const char* key :
       {"normalizer", "post_processor", "decoder", "added_tokens", "version", "truncation", "padding"})
    file.erase(key);
  file["pre_tokenizer"].erase("use_regex");
  CHECK(gradus::parse_tokenizer_json(file.dump()).encode("ab") ==
        gradus::parse_tokenizer_json(small().dump()).encode("ab"));
  file["model"]["continuing_subword_prefix"] = "";  // as in GPT-2's own file
  file["model"]["dropout"] = 0.0;
  CHECK_NOTHROW(gradus::parse_tokenizer_json(file.dump()));
  // Older files have "add_prefix_space" in place of "prepend_scheme".
  const auto metaspace = [&](const json& more) {
    json with = file;
    with["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "_"}};
    with["pre_tokenizer"].update(more);
    return gradus::parse_tokenizer_json(with.dump()).encode("ab");
  };
  CHECK(metaspace(json::object()) == metaspace({{"prepend_scheme", "always"}}));
  CHECK(metaspace({{"add_prefix_space", true}, {"str_rep", "_"}}) == metaspace({{"prepend_scheme", "always"}}));
  CHECK(metaspace({{"add_prefix_space", false}}) == metaspace({{"prepend_scheme", "never"}}));
  CHECK(metaspace(json::object()) != metaspace({{"prepend_scheme", "never"}}));
}

TEST_CASE("a part or an option that is not known is refused by its name") {
  refused([](json& f) { f["model"]["type"] = "Other"; },
          "t.json: its model is of type \"Other\", which is not read; these are: BPE, WordPiece, WordLevel, Unigram");
  refused([](json& f) { f["model"]["type"] = 3; }, "model must be an object with a type");
  refused([](json& f) { f["model"]["dropout"] = 0.1; }, "model BPE.dropout is 0.1, which is not supported");
  refused([](json& f) { f["model"]["ignore_merges"] = 1; }, "model BPE.ignore_merges must be true or false");
  refused([](json& f) { f["model"]["new"] = 1; }, "model BPE has \"new\", which is not known");
  refused([](json& f) { f["normalizer"] = {{"type", "Nmt"}}; }, "its normalizer is of type \"Nmt\", which is not read");
  refused([](json& f) { f["pre_tokenizer"] = {{"type", "UnicodeScripts"}}; }, "of type \"UnicodeScripts\"");
  refused([](json& f) { f["decoder"] = {{"type", "CTC"}}; }, "its decoder is of type \"CTC\", which is not read");
  refused([](json& f) { f["post_processor"] = {{"type", "Other"}}; }, "its post_processor is of type \"Other\"");
  refused([](json& f) { f["pre_tokenizer"]["other"] = 1; }, "pre_tokenizer ByteLevel has \"other\"");
  refused(
      [](json& f) {
        f["pre_tokenizer"] = {{"type", "Punctuation"}, {"behavior", "Other"}};
      },
      "pre_tokenizer Punctuation.behavior is \"Other\", which is not known");
  refused([](json& f) { f["pre_tokenizer"] = {{"type", "Sequence"}}; }, "a Sequence without a list 'pretokenizers'");
  refused([](json& f) { f["added_tokens"][0]["other"] = true; }, "added token 1 has \"other\"");
  refused([](json& f) { f["decoders"] = json::array(); }, "it has \"decoders\", which is not known");
  refused([](json& f) { f["version"] = "2.0"; }, "its version is \"2.0\"; 1.0 is read");
  refused(
      [](json& f) {
        f["normalizer"] = {{"type", "Replace"}, {"pattern", {{"Regex", "("}}}, {"content", ""}};
      },
      "the regular expression (");
  refused(
      [](json& f) {
        f["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", "a*"}};
      },
      "precompiled_charsmap is not in base 64");
  const json bert = {{"type", "BertProcessing"}, {"sep", {"a", 0}}, {"cls", {"a", 0}}};
  refused(
      [&](json& f) {
        f["post_processor"] = {{"type", "Sequence"}, {"processors", {bert, bert}}};
      },
      "two post-processors write special tokens");
}

TEST_CASE("of a key that occurs twice the last one counts, as tokenizers 0.23 reads it") {
  // As tokenizers.Tokenizer.from_str(text).encode("a").ids, .get_vocab() and .id_to_token(1) say.
  const auto read = [](const std::string& model) {
    return gradus::parse_tokenizer_json(R"({"model": {"type": "WordLevel", )" + model + "}}", "t.json");
  };
  const auto ids = [](const gradus::tokenizer& by) { return by.encode("a"); };
  const gradus::tokenizer token = read(R"("vocab": {"u": 0, "a": 1, "b": 3, "a": 2}, "unk_token": "u")");
  CHECK(ids(token) == std::vector<std::int32_t>{2});
  CHECK(token.id_of("b") == 3);
  const gradus::tokenizer whole =
      read(R"("vocab": {"u": 0, "a": 1, "b": 2}, "unk_token": "u", "vocab": {"u": 0, "a": 7})");
  CHECK(ids(whole) == std::vector<std::int32_t>{7});
  CHECK(!whole.id_of("b"));
  const gradus::tokenizer unknown = read(R"("vocab": {"u": 0, "b": 1}, "unk_token": "u", "unk_token": "b")");
  CHECK(ids(unknown) == std::vector<std::int32_t>{1});
}

TEST_CASE("a malformed tokenizer.json is refused in one line that says what is wrong") {
  CHECK_THROWS_WITH_AS(gradus::parse_tokenizer_json("", "t.json"), doctest::Contains("t.json: is not JSON"),
                       gradus::error);
  CHECK_THROWS_WITH_AS(gradus::parse_tokenizer_json("[1]", "t.json"), doctest::Contains("is not a JSON object"),
                       gradus::error);
  CHECK_THROWS_WITH_AS(gradus::parse_tokenizer_json("{}", "t.json"), doctest::Contains("no object 'model'"),
                       gradus::error);
  CHECK_THROWS_WITH_AS(gradus::parse_tokenizer_json(std::string(100000, '['), "t.json"),
                       doctest::Contains("nests deeper"), gradus::error);
  CHECK_THROWS_WITH_AS(gradus::read_tokenizer_json("/nowhere/t.json"), "/nowhere/t.json: no such file", gradus::error);
  refused([](json& f) { f["model"].erase("vocab"); }, "model BPE has no \"vocab\"");
  refused(
      [](json& f) {
        f["model"].erase("merges");
        f["model"]["type"] = "BPE";
      },
      "model BPE has no \"merges\"");
  refused([](json& f) { f["model"]["vocab"] = json::array(); }, "model BPE.vocab must be an object of texts and ids");
  refused([](json& f) { f["model"]["vocab"] = json::object(); }, "the vocabulary is empty");
  for (const json& id : {json(-1), json(1.5), json("1"), json(1ull << 40)})
    refused([&](json& f) { f["model"]["vocab"]["a"] = id; }, R"(the id of "a" must be a whole number from 0 to)");
  refused([](json& f) { f["model"]["vocab"]["a"] = 2000000000; },
          R"("a" has the id 2000000000, far outside a vocabulary of)");
  refused([](json& f) { f["model"]["vocab"]["a"] = f["model"]["vocab"]["b"]; }, "have the same id");
  refused([](json& f) { f["model"]["vocab"][""] = 500; }, "a token without text");
  refused([](json& f) { f["model"]["vocab"].erase("a"); }, R"(merge 1: "a" is not in the vocabulary)");
  refused([](json& f) { f["model"]["vocab"].erase("ab"); }, R"(merge 1: "ab" is not in the vocabulary)");
  refused([](json& f) { f["model"]["merges"][0] = "ab"; },
          "model BPE.merges must be two tokens: \"a b\" or [\"a\", \"b\"] (entry 1)");
  refused([](json& f) { f["model"]["merges"][0] = "a b c"; }, "must be two tokens");
  refused([](json& f) { f["model"]["merges"][0] = 7; }, "must be two tokens");
  refused([](json& f) { f["model"]["merges"][0] = {"a", "b", "c"}; }, "must be two tokens");
  refused([](json& f) { f["model"]["merges"][1] = f["model"]["merges"][0]; }, "merge 2: \"a b\" occurs twice");
  refused([](json& f) { f["added_tokens"] = 1; }, "'added_tokens' is not a list");
  refused([](json& f) { f["added_tokens"][0] = "x"; }, "added token 1 must be an object");
  refused([](json& f) { f["added_tokens"][0]["id"] = 5; }, R"("<|endoftext|>" has the id 5, and not 25)");
  refused([](json& f) { f["added_tokens"][0]["content"] = ""; }, "an added token has no text");
  refused([](json& f) { f["added_tokens"][0]["special"] = 1; }, "added token 1.special must be true or false");
  refused([](json& f) { f["added_tokens"].push_back(f["added_tokens"][0]); }, "occurs twice");
  refused([](json& f) { f["model"]["vocab"]["\x1b[31m"] = -1; }, R"("\x1b[31m")");
  const json piece = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  refused(
      [&](json& f) {
        f["post_processor"] = {{"type", "TemplateProcessing"}, {"single", {piece}}, {"pair", {piece}}};
      },
      "a template must have its text, or its two texts, once each");
  refused(
      [](json& f) {
        f["post_processor"] = {{"type", "TemplateProcessing"},
                               {"single", {{{"SpecialToken", {{"id", "x"}, {"type_id", 0}}}}}}};
      },
      "the template has 'x', which is not among its special tokens");
  refused(
      [](json& f) {
        f["model"] = {{"type", "Unigram"}, {"vocab", json::parse("[[\"a\", 0.5]]")}};
      },
      "no unknown token");
  refused(
      [](json& f) {
        f["model"] = {{"type", "WordPiece"}, {"vocab", {{"a", 0}}}};
      },
      "the unknown token \"[UNK]\" is not in the vocabulary");
}

TEST_CASE("a tokenizer.json that was cut short or changed is read or refused, and nothing else") {
  std::mt19937 random(gradus_test::fresh_seed());
  const std::string whole = gradus::tokenizer_json(gradus::train_tokenizer("ab ab cab", {.vocabulary = 260}));
  for (int round = 0; round < 300; ++round) {
    std::string text = whole.substr(0, round % 3 == 0 ? random() % whole.size() : whole.size());
    for (int i = 0; i < round % 4 && !text.empty(); ++i) text[random() % text.size()] = static_cast<char>(random());
    try {
      const auto read = gradus::parse_tokenizer_json(text);
      const auto again = gradus::parse_tokenizer_json(gradus::tokenizer_json(read));
      CHECK(again.encode("abc <|endoftext|>") == read.encode("abc <|endoftext|>"));
      CHECK(gradus::tokenizer_json(again) == gradus::tokenizer_json(read));
    } catch (const gradus::error& e) { CHECK(std::string(e.what()).find('\n') == std::string::npos); }
  }
}

TEST_CASE("ids may be left out") {
  json file = small();
  file["model"]["vocab"]["\xe4\xb8\xad"] = 400;
  const auto read = gradus::parse_tokenizer_json(file.dump());
  CHECK(read.vocabulary() == 401);
  CHECK(read.spelling(400) == "\xe4\xb8\xad");
  CHECK(read.bytes_of(400) == "\xe4\xb8\xad");
  CHECK(read.bytes_of(399).empty());
}
