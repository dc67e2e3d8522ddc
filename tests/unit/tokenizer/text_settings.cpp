// What the files of a model's folder say of its texts.
#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <gradus/data/chat_format.hpp>
#include <gradus/data/token_examples.hpp>
#include <gradus/io/atomic_file.hpp>
#include <gradus/io/json.hpp>
#include <gradus/tokenizer/text_settings_json.hpp>
#include <gradus/tokenizer/text_tokenizer.hpp>
#include <gradus/tokenizer/tokenizer_json.hpp>
#include <map>
#include <string>
#include <vector>

namespace gr = gradus;
namespace fs = std::filesystem;
using nlohmann::json;
using ids = std::vector<std::int32_t>;

namespace {

const std::string data = GRADUS_TEST_DATA "/tokenizer/";

// A folder with a tokenizer of the fixtures and these files.
fs::path folder_of(const std::string& tokenizer, const std::map<std::string, json>& files) {
  const fs::path folder = fs::temp_directory_path() / "gradus_text_settings";
  fs::remove_all(folder);
  fs::create_directories(folder / "additional_chat_templates");
  fs::copy_file(data + tokenizer + ".json", folder / "tokenizer.json");
  for (const auto& [name, values] : files)
    gr::write_file_atomically(folder / name, values.is_string() ? values.get<std::string>() : values.dump());
  return folder;
}
gr::tokenizer tokenizer_with(const std::string& name, const std::map<std::string, json>& files) {
  return gr::read_tokenizer_json(folder_of(name, files) / "tokenizer.json");
}

}  // namespace

TEST_CASE("a text ends with the token that the model's files name, however the vocabulary spells others") {
  const auto id = [](const std::string& text) { return *gr::read_tokenizer_json(data + "llama3.json").id_of(text); };
  const auto end = [](const std::map<std::string, json>& files) { return tokenizer_with("llama3", files).end_token(); };
  const std::int32_t guessed = id("<|end_of_text|>"), named = id("<|begin_of_text|>");
  const json plain{{"eos_token", "<|begin_of_text|>"}};
  CHECK(end({}) == guessed);
  CHECK(end({{"tokenizer_config.json", {{"bos_token", "<|begin_of_text|>"}}}}) == guessed);
  CHECK(end({{"tokenizer_config.json", plain}}) == named);
  CHECK(end({{"tokenizer_config.json", {{"eos_token", {{"content", "<|begin_of_text|>"}, {"lstrip", false}}}}}}) ==
        named);
  CHECK(end({{"special_tokens_map.json", plain}}) == named);
  CHECK(end({{"config.json", {{"eos_token_id", named}}}}) == named);
  CHECK(end({{"config.json", {{"eos_token_id", json::array({named, guessed})}}}}) == named);
  CHECK(end({{"generation_config.json", {{"eos_token_id", named}}}}) == named);
  // The tokenizer's own end comes first; that there is none is said, too.
  CHECK(end({{"tokenizer_config.json", plain}, {"config.json", {{"eos_token_id", guessed}}}}) == named);
  CHECK_FALSE(end({{"config.json", {{"eos_token_id", nullptr}}}}).has_value());
  // As transformers reads the two: the map where the tokens are not listed.
  const json other{{"eos_token", "<|end_of_text|>"}};
  CHECK(end({{"tokenizer_config.json", other}, {"special_tokens_map.json", plain}}) == named);
  CHECK(end({{"tokenizer_config.json", {{"eos_token", "<|end_of_text|>"}, {"added_tokens_decoder", json::object()}}},
             {"special_tokens_map.json", plain}}) == guessed);
  CHECK_THROWS_WITH_AS(end({{"tokenizer_config.json", {{"eos_token", "<stop>"}}}}),
                       doctest::Contains("tokenizer.json: the eos_token \"<stop>\" of the files beside it is not one"),
                       gr::error);
  CHECK_THROWS_WITH_AS(end({{"generation_config.json", json::array({1})}}),
                       doctest::Contains("generation_config.json: is no JSON object"), gr::error);
}

TEST_CASE("generated text ends at each end of the model, and examples end with the tokenizer's") {
  const gr::tokenizer words = tokenizer_with("llama3", {{"tokenizer_config.json", {{"eos_token", "!"}}},
                                                        {"config.json", {{"eos_token_id", 5}}},
                                                        {"generation_config.json", {{"eos_token_id", {5, 7, 0}}}}});
  const std::int32_t end = *words.id_of("!");
  CHECK(words.end_tokens() == (end == 0 ? ids{5, 7, 0} : ids{end, 5, 7, 0}));
  const gr::text_tokenizer texts(words);
  for (const std::int32_t id : words.end_tokens()) CHECK(texts.ends_text(id));
  CHECK_FALSE(texts.ends_text(6));
  gr::example_encoder encoder(&words);
  CHECK(encoder.encode(gr::plain_example{"hello"}).tokens.back() == end);
  CHECK(encoder.encode(gr::completion_example{"hello", " there"}).tokens.back() == end);
}

TEST_CASE("a token is put before texts as add_bos_token says, if the files have it") {
  const auto begin = [](const char* tokenizer, const json& settings) {
    return tokenizer_with(tokenizer, {{"tokenizer_config.json", settings}}).begin_token().has_value();
  };
  const json bos{{"bos_token", "<|begin_of_text|>"}};
  const auto with = [](json all, const char* key, bool value) {
    all[key] = value;
    return all;
  };
  CHECK(begin("llama3", bos));
  CHECK_FALSE(begin("llama3", with(bos, "add_bos_token", false)));
  CHECK_FALSE(begin("llama3", with(bos, "add_eos_token", true)));
  CHECK_FALSE(begin("tokenizer", {{"bos_token", "<|endoftext|>"}}));
  CHECK(begin("tokenizer", with({{"bos_token", "<|endoftext|>"}}, "add_bos_token", true)));
}

TEST_CASE("chat_template.jinja comes before the key, and named templates are known by their names") {
  const std::string chatml = "<|im_start|> <|im_end|>", zephyr = "<|user|> <|system|> <|assistant|> eos_token";
  const json list = json::array({{{"name", "default"}, {"template", zephyr}}, {{"name", "rag"}, {"template", "r"}}});
  const auto format = [](const std::map<std::string, json>& files) {
    return gr::read_chat_format(folder_of("llama3", files) / "tokenizer_config.json")->name;
  };
  CHECK(format({{"tokenizer_config.json", {{"chat_template", list}}}}) == "zephyr");
  CHECK(format({{"tokenizer_config.json", {{"chat_template", list}}}, {"chat_template.jinja", chatml}}) == "chatml");
  CHECK(format({{"chat_template.jinja", chatml}}) == "chatml");
  const auto said = gr::read_text_settings(folder_of(
      "llama3", {{"tokenizer_config.json", {{"chat_template", list}}}, {"additional_chat_templates/tool.jinja", "t"}}));
  CHECK(said.chat_templates == std::map<std::string, std::string>{{"default", zephyr}, {"rag", "r"}, {"tool", "t"}});
}

TEST_CASE("what the files say is written into another folder, and read from there the same") {
  const gr::text_settings said = gr::read_text_settings(
      folder_of("llama3", {{"tokenizer_config.json", {{"eos_token", "!"}, {"padding_side", "left"}, {"own", {1, 2}}}},
                           {"special_tokens_map.json", {{"pad_token", "!"}}},
                           {"config.json", {{"eos_token_id", {1, 2}}, {"pad_token_id", nullptr}, {"width", 3}}},
                           {"generation_config.json", {{"temperature", 0.6}, {"eos_token_id", {2, 4}}}},
                           {"chat_template.jinja", "c\n"},
                           {"additional_chat_templates/tool.jinja", "t"}}));
  CHECK(said.files.at("token_ids.json") == "{\"eos_token_id\":[1,2],\"pad_token_id\":null}\n");
  const fs::path other = fs::temp_directory_path() / "gradus_text_settings_other";
  fs::remove_all(other);
  fs::create_directories(other);
  gr::write_text_settings(other, said);
  const gr::text_settings again = gr::read_text_settings(other);
  CHECK(again.files == said.files);
  CHECK(again.files.size() == 6);
  CHECK(again.end_ids == ids{1, 2, 4});
  CHECK(again.chat_templates == said.chat_templates);
  CHECK((again.end == "!" && again.pad == "!" && again.says_end));
}
