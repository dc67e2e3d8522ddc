#pragma once
// A Llama as Hugging Face's transformers stores it (../gpt/tools/huggingface_folder.hpp). Its matrices are [out, in],
// and ours [in, out].

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../gpt/tools/huggingface_folder.hpp"
#include "model.hpp"

namespace llama {

/// Where a LlamaForCausalLM of sizes C has our parameter `name`: "layers.3.self_attn.q_proj.weight", as [out, in], for
/// "blocks.3.attention.query.weight". Some files omit the prefix, "model.".
template <config C>
gpt::huggingface_tensor huggingface_place(std::string_view name, const std::string& prefix = "model.") {
  if (name == "output.weight") return {.name = "lm_head.weight", .rows = C.vocabulary};
  if (name == "tokens.weight") return {.name = prefix + "embed_tokens.weight", .rows = C.vocabulary};
  const bool matrix = name.starts_with("blocks.") && name.find(".norm") == name.npos;
  return {.name = prefix + gpt::renamed(std::string(name), {{".norm1.", ".input_layernorm."},
                                                            {".norm2.", ".post_attention_layernorm."},
                                                            {".attention.query.", ".self_attn.q_proj."},
                                                            {".attention.key.", ".self_attn.k_proj."},
                                                            {".attention.value.", ".self_attn.v_proj."},
                                                            {".attention.projection.", ".self_attn.o_proj."},
                                                            {".mlp.gate.", ".mlp.gate_proj."},
                                                            {".mlp.up.", ".mlp.up_proj."},
                                                            {".mlp.down.", ".mlp.down_proj."},
                                                            {"blocks.", "layers."}}),
          .transposed = matrix};
}

/// Throws gradus::error unless a folder's config.json describes a Llama of these sizes; `context` may be less than its
/// own.
inline void check_huggingface(const gpt::huggingface_config& file, const config& of) {
  file.check_text("model_type", "llama");
  file.check_size("num_hidden_layers", of.layers);
  file.check_size("num_attention_heads", of.heads);
  if (!file.value("num_key_value_heads").is_null() || of.kv_heads != of.heads)
    file.check_size("num_key_value_heads", of.kv_heads);
  file.check_size("hidden_size", of.width);
  file.check_size("intermediate_size", of.hidden);
  file.check_size("vocab_size", of.vocabulary);
  if (!file.value("head_dim").is_null()) file.check_size("head_dim", of.width / of.heads);
  if (file.number("max_position_embeddings", 2048) < static_cast<double>(of.context))
    file.fail("'max_position_embeddings' is " + file.value("max_position_embeddings").dump() +
              ", and this program was compiled for a context of " + std::to_string(of.context));
  if (!file.value("hidden_act").is_null()) file.check_text("hidden_act", "silu");
  file.check_flag("attention_bias", false);
  file.check_flag("mlp_bias", false);
  file.check_flag("tie_word_embeddings", of.tied == 1, false);
}

/// The settings in a config.json. Rotary positions are in `rope_parameters`, or in older files in `rope_theta` and
/// `rope_scaling`. Throws gradus::error for a scaling other than Llama 3's, and for numbers outside their ranges.
inline gr::nn::llama_settings read_settings(const gpt::huggingface_config& file) {
  gr::nn::llama_settings found{.norm_eps = file.number("rms_norm_eps", 1e-6)};
  found.rope.base = file.number("rope_theta", 10000);
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (file.value(key).is_null()) continue;
    const gpt::huggingface_config rope = file.inner(key);
    found.rope.base = rope.number("rope_theta", found.rope.base);
    const auto type = rope.value(rope.value("rope_type").is_null() ? "type" : "rope_type");
    if (type == "default" || type.is_null()) continue;
    if (type != "llama3") rope.fail("'rope_type' is " + type.dump() + " where \"default\" or \"llama3\" is needed");
    found.rope.scaling = {.factor = rope.number("factor"),
                          .low_freq_factor = rope.number("low_freq_factor"),
                          .high_freq_factor = rope.number("high_freq_factor"),
                          .original_context = rope.number("original_max_position_embeddings")};
  }
  if (const std::string wrong = wrong_setting(found); !wrong.empty()) file.fail(wrong);
  return found;
}

/// Fills the model from a folder of Hugging Face's or a GGUF file, whatever type of floating-point number it holds; rows of the tables
/// beyond the vocabulary become zero. The model is as it was until all of the folder has been read once. Throws
/// gradus::error where the folder holds another model than a Llama of these sizes.
template <class X, config C, class After = gr::nothing_after>
void load_huggingface(model<X, C>& net, gr::context<typename X::device>& ctx, const std::filesystem::path& from,
                      const After& after = {}) {
  gpt::huggingface_source tensors(from);
  check_huggingface(tensors.config(), C);
  const gr::nn::llama_settings settings = read_settings(tensors.config());
  const std::string prefix = tensors.has("model.embed_tokens.weight") ? "model." : "";
  const auto where = [&](std::string_view name) { return huggingface_place<C>(name, prefix); };
  std::vector<std::string> known{"lm_head.weight"};
  gr::for_each_param(net, [&](std::string_view name, const auto&) { known.push_back(where(name).name); });
  for (gr::index_t i = 0; i < C.layers; ++i)  // in old files
    known.push_back(prefix + "layers." + std::to_string(i) + ".self_attn.rotary_emb.inv_freq");
  gpt::check_huggingface_names(tensors, known, "Llama");
  if (C.tied == 1) gpt::check_head_is_table<decltype(net.tokens.weight)>(tensors, where("tokens.weight"));
  gpt::read_huggingface(net, ctx, tensors, where, after);
  net.settings = settings;
}

/// Writes the model into a folder, which must be there, as save_pretrained of LlamaForCausalLM and of its tokenizer do:
/// model.safetensors in the type that parameters are stored in, without the rows that pad the tables, as several
/// files and an index if it would have more than `shard_bytes`; config.json, generation_config.json, and what
/// save_huggingface_tokenizer writes unless `tokenizer` is null. Throws gradus::error.
template <class X, config C>
void save_huggingface(const model<X, C>& net, const std::filesystem::path& folder,
                      const gr::bpe_tokenizer* tokenizer = nullptr,
                      std::size_t shard_bytes = gpt::huggingface_shard_bytes) {
  const gr::rope_scaling& scaling = net.settings.rope.scaling;
  nlohmann::ordered_json settings{
      {"architectures", {"LlamaForCausalLM"}},
      {"model_type", "llama"},
      {"hidden_act", "silu"},
      {"num_hidden_layers", C.layers},
      {"num_attention_heads", C.heads},
      {"num_key_value_heads", C.kv_heads},
      {"hidden_size", C.width},
      {"head_dim", C.width / C.heads},
      {"intermediate_size", C.hidden},
      {"max_position_embeddings", C.context},
      {"vocab_size", C.vocabulary},
      {"rms_norm_eps", net.settings.norm_eps},
      {"rope_theta", net.settings.rope.base},
      {"attention_bias", false},
      {"mlp_bias", false},
      {"tie_word_embeddings", C.tied == 1},
      {"torch_dtype", gpt::huggingface_type<typename X::store>},
  };
  if (scaling.factor != 1)
    settings["rope_scaling"] = {{"rope_type", "llama3"},
                                {"factor", scaling.factor},
                                {"low_freq_factor", scaling.low_freq_factor},
                                {"high_freq_factor", scaling.high_freq_factor},
                                {"original_max_position_embeddings", static_cast<long long>(scaling.original_context)}};
  if (tokenizer != nullptr) {
    const gpt::text_ends ends(*tokenizer);
    settings["bos_token_id"] = gpt::json_of(ends.begin);
    settings["eos_token_id"] = gpt::json_of(ends.end);
  }
  gpt::write_huggingface_tensors(
      net, folder, [](std::string_view name) { return huggingface_place<C>(name); }, shard_bytes);
  gr::write_file_atomically(folder / "config.json", settings.dump(2) + "\n");
  gpt::write_generation_config(folder, settings);
  if (tokenizer != nullptr) gpt::save_huggingface_tokenizer(*tokenizer, C.context, folder);
}

}  // namespace llama
