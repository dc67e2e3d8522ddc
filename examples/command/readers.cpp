#include "readers.hpp"

#include <optional>
#include <set>
#include <type_traits>
#include <variant>

#include <gradus/data/text_examples.hpp>
#include <gradus/data/token_examples.hpp>
#include <gradus/io/json.hpp>
#include <gradus/io/safetensors.hpp>
#include <gradus/io/text_file.hpp>
#include <gradus/tokenizer/tokenizer_json.hpp>

#include "../bert/families.hpp"
#include "../gpt/model_folder.hpp"
#include "../gpt/tools/gguf.hpp"
#include "../llama/config_json.hpp"

namespace command {

namespace gr = gradus;

namespace {

facts facts_in(const nlohmann::json& values) {
  facts all;
  for (const auto& [name, value] : values.items()) {
    if (value.is_null()) continue;
    if (value.is_boolean()) all[name] = value.get<bool>() ? "1" : "0";
    else if (value.is_string()) all[name] = value.get<std::string>();
    else all[name] = value.is_structured() ? std::to_string(value.size()) : value.dump();
    if (value.is_array() && !value.empty() && value.front().is_string())
      all[name + "[0]"] = value.front().get<std::string>();
  }
  return all;
}

}  // namespace

facts read_json_object(const std::filesystem::path& file) {
  const nlohmann::json values = gr::parse_json(gr::read_text(file), file.string());
  if (!values.is_object()) throw gr::error(file.string() + ": is not a JSON object");
  return facts_in(values);
}

facts read_gguf_config(const std::filesystem::path& file) {
  return facts_in(gpt::gguf_config(gpt::gguf_tensors(file)));
}

facts read_metadata(const std::filesystem::path& file) {
  const gr::safetensors_file from(file);
  return {from.metadata().begin(), from.metadata().end()};
}

facts read_llama_sizes(const std::filesystem::path& config) {
  const bool gguf = gpt::format_to_read(config) == gpt::model_format::gguf;
  const llama::config sizes =
      llama::read_config(gguf ? gpt::huggingface_config(config.string(), gpt::gguf_config(gpt::gguf_tensors(config)))
                              : gpt::huggingface_config(config))
          .sizes;
  facts all{{"architecture", sizes.name()}};
  for (const auto& [name, size] : sizes.named()) all[name] = std::to_string(size);
  return all;
}

std::string check_examples(const std::filesystem::path& file, const chat_source* chats) {
  std::optional<gr::chat_format> format;
  if (chats != nullptr && !chats->name.empty()) format = gr::chat_format_named(chats->name);
  else if (chats != nullptr && !chats->tokenizer_config.empty()) {
    try {
      format = gr::read_chat_format(chats->tokenizer_config);
    } catch (const gr::error&) {}  // a chat is then refused with the names of formats
  }
  gr::example_encoder encoder(nullptr, format);
  const auto check = [&]<class Content>(const Content& content) {
    if constexpr (std::is_same_v<Content, gr::chat_example>)
      if (chats != nullptr) encoder.encode(content);
  };
  std::size_t count = 0;
  gr::ignored_keys ignored;
  gr::read_text_examples(file, [&](gr::text_example&& example) {
    ++count;
    ignored.add(example);
    try {
      std::visit(
          [&]<class Content>(const Content& content) {
            if constexpr (std::is_same_v<Content, gr::preference_example>) {
              std::visit(check, content.chosen);
              std::visit(check, content.rejected);
            } else {
              check(content);
            }
          },
          example.content);
    } catch (const gr::error& e) { throw gr::error(example.where + ": " + e.what()); }
  });
  if (count == 0) throw gr::error(file.string() + ": has no examples");
  const std::string keys = ignored.text();
  return keys.empty() ? "" : file.string() + ": " + keys;
}

bool says_chat_format(const std::filesystem::path& folder) {
  if (!gpt::is_there(folder / "tokenizer_config.json") && !gpt::is_there(folder / "chat_template.jinja")) return false;
  return gr::read_chat_format(folder / "tokenizer_config.json").has_value();
}

void check_plain(const std::filesystem::path& config) { gpt::huggingface_config(config).check_is_plain(); }

std::vector<std::string> read_shards(const std::filesystem::path& index) {
  const gpt::huggingface_config file(index);
  const nlohmann::json map = file.value("weight_map");
  if (!map.is_object()) file.fail("has no 'weight_map'");
  std::set<std::string> all;
  for (const auto& entry : map) {
    if (!entry.is_string()) file.fail("'weight_map' must name files");
    all.insert(entry.get<std::string>());
  }
  return {all.begin(), all.end()};
}

bert::description read_encoder(const std::filesystem::path& folder, bool embeds) {
  return bert::describe(folder, embeds);
}

std::size_t count_tokens(const std::filesystem::path& tokenizer) {
  return gr::read_tokenizer_json(tokenizer).vocabulary();
}

}  // namespace command
