// BERT's tokenizer.
#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <gradus/data/bert_text.hpp>
#include <gradus/data/text.hpp>
#include <gradus/data/unicode.hpp>
#include <gradus/data/wordpiece.hpp>
#include <gradus/data/wordpiece_json.hpp>
#include <gradus/io/atomic_file.hpp>
#include <gradus/io/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "../../support/seed.hpp"

namespace gr = gradus;
using ids = std::vector<std::int32_t>;
using nlohmann::json;

namespace {

const std::string data = GRADUS_TEST_DATA "/tokenizer/";

std::string from_hex(const std::string& hex) {
  std::string text;
  for (std::size_t i = 0; i < hex.size(); i += 2) text += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return text;
}

json cases() { return gr::parse_json(gr::read_text(data + "bert_llama3_cases.json"), "cases"); }

gr::wordpiece_tokenizer small(gr::wordpiece_settings settings = {}) {
  return gr::wordpiece_tokenizer({"[PAD]", "[UNK]", "[CLS]", "[SEP]", "un", "##aff", "##able", "able", ",", "a", "##a"},
                                 {{"[SEP]", 3}, {"[NEW]", 11}}, std::move(settings));
}

}  // namespace

TEST_CASE("every character is normalized and split as Hugging Face's BertNormalizer and BertPreTokenizer do") {
  const json all = cases();
  for (const auto& item : all["normalizers"]) {
    const auto flag = [&](std::size_t i) { return item[0][i].get<bool>(); };
    const gr::bert_normalizer normalize{flag(0), flag(1), flag(2), flag(3)};
    for (std::size_t block = 0; block < 0x110; ++block) {
      std::uint64_t hash = 14695981039346656037u;
      const auto add = [&](std::string_view text) {
        for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
      };
      for (auto c = static_cast<char32_t>(block * 4096); c < (block + 1) * 4096; ++c) {
        if (c >= 0xD800 && c < 0xE000) continue;
        const std::string text = normalize("a" + gr::unicode::to_utf8(c) + "b");
        add(text);
        gr::bert_splitter words(text);
        for (auto word = words.next(); !word.empty(); word = words.next()) {
          add("|");
          add(word);
        }
      }
      INFO("code points from " << block * 4096 << ", flags " << item[0].dump());
      CHECK(std::to_string(hash) == item[1][block].get<std::string>());
    }
  }
}

TEST_CASE("texts are normalized as BERT does") {
  const gr::bert_normalizer uncased;
  CHECK(uncased("Caf\u00C9\tna\u00EFve") == "cafe naive");
  CHECK(uncased("\u0130stanbul") == "istanbul");                 // Turkish dotted I
  CHECK(uncased("STRA\u00DFE \u1E9E") == "stra\u00DFe \u00DF");  // sharp s stays one letter
  CHECK(uncased("\u039F\u03A3") == "\u03BF\u03C3");              // a final sigma is like any other
  CHECK(uncased("a\u4E2Db") == "a \u4E2D b");
  CHECK(uncased(std::string("a\0b\x7f\xff", 5)) == "ab");
  CHECK(uncased("\uD55C") == "\u1112\u1161\u11AB");  // Hangul in its letters
  const gr::bert_normalizer cased{.lowercase = false};
  CHECK(cased("Caf\u00C9") == "Caf\u00C9");
  const gr::bert_normalizer marked{.strip_accents = false};
  CHECK(marked("\u0130\u00C9") == "i\u0307\u00E9");
  // Marks that are not accents come in the canonical order.
  CHECK(uncased("a\u302E\U0001D165") == "a\U0001D165\u302E");
  CHECK(uncased("a\u302E\u034F\U0001D165") == "a\u302E\U0001D165");
}

TEST_CASE("ids, segments and texts are those of Hugging Face's WordPiece") {
  const auto read = gr::read_wordpiece_json(data + "wordpiece.json");
  CHECK(read.vocabulary() == 500);
  const auto again = gr::parse_wordpiece_json(gr::wordpiece_json(read));
  CHECK(gr::wordpiece_json(again) == gr::wordpiece_json(read));
  const json all = cases();
  for (const auto* tokenizer : {&read, &again})
    for (const auto& item : all["wordpiece"]) {
      const auto most = item[1].get<std::size_t>();
      const std::string first = from_hex(item[0][0]);
      const auto input = item[0].size() == 1 ? tokenizer->model_input(first, most)
                                             : tokenizer->model_input(first, from_hex(item[0][1]), most);
      CHECK(input.ids == item[2].get<ids>());
      CHECK(input.segments == item[3].get<ids>());
      CHECK(tokenizer->decode(input.ids) == item[4].get<std::string>());
    }
}

TEST_CASE("a word is spelled by the longest tokens, or is unknown") {
  const auto tokenizer = small();
  CHECK(tokenizer.vocabulary() == 12);
  CHECK(tokenizer.encode("unaffable, able") == ids{4, 5, 6, 8, 7});
  CHECK(tokenizer.encode("UNAFFABLE") == ids{4, 5, 6});
  CHECK(tokenizer.encode("unaffabl un") == ids{1, 4});  // all of the word is unknown
  CHECK(tokenizer.encode("") == ids{});
  CHECK(tokenizer.encode(std::string(100, 'a')).size() == 100);
  CHECK(tokenizer.encode(std::string(101, 'a')) == ids{1});
  CHECK(tokenizer.encode("a[NEW]a[SEP]") == ids{9, 11, 9, 3});
  CHECK(tokenizer.decode(ids{2, 4, 5, 6, 8, 7, 3}) == "[CLS] unaffable, able [SEP]");
  CHECK(tokenizer.text_of(5) == "##aff");
  CHECK(tokenizer.id_of("[PAD]") == 0);
  CHECK(tokenizer.id_of("[NEW]") == 11);
  CHECK_FALSE(tokenizer.id_of("none").has_value());
  CHECK(small({.longest_word = 3}).encode("able a") == ids{1, 9});
}

TEST_CASE("texts get their separators, and are cut to a length, the longer of a pair first") {
  const auto tokenizer = small();
  const auto one = tokenizer.model_input("a a a a", 5);
  CHECK(one.ids == ids{2, 9, 9, 9, 3});
  CHECK(one.segments == ids{0, 0, 0, 0, 0});
  const auto two = tokenizer.model_input("a a a a", "un", 6);
  CHECK(two.ids == ids{2, 9, 9, 3, 4, 3});
  CHECK(two.segments == ids{0, 0, 0, 0, 1, 1});
  CHECK(tokenizer.model_input("a a a a", "un un un un", 8).ids == ids{2, 9, 9, 3, 4, 4, 4, 3});
  CHECK(tokenizer.model_input("", "", 3).ids == ids{2, 3, 3});
  CHECK(tokenizer.model_input("a").ids == ids{2, 9, 3});
  CHECK_THROWS_WITH_AS((void)tokenizer.model_input("a", 1), doctest::Contains("at least 2 is needed"), gr::error);
  CHECK_THROWS_WITH_AS((void)tokenizer.model_input("a", "a", 2), doctest::Contains("at least 3 is needed"), gr::error);
}

TEST_CASE("the tokens of any text are within the vocabulary, and cutting keeps their beginning") {
  std::mt19937 random(gradus_test::fresh_seed());
  const auto tokenizer = gr::read_wordpiece_json(data + "wordpiece.json");
  for (int round = 0; round < 300; ++round) {
    std::string text(random() % 80, '\0');
    for (char& c : text) c = static_cast<char>(random());
    const ids all = tokenizer.encode(text);
    CHECK_NOTHROW((void)tokenizer.decode(all));
    const auto cut = tokenizer.model_input(text, 2 + random() % 20).ids;
    CHECK(std::equal(cut.begin() + 1, cut.end() - 1, all.begin()));
  }
}

TEST_CASE("a WordPiece tokenizer that cannot be is refused") {
  const auto refused = [](std::vector<std::string> tokens, std::vector<gr::added_token> added, const char* message) {
    CHECK_THROWS_WITH_AS(gr::wordpiece_tokenizer(std::move(tokens), std::move(added)), doctest::Contains(message),
                         gr::error);
  };
  refused({"[UNK]", "[CLS]"}, {}, "the vocabulary has no token '[SEP]'");
  refused({"[UNK]", "[CLS]", "[SEP]", "a", "a"}, {}, "the token 'a' occurs twice");
  refused({"[UNK]", "[CLS]", "[SEP]", "a"}, {{"a", 2}}, "the added token 'a' has the id 2, but in the vocabulary 3");
  refused({"[UNK]", "[CLS]", "[SEP]", "a"}, {{"b", 3}}, "the added token 'b' has the id 3 of 'a'");
  refused({"[UNK]", "[CLS]", "[SEP]"}, {{"", 3}}, "has no text or no id");
  CHECK_THROWS_WITH_AS((void)small().text_of(12), "wordpiece: the token 12 is outside the vocabulary of 12", gr::error);
  CHECK_THROWS_AS((void)small().decode(ids{-1}), gr::error);
}

TEST_CASE("a vocab.txt is read") {
  const auto path = std::filesystem::temp_directory_path() / "gradus_vocab.txt";
  gr::write_file_atomically(path, "[PAD]\n[UNK]\r\n[CLS]\n[SEP]\n[MASK]\nun\n##able\n");
  const auto tokenizer = gr::read_wordpiece_vocabulary(path);
  CHECK(tokenizer.vocabulary() == 7);
  CHECK(tokenizer.encode("Unable [MASK]") == ids{5, 6, 4});
  CHECK(gr::read_wordpiece_vocabulary(path, {.normalizer = {.lowercase = false}}).encode("Unable") == ids{1});
  gr::write_file_atomically(path, "[UNK]\n\xff\n");
  CHECK_THROWS_WITH_AS(gr::read_wordpiece_vocabulary(path), doctest::Contains("gradus_vocab.txt: line 2 is not UTF-8"),
                       gr::error);
  gr::write_file_atomically(path, "[UNK]\n[CLS]\n");
  CHECK_THROWS_WITH_AS(gr::read_wordpiece_vocabulary(path),
                       doctest::Contains("gradus_vocab.txt: wordpiece: the vocabulary has no token '[SEP]'"),
                       gr::error);
  std::filesystem::remove(path);
}

TEST_CASE("a tokenizer.json of another kind, or malformed, is refused in one line") {
  const auto refused = [](const std::function<void(json&)>& spoil, const char* message) {
    json file = json::parse(gr::wordpiece_json(small()));
    spoil(file);
    CHECK_THROWS_WITH_AS(gr::parse_wordpiece_json(file.dump(), "t.json"), doctest::Contains(message), gr::error);
  };
  refused([](json& f) { f["model"]["type"] = "BPE"; },
          "t.json: its model is of type BPE; WordPiece is needed here; read_tokenizer_json reads a byte-level BPE");
  refused([](json& f) { f["normalizer"]["type"] = "NFC"; }, "its normalizer is NFC; only BertNormalizer, or none");
  refused([](json& f) { f["normalizer"]["lowercase"] = 1; }, "normalizer.lowercase must be true or false");
  refused([](json& f) { f["pre_tokenizer"] = nullptr; }, "its pre_tokenizer is none; only BertPreTokenizer");
  refused([](json& f) { f["post_processor"] = nullptr; }, "its post_processor is none; BertProcessing or Template");
  refused([](json& f) { f["post_processor"]["pair"][3]["Sequence"]["type_id"] = 0; }, "with B in segment 1");
  refused([](json& f) { f["post_processor"]["single"].erase(0); }, "does not write [CLS] A [SEP]");
  refused([](json& f) { f["post_processor"]["special_tokens"]["[SEP]"]["ids"] = {4}; },
          R"(post_processor: "[SEP]" has the id 4, but is another token)");
  refused([](json& f) { f["post_processor"]["special_tokens"].erase("[CLS]"); }, R"("[CLS]" must have one id)");
  refused(
      [](json& f) {
        f["post_processor"] = {{"type", "BertProcessing"}, {"cls", {"[CLS]", 2}}};
      },
      "'cls' and 'sep' must be a token and its id each");
  refused([](json& f) { f["model"]["unk_token"] = 3; }, "model.unk_token must be a text");
  refused([](json& f) { f["model"]["unk_token"] = "?"; }, "t.json: wordpiece: the vocabulary has no token '?'");
  refused([](json& f) { f["model"]["max_input_chars_per_word"] = -1; }, "must be a whole number");
  refused([](json& f) { f["model"]["vocab"]["x"] = 1u << 30; }, "far outside a vocabulary of");
  refused([](json& f) { f["model"]["vocab"] = json::object(); }, "its vocabulary is empty");
  refused([](json& f) { f["added_tokens"][0]["lstrip"] = true; }, "'lstrip' is not supported");
  CHECK_THROWS_WITH_AS(gr::parse_wordpiece_json("[]", "t.json"), doctest::Contains("it is not a JSON object"),
                       gr::error);

  json file = json::parse(gr::wordpiece_json(small()));
  file["normalizer"] = nullptr;
  file["post_processor"] = {{"type", "BertProcessing"}, {"cls", {"[CLS]", 2}}, {"sep", {"[SEP]", 3}}};
  CHECK(gr::parse_wordpiece_json(file.dump()).model_input("un A").ids == ids{2, 4, 1, 3});
}
