// Tokenizers in GGUF files: what llama.cpp tokenizes otherwise is refused, and its defaults are those of a file that
// does not say. tests/parity/compare_gguf.py holds both against llama.cpp.
#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include <gradus/io/text_file.hpp>
#include <gradus/tokenizer/tokenizer_json.hpp>

#include "../support/message_of.hpp"
#include "../support/scratch_folder.hpp"
#include "gpt/tools/gguf.hpp"

namespace gr = gradus;
namespace fs = std::filesystem;
using gradus_test::message_of, gradus_test::scratch_folder;
using nlohmann::json;

namespace {

const fs::path data = GRADUS_TEST_DATA;
const json replace = json::parse(R"({"type": "Replace", "pattern": {"String": " "}, "content": "▁"})");
const json prefixed{{"type", "Sequence"}, {"normalizers", {{{"type", "Prepend"}, {"prepend", "▁"}}, replace}}};
json metaspace(const char* scheme) {
  return {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", scheme}, {"split", false}};
}
json added(const std::string& content, std::size_t id) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

// A SentencePiece BPE with all bytes.
json sentence_piece() {
  json vocab{{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}};
  for (unsigned b = 0; b < 256; ++b) {
    const char* digits = "0123456789ABCDEF";
    vocab[std::string("<0x") + digits[b / 16] + digits[b % 16] + ">"] = 3 + b;
  }
  for (const char* token : {"▁", "a", "b", "▁a", "ab", "▁ab"}) vocab[token] = vocab.size();
  return {{"added_tokens", {added("<unk>", 0), added("<s>", 1), added("</s>", 2)}},
          {"normalizer", prefixed},
          {"pre_tokenizer", nullptr},
          {"post_processor", nullptr},
          {"model",
           {{"type", "BPE"},
            {"byte_fallback", true},
            {"unk_token", "<unk>"},
            {"vocab", vocab},
            {"merges", {"a b", "▁ a", "▁ ab", "▁a b"}}}}};
}

// What is said of a tokenizer.json that is to be written, behind its name.
std::string refusal(const json& tokenizer, std::size_t vocabulary = 300) {
  const scratch_folder place;
  std::ofstream(place.path / "tokenizer.json") << tokenizer.dump();
  gr::gguf_writer to;
  const std::string said = message_of([&] { gpt::set_gguf_tokenizer(to, place.path, json::object(), vocabulary); });
  const std::string name = (place.path / "tokenizer.json").string() + ": ";
  return said.starts_with(name) ? said.substr(name.size()) : said;
}
const std::string accepted = "nothing was thrown";

// A GGUF file's metadata.
struct metadata {
  std::vector<std::pair<std::string, gr::gguf_value>> all;
  metadata& set(const std::string& key, gr::gguf_value value) {
    all.emplace_back("tokenizer." + key, std::move(value));
    return *this;
  }
  template <class T>
  metadata& set(const std::string& key, std::vector<T> values) {
    return set(key, gr::gguf_value(gr::gguf_list(std::move(values))));
  }
  metadata& set(const std::string& key, const char* text) { return set(key, gr::gguf_value(std::string(text))); }
  void write(const fs::path& path) const {
    gr::gguf_writer to;
    for (const auto& [key, value] : all) to.set(key, value);
    to.write(path);
  }
};
metadata byte_level(const char* rules, const std::vector<std::string>& tokens) {
  return metadata()
      .set("ggml.model", "gpt2")
      .set("ggml.pre", rules)
      .set("ggml.tokens", tokens)
      .set("ggml.token_type", std::vector<std::int32_t>(tokens.size(), 1))
      .set("ggml.merges", std::vector<std::string>{});
}
metadata pieces(const std::vector<std::string>& tokens) {
  return metadata()
      .set("ggml.model", "llama")
      .set("ggml.tokens", tokens)
      .set("ggml.token_type", std::vector<std::int32_t>(tokens.size(), 1))
      .set("ggml.scores", std::vector<float>(tokens.size(), 0.0f));
}
// The tokenizer that is read in it; or what is said of it, behind its name.
json read(const metadata& of) {
  const scratch_folder place;
  of.write(place.path / "x.gguf");
  gpt::write_tokenizer_of_gguf(gr::gguf_file(place.path / "x.gguf"), 64, place.path);
  return gr::parse_json(gr::read_text(place.path / "tokenizer.json"), "tokenizer.json");
}
std::string complaint(const metadata& of) {
  const std::string said = message_of([&] { read(of); });
  return said.substr(said.find(".gguf: ") + 7);
}
// The ids of a text by it.
std::vector<std::int32_t> ids(const metadata& of, const std::string& text) {
  const scratch_folder place;
  std::ofstream(place.path / "tokenizer.json") << read(of).dump();
  const auto found = gr::read_tokenizer_json(place.path / "tokenizer.json").input(text).ids;
  return {found.begin(), found.end()};
}

}  // namespace

TEST_CASE("of the rules for blanks, those that llama.cpp has are written: before each part of a text, or nowhere") {
  const auto rules = [](const json& normalizer, const json& pre_tokenizer) {
    json tokenizer = sentence_piece();
    tokenizer["normalizer"] = normalizer;
    tokenizer["pre_tokenizer"] = pre_tokenizer;
    return refusal(tokenizer);
  };
  CHECK(rules(prefixed, nullptr) == accepted);
  CHECK(rules(replace, nullptr) == accepted);
  CHECK(rules(nullptr, metaspace("never")) == accepted);
  for (const char* scheme : {"first", "always"})
    CHECK(rules(nullptr, metaspace(scheme)).starts_with("GGUF cannot express its 'normalizer' and 'pre_tokenizer': "));
  json split = metaspace("never");
  split["split"] = true;
  CHECK(rules(nullptr, split).starts_with("GGUF cannot express"));
}

TEST_CASE("an added token that llama.cpp would look for otherwise is refused by name") {
  for (const char* key : {"lstrip", "rstrip", "single_word"}) {
    json tokenizer = sentence_piece();
    tokenizer["added_tokens"][2][key] = true;
    CHECK(refusal(tokenizer) == "'</s>' has " + std::string(key) + ", which GGUF cannot express");
  }
  const auto normalized = [](const std::string& content, const json& normalizer) {
    json tokenizer = sentence_piece();
    tokenizer["normalizer"] = normalizer;
    tokenizer["pre_tokenizer"] = normalizer.is_null() ? metaspace("never") : json();
    tokenizer["added_tokens"].push_back(added(content, 280));
    tokenizer["added_tokens"][3]["normalized"] = true;
    return refusal(tokenizer);
  };
  const std::string wrong = "' is looked for in normalized text (normalized is true), which GGUF cannot express";
  CHECK(normalized("<x>", prefixed) == "'<x>" + wrong);
  CHECK(normalized("<x>", replace) == accepted);
  CHECK(normalized("x y", replace) == "'x y" + wrong);
  CHECK(normalized("▁▁", replace) == "'▁▁" + wrong);
  CHECK(normalized("x y", nullptr) == accepted);
}

TEST_CASE("no two tokens of a GGUF file have one text") {
  json tokenizer = sentence_piece();
  tokenizer["model"]["vocab"]["[PAD299]"] = 298;
  const scratch_folder place;
  std::ofstream(place.path / "tokenizer.json") << tokenizer.dump();
  gr::gguf_writer to;
  gpt::set_gguf_tokenizer(to, place.path, json::object(), 300);
  to.write(place.path / "x.gguf");
  const auto tokens = gr::gguf_file(place.path / "x.gguf").list<std::string>("tokenizer.ggml.tokens");
  CHECK(tokens[298] == "[PAD299]");
  CHECK(tokens[299] == "[PAD299]_");
  tokenizer["added_tokens"].push_back(added("ab", 299));
  CHECK(refusal(tokenizer) == "'ab' has the ids 263 and 299");
}

TEST_CASE("what llama.cpp cannot put around a text is refused") {
  const auto around = [](const json& post_processor) {
    json tokenizer = sentence_piece();
    tokenizer["post_processor"] = post_processor;
    return refusal(tokenizer);
  };
  const json begin{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
      text{{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  CHECK(around({{"type", "TemplateProcessing"}, {"single", {text}}}) == accepted);
  CHECK(around({{"type", "TemplateProcessing"}, {"single", {begin, begin, text}}}) ==
        "'post_processor' puts more than one token before or after a text, which GGUF cannot express");
  CHECK(around({{"type", "TemplateProcessing"}, {"single", {text, begin, begin}}}) ==
        "'post_processor' puts more than one token before or after a text, which GGUF cannot express");
  CHECK(around({{"type", "RobertaProcessing"}, {"sep", {"</s>", 2}}, {"cls", {"<s>", 1}}}) ==
        "'post_processor': GGUF cannot express \"RobertaProcessing\"");
}

TEST_CASE("a SentencePiece tokenizer that llama.cpp would take for another one is refused") {
  json tokenizer = sentence_piece();
  CHECK(refusal(tokenizer) == accepted);
  tokenizer["model"]["ignore_merges"] = true;
  CHECK(refusal(tokenizer) == "'ignore_merges' is true where false is needed");
  tokenizer = sentence_piece();
  tokenizer["model"]["merges"] = {"a b", "▁ ab", "▁ a", "▁a b"};
  CHECK(refusal(tokenizer) == "its merges into '▁ab' do not follow each other, as SentencePiece's do");
  tokenizer = sentence_piece();
  tokenizer["model"]["vocab"].erase("<0x41>");
  CHECK(refusal(tokenizer) == "'byte_fallback' is true, and there is no token <0x41>");
  tokenizer = sentence_piece();
  tokenizer["model"]["vocab"]["<|im_end|>"] = 290;
  CHECK(refusal(tokenizer) ==
        "'<|im_end|>' is not among the 'added_tokens', and llama.cpp takes it for a special token");
}

TEST_CASE("a text begins with the token that llama.cpp puts there where a GGUF file does not say it") {
  const std::vector<std::string> tokens{"a", "b", "<s>"};
  const auto begins = [&](const metadata& of) { return ids(of, "ab"); };
  using list = std::vector<std::int32_t>;
  for (const char* rules : {"llama-bpe", "llama3", "llama-v3"}) {
    CAPTURE(rules);
    CHECK(begins(byte_level(rules, tokens).set("ggml.bos_token_id", 2u)) == list{2, 0, 1});
    CHECK(begins(byte_level(rules, tokens).set("ggml.bos_token_id", 2u).set("ggml.add_bos_token", false)) ==
          list{0, 1});
    CHECK(complaint(byte_level(rules, tokens)) ==
          "puts a token around each text, and has no 'tokenizer.ggml.bos_token_id'");
  }
  for (const char* rules : {"gpt-2", "smollm", "dbrx", "qwen2", "phi-2", "smaug-bpe", "deepseek-r1-qwen"}) {
    CAPTURE(rules);
    CHECK(begins(byte_level(rules, tokens).set("ggml.bos_token_id", 2u)) == list{0, 1});
    CHECK(begins(byte_level(rules, tokens).set("ggml.bos_token_id", 2u).set("ggml.add_bos_token", true)) ==
          list{2, 0, 1});
  }
  // SentencePiece's: <unk>, <s> and </s> are 0, 1 and 2 where no key says otherwise.
  const metadata of = pieces({"<unk>", "<s>", "</s>", "a", "▁", "b"}).set("ggml.add_space_prefix", false);
  CHECK(begins(of) == list{1, 3, 5});
  CHECK(read(of)["model"]["unk_token"] == "<unk>");
  CHECK(begins(metadata(of).set("ggml.bos_token_id", 4u)) == list{4, 3, 5});
}

TEST_CASE("a token that llama.cpp knows by its spelling is one token, whatever its type in a GGUF file") {
  for (const char* spelling : {"<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|endoftext|>", "</s>", "<|channel|>",
                               "<|fim_prefix|>", "<|file_sep|>", "[PAD]"}) {
    CAPTURE(spelling);
    std::vector<std::string> tokens{"a", "b", spelling};
    for (const char c : std::string("<|/>[]_")) tokens.emplace_back(1, c);
    CHECK(ids(byte_level("gpt-2", tokens), std::string("a") + spelling + "b") == std::vector<std::int32_t>{0, 2, 1});
    CHECK(read(byte_level("gpt-2", tokens))["added_tokens"][0]["special"] == true);
  }
  // A key names another token of this kind.
  const metadata of = byte_level("gpt-2", {"<", "P", "A", "D", ">", "<PAD>"});
  CHECK(ids(of, "<PAD>") == std::vector<std::int32_t>{5});
  CHECK(ids(metadata(of).set("ggml.fim_pad_token_id", 1u), "<PAD>") == std::vector<std::int32_t>{0, 1, 2, 3, 4});
}

TEST_CASE("a tokenizer in a GGUF file that is no text, or no number, is refused in one line") {
  CHECK(complaint(byte_level("gpt-2", {"a", "\xff\xfe"})) == "'tokenizer.ggml.tokens': the text 1 is not UTF-8");
  CHECK(complaint(pieces({"\xff\xfe", "a"})) == "'tokenizer.ggml.tokens': the text 0 is not UTF-8");
  CHECK(complaint(byte_level("gpt-2", {"a", "b"}).set("chat_template", "\xff")) ==
        "'tokenizer.chat_template' is not UTF-8");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(complaint(byte_level("gpt-2", {"a"}).set("ggml.bos_token_id", nan)) ==
        "'tokenizer.ggml.bos_token_id' is not a whole number below 2^32");
  CHECK(complaint(byte_level("gpt-2", {"a"}).set("ggml.bos_token_id", -5)) ==
        "'tokenizer.ggml.bos_token_id' is not a whole number below 2^32");
  const metadata of = metadata()
                          .set("ggml.model", "llama")
                          .set("ggml.tokens", std::vector<std::string>{"a", "aa"})
                          .set("ggml.token_type", std::vector<std::int32_t>{1, 1})
                          .set("ggml.scores", std::vector<float>{0, static_cast<float>(nan)});
  CHECK(complaint(of) == "'tokenizer.ggml.scores' has a NaN");
}
