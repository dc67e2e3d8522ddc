#pragma once
// A config.json of GPT-2: what transformers' class reads, without the model.

#include <string>
#include <utility>

#include <gradus/core/extent.hpp>
#include <gradus/io/json.hpp>

#include "huggingface_config.hpp"

namespace gpt {

/// What a config.json of GPT-2 describes.
struct gpt2_description {
  gr::index_t layers = 0, heads = 0, width = 0, context = 0, vocabulary = 0;
  gr::index_t hidden = 0;  ///< features inside an MLP
  double epsilon = 0;      ///< of the norms
  bool tied = true;        ///< the head is the token table
};
/// The sizes by their keys.
inline constexpr std::pair<const char*, gr::index_t gpt2_description::*> gpt2_sizes[] = {
    {"n_layer", &gpt2_description::layers},
    {"n_head", &gpt2_description::heads},
    {"n_embd", &gpt2_description::width},
    {"n_positions", &gpt2_description::context},
    {"vocab_size", &gpt2_description::vocabulary}};
/// The keys of transformers' class, and what it takes where a file lacks one, as JSON.
inline constexpr const char* gpt2_keys = R"({"vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_layer": 12,
    "n_head": 12, "n_inner": null, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
    "scale_attn_weights": true, "scale_attn_by_inverse_layer_idx": false, "add_cross_attention": false,
    "tie_word_embeddings": true, "reorder_and_upcast_attn": false})";
/// Those that must have one of these values, the first of which is written.
inline constexpr std::pair<const char*, const char*> gpt2_fixed[] = {
    {"activation_function", R"(["gelu_new", "gelu_pytorch_tanh"])"},
    {"scale_attn_weights", "[true]"},
    {"scale_attn_by_inverse_layer_idx", "[false]"},
    {"add_cross_attention", "[false]"}};

/// A GPT-2's config.json with defaults where it lacks a key.
inline huggingface_config complete_gpt2(const huggingface_config& file) {
  nlohmann::json all = nlohmann::json::parse(gpt2_keys);
  all.update(file.all());
  return file.with(all);
}
/// Reads all of a GPT-2's config.json. Throws gradus::error, which names the key, for one that is not known or not
/// right.
inline gpt2_description read_gpt2_config(const huggingface_config& given) {
  const huggingface_config file = complete_gpt2(given);
  file.check_text("model_type", "gpt2");
  file.check_is_plain();
  gpt2_description found;
  for (const auto& [key, size] : gpt2_sizes) found.*size = file.whole(key);
  found.hidden = file.value("n_inner").is_null() ? 4 * found.width : file.whole("n_inner");
  found.epsilon = file.number("layer_norm_epsilon");
  found.tied = file.whole("tie_word_embeddings", 0) == 1;
  for (const auto& [key, values] : gpt2_fixed) file.check_one_of(key, nlohmann::json::parse(values));
  file.check_fixed("is_encoder_decoder", false);
  file.check_all_read();
  return found;
}
/// The keys of a config.json that describe a GPT-2: those that read_gpt2_config() reads.
inline nlohmann::ordered_json gpt2_config_json(const gpt2_description& of) {
  nlohmann::ordered_json all{{"architectures", {"GPT2LMHeadModel"}}, {"model_type", "gpt2"}};
  for (const auto& [key, size] : gpt2_sizes) all[key] = of.*size;
  all["n_ctx"] = of.context;
  all["n_inner"] = of.hidden == 4 * of.width ? nlohmann::json() : nlohmann::json(of.hidden);
  all["layer_norm_epsilon"] = of.epsilon;
  all["tie_word_embeddings"] = of.tied;
  for (const auto& [key, values] : gpt2_fixed) all[key] = nlohmann::json::parse(values)[0];
  return all;
}

}  // namespace gpt
