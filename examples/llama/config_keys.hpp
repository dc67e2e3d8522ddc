#pragma once
// The keys of a config.json that each family's class of transformers has, and what it takes where a file lacks one.
// tests/parity/make_family_fixtures.py records them from the classes, and tests/gpt/config_keys.cpp holds them to it.

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include <gradus/io/json.hpp>

#include "../gpt/tools/huggingface_config.hpp"
#include "config.hpp"

namespace llama {

/// The keys of a family's class and their defaults, as JSON. Rotary positions are in keys of all families, too, whose
/// defaults are numbers of `family` (keys_of()).
inline constexpr std::pair<const char*, const char*> class_keys[] = {
    {"llama", R"({"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": null, "head_dim": null, "max_position_embeddings": 2048,
        "hidden_act": "silu", "rms_norm_eps": 1e-6, "tie_word_embeddings": false, "attention_bias": false,
        "mlp_bias": false})"},
    {"mistral", R"({"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": null, "max_position_embeddings": 131072,
        "hidden_act": "silu", "rms_norm_eps": 1e-6, "tie_word_embeddings": false, "sliding_window": 4096})"},
    {"qwen2", R"({"vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 32, "max_position_embeddings": 32768, "hidden_act": "silu",
        "rms_norm_eps": 1e-6, "tie_word_embeddings": false, "use_sliding_window": false, "sliding_window": 4096,
        "max_window_layers": 28, "layer_types": null})"},
    {"qwen3", R"({"vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 128, "max_position_embeddings": 32768,
        "hidden_act": "silu", "rms_norm_eps": 1e-6, "tie_word_embeddings": false, "attention_bias": false,
        "use_sliding_window": false, "sliding_window": 4096, "max_window_layers": 28, "layer_types": null})"},
    {"phi3", R"({"vocab_size": 32064, "hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": null, "max_position_embeddings": 4096,
        "original_max_position_embeddings": 4096, "hidden_act": "silu", "rms_norm_eps": 1e-5,
        "tie_word_embeddings": false, "sliding_window": null})"},
    {"gemma", R"({"vocab_size": 256000, "hidden_size": 3072, "intermediate_size": 24576, "num_hidden_layers": 28,
        "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 256, "max_position_embeddings": 8192,
        "hidden_act": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6, "tie_word_embeddings": true, "attention_bias": false,
        "use_bidirectional_attention": null})"},
    {"gemma2", R"({"vocab_size": 256000, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
        "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "max_position_embeddings": 8192,
        "hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6, "tie_word_embeddings": true,
        "attention_bias": false, "query_pre_attn_scalar": 256, "sliding_window": 4096, "layer_types": null,
        "final_logit_softcapping": 30.0, "attn_logit_softcapping": 50.0, "use_bidirectional_attention": null})"},
    {"gemma3_text", R"({"vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
        "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "max_position_embeddings": 131072,
        "hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6, "tie_word_embeddings": true,
        "attention_bias": false, "query_pre_attn_scalar": 256, "sliding_window": 4096, "layer_types": null,
        "final_logit_softcapping": null, "attn_logit_softcapping": null, "use_bidirectional_attention": false})"},
    {"mixtral", R"({"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": null, "max_position_embeddings": 131072,
        "hidden_act": "silu", "rms_norm_eps": 1e-5, "tie_word_embeddings": false, "sliding_window": null,
        "num_experts_per_tok": 2, "num_local_experts": 8, "router_jitter_noise": 0.0})"},
    {"qwen3_moe", R"({"vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 24,
        "num_attention_heads": 32, "num_key_value_heads": 4, "max_position_embeddings": 32768, "hidden_act": "silu",
        "rms_norm_eps": 1e-6, "tie_word_embeddings": false, "attention_bias": false, "use_sliding_window": false,
        "sliding_window": 4096, "decoder_sparse_step": 1, "moe_intermediate_size": 768, "num_experts_per_tok": 8,
        "num_experts": 128, "norm_topk_prob": false, "mlp_only_layers": null})"},
};

/// All keys that transformers reads of a family, with their defaults: those of its class, and those that are read
/// though no class has them, in files of older versions.
inline nlohmann::json keys_of(const family& of) {
  nlohmann::json all;
  for (const auto& [name, keys] : class_keys)
    if (std::string_view(name) == of.name) all = nlohmann::json::parse(keys);
  const auto add = [&](const char* key, nlohmann::json otherwise) {
    if (!all.contains(key)) all[key] = std::move(otherwise);
  };
  add("head_dim", nullptr);
  add("rope_parameters", nullptr);
  add("rope_scaling", nullptr);
  add("rope_theta", of.rope_base);
  add("partial_rotary_factor", 1);
  add("original_max_position_embeddings", nullptr);
  if (of.window_rope > 0) {
    add("rope_local_base_freq", of.window_rope);
    add("sliding_window_pattern", static_cast<gr::index_t>(of.full_every));
  }
  if (std::string_view(of.name) == "mistral") add("layer_types", nullptr);  // AutoConfig reads it as a Ministral
  return all;
}

/// Whether a class of some family has a key.
inline bool is_some_familys(const std::string& key) {
  if (key == "rope_local_base_freq" || key == "sliding_window_pattern") return true;
  return std::ranges::any_of(class_keys, [quoted = '"' + key + "\":"](const auto& row) {
    return std::string_view(row.second).find(quoted) != std::string_view::npos;
  });
}

/// The values of a config.json as a family's class has them: defaults where the file lacks a key, and without the keys
/// that other families have alone, which transformers ignores. A key that no class has stays, and so does what it says.
inline nlohmann::json values_of(const nlohmann::json& file, const family& of) {
  nlohmann::json all = file;
  const nlohmann::json own = keys_of(of);
  // Two names of one number: the one that is not the class's own is set last.
  for (const auto& [own_name, other] :
       {std::pair("num_experts", "num_local_experts"), {"num_local_experts", "num_experts"}})
    if (own.contains(own_name) && file.contains(other)) all[own_name] = file[other];
  for (const auto& [key, value] : file.items())
    if (!own.contains(key) && is_some_familys(key)) all.erase(key);
  for (const auto& [key, otherwise] : own.items())
    if (!all.contains(key)) all[key] = otherwise;
  return all;
}

}  // namespace llama
