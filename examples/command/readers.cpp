#include "readers.hpp"

#include <gradus/data/bpe.hpp>
#include <gradus/data/text.hpp>
#include <gradus/data/tokenizer_json.hpp>
#include <gradus/io/json.hpp>
#include <gradus/io/safetensors.hpp>

#include "../gpt/tools/gguf.hpp"

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

std::size_t count_tokens(const std::filesystem::path& tokenizer) {
  return gr::read_tokenizer_json(tokenizer).vocabulary();
}

}  // namespace command
