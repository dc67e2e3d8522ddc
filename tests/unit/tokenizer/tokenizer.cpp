// The pipeline: ids and texts are those of Hugging Face's tokenizers, which tests/parity/make_tokenizer_fixtures.py
// recorded.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <gradus/io/atomic_file.hpp>
#include <gradus/io/json.hpp>
#include <gradus/io/text_file.hpp>
#include <gradus/tokenizer/bert_tokenizer.hpp>
#include <gradus/tokenizer/tokenizer_json.hpp>
#include <gradus/tokenizer/tokenizer_trainer.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../../support/seed.hpp"

namespace gr = gradus;
using gr::broken_utf8;
using nlohmann::json;
using token = gr::tokenizer::token;
using list = std::vector<token>;

namespace {

const std::string data = GRADUS_TEST_DATA "/tokenizer/";

json read_json(const std::string& name) { return gr::parse_json(gr::read_text(data + name), name); }

std::string from_hex(const std::string& hex) {
  std::string text;
  for (std::size_t i = 0; i < hex.size(); i += 2) text += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return text;
}

std::vector<std::string> texts_of(const json& hex) {
  std::vector<std::string> all;
  for (const json& one : hex) all.push_back(from_hex(one));
  return all;
}

// Cases are [numbers of one text or two, most ids or 0, ids, segments or none for zeros, the decoded text or null].
void check_cases(const gr::tokenizer& by, const json& cases, const std::vector<std::string>& texts) {
  REQUIRE(!cases.empty());
  for (const json& c : cases) {
    const std::size_t most = c[1].get<std::size_t>() == 0 ? gr::tokenizer::no_limit : c[1].get<std::size_t>();
    const std::string& first = texts[c[0][0]];
    const auto input = c[0].size() == 1 ? by.input(first, most) : by.input(first, texts[c[0][1]], most);
    INFO("text " << c[0].dump() << ", at most " << c[1].dump());
    CHECK(input.ids == c[2].get<list>());
    CHECK(input.segments == (c[3].empty() ? list(input.ids.size()) : c[3].get<list>()));
    const std::string decoded = c[4].is_null() ? gr::unicode::replace_broken(first) : from_hex(c[4]);
    CHECK(by.decode(input.ids, broken_utf8::replace) == decoded);
  }
}

// What needs PCRE2 is refused without it.
bool can_read(const std::string& file) {
  try {
    gr::parse_tokenizer_json(file);
  } catch (const gr::error& e) {
    if (std::string(e.what()).find("GRADUS_WITH_PCRE2") != std::string::npos) return false;
    throw;
  }
  return true;
}

gr::tokenizer fixture() { return gr::read_tokenizer_json(data + "tokenizer.json"); }

std::string random_text(std::mt19937& random, std::size_t pieces) {
  static constexpr std::array samples{"a",
                                      "b",
                                      "ab",
                                      "the",
                                      "'s",
                                      "'ll",
                                      "1234",
                                      "\r\n",
                                      "!",
                                      " ",
                                      " ",
                                      " ",
                                      "  ",
                                      "\n",
                                      "\t",
                                      "7",
                                      "42",
                                      "\xc2\xa0",
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

}  // namespace

TEST_CASE("each family's ids, segments and decoded texts are those of Hugging Face's tokenizers") {
  const json cases = read_json("family_cases.json");
  const auto texts = texts_of(cases["texts"]);
  CHECK(cases.size() == 17);
  for (const auto& [name, own] : cases.items()) {
    if (name == "texts") continue;
    INFO(name);
    const std::string file = gr::read_text(data + name + ".json");
    if (!can_read(file)) continue;
    const gr::tokenizer by = gr::parse_tokenizer_json(file, name);
    check_cases(by, own, texts);
    const gr::tokenizer again = gr::parse_tokenizer_json(gr::tokenizer_json(by), "written");
    CHECK(gr::tokenizer_json(again) == gr::tokenizer_json(by));
    check_cases(again, own, texts);
  }
}

TEST_CASE("each part alone does what Hugging Face's does") {
  const json cases = read_json("part_cases.json");
  const auto texts = texts_of(cases["texts"]), apart = texts_of(cases["apart"]);
  CHECK(cases["parts"].size() > 70);
  for (const json& part : cases["parts"]) {
    const auto name = part[0].get<std::string>();
    INFO(name);
    json file = cases["base"];
    for (const auto& [key, value] : part[1].items()) file[key] = value;
    if (!can_read(file.dump())) continue;
    const gr::tokenizer by = gr::parse_tokenizer_json(file.dump());
    check_cases(by, part[2], name.starts_with("decoder") ? apart : texts);
    CHECK(gr::tokenizer_json(gr::parse_tokenizer_json(gr::tokenizer_json(by))) == gr::tokenizer_json(by));
  }
}

TEST_CASE("ids are those for the text with broken UTF-8 replaced") {
  const json cases = read_json("cases.json");
  CHECK(fixture().vocabulary() == 700);
  check_cases(fixture(), cases["cases"], texts_of(cases["texts"]));
}

TEST_CASE("what ends and begins a text is known, and each token's bytes") {
  const auto llama = gr::read_tokenizer_json(data + "llama3.json");
  CHECK(llama.begin_token() == llama.id_of("<|begin_of_text|>"));
  CHECK(llama.end_token() == llama.id_of("<|end_of_text|>"));
  // No merges make this word, so it is one token only where words may be tokens.
  CHECK(llama.encode(" wonderful").size() == 1);
  CHECK(llama.encode(" wonderfully").size() > 1);
  CHECK(llama.bytes_of(llama.encode(" wonderful")[0]) == " wonderful");
  const auto older = gr::read_tokenizer_json(data + "llama2.json");
  CHECK(older.begin_token() == older.id_of("<s>"));
  CHECK(older.end_token() == older.id_of("</s>"));
  CHECK(older.bytes_of(*older.id_of("<0xC3>")) == "\xc3");
  CHECK(older.bytes_of(*older.id_of("▁")) == " ");
  const auto bert = gr::read_tokenizer_json(data + "bert.json");
  CHECK(bert.begin_token() == bert.id_of("[CLS]"));
  CHECK_FALSE(bert.end_token().has_value());
  CHECK_FALSE(gr::byte_level_tokenizer().begin_token().has_value());
}

TEST_CASE("the tokens of a text, one after the other, give its bytes") {
  std::mt19937 random(gradus_test::fresh_seed());
  const std::vector<std::string> names{"tokenizer", "gpt2", "smollm", "llama3", "llama2", "mistral", "gemma", "phi2"};
  for (const std::string& name : names) {
    const auto by = gr::read_tokenizer_json(data + name + ".json");
    for (int round = 0; round < 30; ++round) {
      const std::string text = gr::unicode::replace_broken(random_text(random, random() % 40));
      std::string bytes;
      for (const token t : by.encode("." + text)) bytes += by.bytes_of(t);
      INFO(name);
      // The first token of Llama 2's kind has a space of its own.
      CHECK(bytes.substr(bytes.starts_with(' ') ? 2 : 1) == text);
    }
  }
}

TEST_CASE("the merges are those of the plain algorithm, for any text and any tokenizer") {
  std::mt19937 random(gradus_test::fresh_seed());
  for (int round = 0; round < 30; ++round) {
    const auto pattern = static_cast<gr::word_pattern>(round % 3);
    const auto by =
        gr::train_tokenizer(random_text(random, 300), {.vocabulary = 257 + random() % 100, .pattern = pattern});
    const auto& model = std::get<gr::token_models::bpe>(by.parts().model);
    gr::token_encoder encoder(by);  // one for all texts: words it remembers are encoded the same
    for (int i = 0; i < 10; ++i) {
      const std::string text = random_text(random, random() % 60);
      list ids, expected;
      encoder.encode(text, [&](std::span<const token> some) { ids.insert(ids.end(), some.begin(), some.end()); });
      gr::word_splitter words(text, pattern);
      for (auto word = words.next(); !word.empty(); word = words.next()) {
        std::vector<std::string> symbols;
        for (const char c : word) symbols.push_back(gr::detail::as_byte_characters(std::string(1, c)));
        for (bool merged = true; merged;) {
          merged = false;
          for (const auto& [left, right] : model.merges) {
            const auto pair = std::ranges::adjacent_find(
                symbols, [&](const std::string& a, const std::string& b) { return a == left && b == right; });
            if (pair == symbols.end()) continue;
            *pair += right;
            symbols.erase(pair + 1);
            merged = true;
            break;
          }
        }
        for (const std::string& s : symbols) expected.push_back(*model.vocab.find(s));
      }
      CHECK(ids == expected);
    }
  }
}

TEST_CASE("a text that is spelled whole is spelled in parts, where no merge crosses, with the same ids") {
  std::mt19937 random(gradus_test::fresh_seed());
  for (const char* name : {"llama2.json", "mistral.json"}) {
    const auto by = gr::read_tokenizer_json(data + name);
    const auto& model = std::get<gr::token_models::bpe>(by.parts().model);
    const std::string train = gr::read_text(data + "train.txt");
    for (int round = 0; round < 30; ++round) {
      std::string text = gr::unicode::replace_broken(train.substr(random() % train.size(), random() % 400) +
                                                     random_text(random, random() % 90));
      if (text.empty()) continue;
      const auto ids = by.encode(text, {.added_tokens = false});
      if (name[0] == 'l') gr::normalizers::prepend{"▁"}(text);
      gr::normalizers::replace{gr::text_pattern(" "), "▁"}(text);
      if (name[0] == 'm' && !text.starts_with("▁")) text.insert(0, "▁");
      list whole;
      gr::detail::spelling_scratch scratch;
      model.spell(text, whole, scratch);
      CHECK(ids == whole);
    }
  }
}

TEST_CASE("any bytes come back from their tokens, kept or replaced, and are counted") {
  std::mt19937 random(gradus_test::fresh_seed());
  const auto by = fixture();
  for (int round = 0; round < 100; ++round) {
    const std::string text =
        round % 2 == 0 ? random_bytes(random, random() % 300) : random_text(random, random() % 100);
    CHECK(by.decode(by.encode(text)) == text);
    CHECK(by.decode(by.encode(text, {.broken = broken_utf8::replace})) == gr::unicode::replace_broken(text));
  }
  gr::token_encoder encoder(by);
  encoder.encode("caf\xe9 noir \xff\xff", [](std::span<const token>) {});
  CHECK(encoder.broken() == 3);
  // Where tokens are of characters, bytes that are none cannot be kept.
  CHECK(gr::read_tokenizer_json(data + "llama2.json").encode("a\xff") ==
        gr::read_tokenizer_json(data + "llama2.json").encode("a\uFFFD"));
}

TEST_CASE("a word of a million letters is encoded in no more than its share of time and memory") {
  const std::string text(1000000, 'a');
  CHECK(fixture().decode(fixture().encode(text)) == text);
  const auto older = gr::read_tokenizer_json(data + "llama2.json");
  CHECK(older.decode(older.encode(text)) == text);
}

TEST_CASE("added tokens are found, the longest first, and left alone where that is asked for") {
  auto parts = gr::byte_level_tokenizer().parts();
  parts.added_tokens = {{"<a>", 256}, {"<a><b>", 257}, {"end", 258, false, true}, {"<b>", 259, true, true}};
  const gr::tokenizer by(parts);
  const token x = 'x';
  CHECK(by.encode("x<a>x") == list{x, 256, x});
  CHECK(by.encode("<a><a><b>end") == list{256, 257, 258});
  CHECK(by.encode("<b><a>") == list{259, 256});
  CHECK(by.encode("<a") == list{'<', 'a'});
  CHECK(by.encode("end", {.added_tokens = false}) == list{'e', 'n', 'd'});
  CHECK(by.decode(list{256, 258, x}) == "<a>endx");
  CHECK(by.id_of("end") == 258);
  CHECK_FALSE(by.id_of("none").has_value());
}

TEST_CASE("texts get their special tokens, and are cut to a length, the longer of a pair first") {
  const gr::tokenizer by(gr::bert_parts(
      gr::token_table({"[PAD]", "[UNK]", "[CLS]", "[SEP]", "un", "##aff", "##able", "able", ",", "a", "##a"})));
  CHECK(by.encode("unaffable, able") == list{4, 5, 6, 8, 7});
  CHECK(by.encode("unaffabl un") == list{1, 4});  // all of the word is unknown
  CHECK(by.encode("").empty());
  CHECK(by.encode(std::string(100, 'a')).size() == 100);
  CHECK(by.encode(std::string(101, 'a')) == list{1});
  CHECK(by.decode(list{2, 4, 5, 6, 8, 7, 3}) == "[CLS] unaffable, able [SEP]");
  const auto one = by.input("a a a a", 5);
  CHECK(one.ids == list{2, 9, 9, 9, 3});
  const auto two = by.input("a a a a", "un", 6);
  CHECK(two.ids == list{2, 9, 9, 3, 4, 3});
  CHECK(two.segments == list{0, 0, 0, 0, 1, 1});
  CHECK(by.input("a a a a", "un un un un", 8).ids == list{2, 9, 9, 3, 4, 4, 4, 3});
  CHECK(by.input("", "", 3).ids == list{2, 3, 3});
  CHECK_THROWS_WITH_AS((void)by.input("a", 1), "a length of 1 has no room for the 2 special tokens", gr::error);
  CHECK_THROWS_WITH_AS((void)by.input("a", "a", 2), "a length of 2 has no room for the 3 special tokens", gr::error);
}

TEST_CASE("a vocab.txt is read") {
  const auto path = std::filesystem::temp_directory_path() / "gradus_vocab.txt";
  gr::write_file_atomically(path, "[PAD]\n[UNK]\r\n[CLS]\n[SEP]\n[MASK]\nun\n##able\n");
  const auto by = gr::read_bert_vocabulary(path);
  CHECK(by.vocabulary() == 7);
  CHECK(by.encode("Unable [MASK]") == list{5, 6, 4});
  CHECK(gr::read_bert_vocabulary(path, {.lowercase = false}).encode("Unable") == list{1});
  gr::write_file_atomically(path, "[UNK]\n\xff\n");
  CHECK_THROWS_WITH_AS(gr::read_bert_vocabulary(path), doctest::Contains("gradus_vocab.txt: line 2 is not UTF-8"),
                       gr::error);
  gr::write_file_atomically(path, "[UNK]\n[CLS]\n");
  CHECK_THROWS_WITH_AS(gr::read_bert_vocabulary(path),
                       doctest::Contains("gradus_vocab.txt: the token \"[SEP]\" is not in the vocabulary"), gr::error);
  std::filesystem::remove(path);
}

TEST_CASE("threads may share a tokenizer") {
  const auto by = fixture();
  const std::string text = gr::read_text(data + "train.txt");
  const auto expected = by.encode(text);
  std::vector<list> found(4);
  std::vector<std::thread> threads;
  for (auto& ids : found) threads.emplace_back([&] { ids = by.encode(text); });
  for (auto& t : threads) t.join();
  for (const auto& ids : found) CHECK(ids == expected);
}

TEST_CASE("parts that cannot work are refused") {
  const auto refused = [](const std::function<void(gr::tokenizer_parts&)>& spoil, const char* message) {
    gr::tokenizer_parts parts = gr::byte_level_tokenizer().parts();
    spoil(parts);
    CHECK_THROWS_WITH_AS(gr::tokenizer(std::move(parts)), doctest::Contains(message), gr::error);
  };
  const auto added = [&](std::vector<gr::added_token> tokens, const char* message) {
    refused([&](gr::tokenizer_parts& parts) { parts.added_tokens = tokens; }, message);
  };
  added({{"x", 300}}, "the added token \"x\" has the id 300, and not 120, as in the vocabulary");
  added({{"new", 300}}, "the added token \"new\" has the id 300, and not 256, the one after the others");
  added({{"new", 256}, {"new", 257}}, "the added token \"new\" occurs twice");
  added({{"", 256}}, "an added token has no text");
  const auto merges = [&](std::vector<std::array<std::string, 2>> all, const char* message) {
    refused([&](gr::tokenizer_parts& parts) { std::get<gr::token_models::bpe>(parts.model).merges = all; }, message);
  };
  merges({{"a", "b"}}, "merge 1: \"ab\" is not in the vocabulary");
  merges({{"a", "none"}}, "merge 1: \"none\" is not in the vocabulary");
  refused(
      [](gr::tokenizer_parts& parts) {
        auto& model = std::get<gr::token_models::bpe>(parts.model);
        model.vocab.add("ab", 256);
        model.merges = {{"a", "b"}, {"a", "b"}};
      },
      "merge 2: \"a b\" occurs twice");
  refused(
      [](gr::tokenizer_parts& parts) {
        parts.post_processors = {gr::post_processors::bert{{"[SEP]", 999}, {"a", 97}}};
      },
      "the token 999 is outside the vocabulary of 256");
  refused(
      [](gr::tokenizer_parts& parts) {
        gr::normalizers::precompiled rules;
        rules.charsmap = "abc";
        parts.normalizers = {rules};
      },
      "its charsmap of 3 bytes has no trie");
  refused([](gr::tokenizer_parts& parts) { parts.normalizers = {gr::normalizers::replace{}}; }, "the pattern is empty");
  const auto by = gr::byte_level_tokenizer();
  CHECK_THROWS_WITH_AS((void)by.decode(list{5, 256}), "the token 256 is outside the vocabulary of 256", gr::error);
  CHECK_THROWS_AS((void)by.bytes_of(-1), gr::error);
}

TEST_CASE("what a tokenizer makes of a text is bounded by the text's size") {
  using parts = gr::tokenizer_parts;
  const auto by = [](const auto& change) {
    parts made = gr::byte_level_tokenizer().parts();
    change(made);
    return gr::tokenizer(std::move(made));
  };
  const auto longer = [](std::size_t bytes) {
    return gr::normalizers::replace{gr::text_pattern("a"), std::string(bytes, 'a')};
  };
  const std::string text(1000, 'a');
  CHECK(by([&](parts& p) { p.normalizers = {longer(16), longer(2)}; }).encode(text).size() == 32'000);
  for (const std::size_t each : {3, 10, 1'000'000})
    CHECK_THROWS_WITH_AS((void)by([&](parts& p) {
                           p.normalizers = {longer(each), longer(20)};
                         }).encode(text),
                         "the tokenizer's normalizers make more than 32256 bytes of a text; they may make 32 times its "
                         "size and 256 bytes",
                         gr::error);
  CHECK_THROWS_WITH_AS(
      (void)by([&](parts& p) { p.normalizers = {gr::normalizers::prepend{std::string(3000, 'a')}}; }).encode("a"),
      doctest::Contains("make more than 288 bytes"), gr::error);
  const auto decoding = by([&](parts& p) {
    p.decoders.clear();
    for (int i = 0; i < 9; ++i) p.decoders.push_back(gr::decoders::replace{longer(10)});
  });
  CHECK_THROWS_WITH_AS((void)decoding.decode(list{97}), doctest::Contains("the tokenizer's decoders make more than"),
                       gr::error);
  CHECK_THROWS_WITH_AS(by([](parts& p) { p.pre_tokenizers.assign(5, gr::pre_tokenizers::byte_level{}); }),
                       doctest::Contains("more than 4 ByteLevel pre-tokenizers"), gr::error);
  CHECK_THROWS_WITH_AS(by([](parts& p) {
                         gr::post_processors::template_processing all{
                             {{gr::template_piece::first_text}},
                             {{gr::template_piece::first_text}, {gr::template_piece::second_text}},
                             {{"x", list(100, 97)}}};
                         for (int i = 0; i < 11; ++i) all.single.push_back({gr::template_piece::special, "x"});
                         p.post_processors = {all};
                       }),
                       "a template has 1100 special tokens; 1024 may be", gr::error);
}
