#pragma once
// A config.json of the Llama family: what each key means. Keys that are not known are refused.

#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "../gpt/tools/huggingface_config.hpp"
#include "config.hpp"
#include "settings.hpp"

namespace llama {

using gpt::huggingface_config;

/// Keys of decoders that change nothing, besides gpt::harmless_keys.
inline constexpr const char* harmless_here =
    " is_llama_config max_window_layers output_router_logits router_aux_loss_coef ";
/// Keys that must have one value, or null: as JSON.
inline constexpr std::pair<const char*, const char*> fixed_keys[] = {
    {"mlp_bias", "false"},           {"rope_interleaved", "false"}, {"use_bidirectional_attention", "false"},
    {"is_encoder_decoder", "false"}, {"is_decoder", "false"},       {"add_cross_attention", "false"},
    {"partial_rotary_factor", "1"},  {"router_jitter_noise", "0"},  {"decoder_sparse_step", "1"},
    {"mlp_only_layers", "[]"}};

/// The number of the family of a config.json. Throws gradus::error if it is none of them, or one that this program does
/// not run as the file means it.
inline gr::index_t read_family(const huggingface_config& file) {
  const auto type = file.value("model_type");
  const gr::index_t found = family_named(type.is_string() ? type.get<std::string>() : "");
  if (found == std::size(families)) {
    std::string all = "\"gpt2\"";
    for (const family& one : families)
      all += std::string(&one == std::end(families) - 1 ? " or \"" : ", \"") + one.name + '"';
    file.fail("'model_type' is " + type.dump() + " where " + all + " is needed");
  }
  file.check_is_plain();
  return found;
}

/// A whole number from `least` on that a key holds, or true or false as 1 or 0; `otherwise` if there is none.
inline gr::index_t whole(const huggingface_config& file, const char* key, std::optional<gr::index_t> otherwise = {},
                         gr::index_t least = 1) {
  const auto found = file.value(key);
  if (found.is_null() && otherwise) return *otherwise;
  if (found.is_null()) file.fail("has no " + file.quoted(key));
  if (found.is_boolean() && least == 0) return found.get<bool>() ? 1 : 0;
  if (!found.is_number_unsigned() || found.get<gr::index_t>() < least || found.get<gr::index_t>() > 999999999)
    file.fail(file.quoted(key) + " is " + found.dump() + " where a whole number from " + std::to_string(least) +
              " on is needed");
  return found.get<gr::index_t>();
}

/// The key that a config.json has for a size; "" if it has none.
inline std::string key_of(const size_row& row, const family& of) {
  if (row.size == &config::experts) return of.experts;
  if (row.size == &config::experts_per_token && !of.mixed()) return "";
  if (row.size == &config::hidden && std::string_view(of.expert_path) == ".mlp.") return "moe_intermediate_size";
  return row.key;
}

/// The sizes in a config.json; its context is the longest. Throws gradus::error.
inline config read_sizes(const huggingface_config& file) {
  config of{};
  of.family = read_family(file);
  const family& kind = of.kind();
  for (const size_row& row : size_rows) {
    const std::string name = key_of(row, kind);
    const char* const key = name.c_str();
    gr::index_t& size = of.*row.size;
    if (name.empty()) size = 0;
    else if (row.size == &config::kv_heads) size = whole(file, key, of.heads);
    else if (row.size == &config::tied) size = whole(file, key, kind.tied ? 1 : 0, 0);
    else if (row.size == &config::biases) size = whole(file, key, 0, 0) == 1 ? 2 : kind.biases;
    else if (row.size == &config::head_size) size = whole(file, key, kind.head_size, 0);
    else if (row.size == &config::context) size = whole(file, key, 2048);
    else if (row.size == &config::experts)
      size = whole(file, file.has(key) ? key : "num_local_experts");  // transformers 5
    else size = whole(file, key);
  }
  if (of.head_size * of.heads == of.width) of.head_size = 0;
  if (of.heads % of.kv_heads != 0)
    file.fail("'num_key_value_heads' is " + std::to_string(of.kv_heads) +
              ", which does not divide 'num_attention_heads'");
  if (of.head_size == 0 && of.width % of.heads != 0)
    file.fail("'hidden_size' is not divisible by 'num_attention_heads'");
  if (of.head() % 2 != 0) file.fail("a head has " + std::to_string(of.head()) + " elements: it must be even");
  if (of.experts_per_token > of.experts) file.fail("'num_experts_per_tok' is more than its experts");
  if (kind.mixed() && !file.value("norm_topk_prob").is_null()) file.check_fixed("norm_topk_prob", true);
  if (std::string_view(kind.name) == "qwen3_moe") {
    if (file.value("norm_topk_prob").is_null()) file.fail("has no 'norm_topk_prob', and true is needed");
    file.value("intermediate_size");  // of layers without experts
  }
  return of;
}

/// The rotary positions that an object of a config.json describes, which are `found` so far. `context` is the one that
/// a scaling begins from if the object does not say.
inline gr::rope_options read_rope(const huggingface_config& rope, gr::rope_options found, double context) {
  found.base = rope.number("rope_theta", found.base);
  rope.check_fixed("partial_rotary_factor", 1);
  const auto old_type = rope.value("type"), new_type = rope.value("rope_type");
  const auto type = new_type.is_null() ? old_type : new_type;
  gr::rope_scaling& by = found.scaling;
  if (type == "linear") {
    by = {.factor = rope.number("factor"), .rule = gr::rope_rule::linear};
  } else if (type == "llama3") {
    by = {.factor = rope.number("factor"),
          .low_freq_factor = rope.number("low_freq_factor"),
          .high_freq_factor = rope.number("high_freq_factor"),
          .original_context = rope.number("original_max_position_embeddings")};
  } else if (type == "yarn") {
    by = {.factor = rope.number("factor"),
          .low_freq_factor = rope.number("beta_slow", 1),
          .high_freq_factor = rope.number("beta_fast", 32),
          .original_context = rope.number("original_max_position_embeddings", context),
          .rule = gr::rope_rule::yarn};
    const auto grown = [&](double by_how_much) {
      return by.factor <= 1 ? 1.0 : 0.1 * by_how_much * std::log(by.factor) + 1;
    };
    const double scale = rope.number("mscale", 0), all = rope.number("mscale_all_dim", 0);
    by.amplitude = rope.number("attention_factor", scale != 0 && all != 0 ? grown(scale) / grown(all) : grown(1));
    rope.check_fixed("truncate", true);
  } else if (!type.is_null() && type != "default") {
    rope.fail("'rope_type' is " + type.dump() + " where \"default\", \"linear\", \"llama3\" or \"yarn\" is needed");
  }
  rope.check_all_read();
  return found;
}

/// Which of so many layers have windows, as a config.json lists them.
inline nlohmann::json layer_types(const gr::nn::llama_settings& of, gr::index_t layers) {
  nlohmann::json all;
  for (gr::index_t i = 0; i < layers; ++i) all.push_back(of.windowed(i) ? "sliding_attention" : "full_attention");
  return all;
}
/// Reads which layers have windows, where a config.json lists them. Throws unless they are the layers from one on but
/// the last of so many: what the settings can say.
inline void read_layer_types(const huggingface_config& file, gr::index_t layers, gr::nn::llama_settings& of) {
  const auto types = file.value("layer_types");
  if (types.is_null()) return;
  if (layer_types(of, layers) == types) return;
  for (gr::index_t every = 0; every <= layers; ++every)
    for (gr::index_t from = 0; from <= layers; ++from) {
      of.window_from = static_cast<double>(from);
      of.full_every = static_cast<double>(every);
      if (layer_types(of, layers) == types) return;
    }
  file.fail(
      "'layer_types' is not \"full_attention\" or \"sliding_attention\" for each layer, in an order that this "
      "program has: windows from one layer on, but for the last of every so many");
}

/// The settings in a config.json of a model of so many layers. Rotary positions are in `rope_parameters`, or in older
/// files in `rope_theta` and `rope_scaling`; those of layers with windows may be apart. Throws gradus::error for a
/// scaling that is not known, and for numbers outside their ranges.
inline gr::nn::llama_settings read_settings(const huggingface_config& file, const family& kind = families[0],
                                            gr::index_t layers = 0) {
  gr::nn::llama_settings found = new_settings(kind);
  found.norm_eps = file.number("rms_norm_eps", kind.norm_eps);
  found.rope.base = file.number("rope_theta", kind.rope_base);
  if (kind.window_rope > 0) found.window_rope = file.number("rope_local_base_freq", kind.window_rope);
  const double context = file.number("original_max_position_embeddings", file.number("max_position_embeddings", 2048));
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (file.value(key).is_null()) continue;
    const huggingface_config rope = file.inner(key);
    if (rope.value("full_attention").is_null()) {
      found.rope = read_rope(rope, found.rope, context);
      continue;
    }
    found.rope = read_rope(rope.inner("full_attention"), found.rope, context);
    if (!rope.value("sliding_attention").is_null()) {
      const huggingface_config local = rope.inner("sliding_attention");
      const gr::rope_options of_windows = read_rope(local, {.base = found.window_rope}, context);
      if (of_windows.scaling.factor != 1) local.fail("'rope_type' must be \"default\"");
      found.window_rope = of_windows.base;
    }
    rope.check_all_read();
  }

  const auto window = file.value("sliding_window"), used = file.value("use_sliding_window");
  if (!window.is_null() || !file.has("sliding_window")) found.window = file.number("sliding_window", kind.window);
  if (used.is_null() ? kind.window_switch : used != true) found.window = 0;
  if (kind.window_from && found.window > 0) found.window_from = file.number("max_window_layers", 28);
  if (kind.full_every > 0)
    for (const char* key : {"sliding_window_pattern", "_sliding_window_pattern"})
      found.full_every = file.number(key, found.full_every);
  read_layer_types(file, layers, found);

  if (kind.query_scalar) {
    found.score_scale = 1 / std::sqrt(file.number("query_pre_attn_scalar", 256));
    found.score_cap = file.number("attn_logit_softcapping", 0);
    found.logit_cap = file.number("final_logit_softcapping", 0);
  }
  if (const std::string wrong = wrong_setting(found, kind); !wrong.empty()) file.fail(wrong);
  return found;
}

/// What a config.json describes.
struct description {
  config sizes;
  gr::nn::llama_settings settings;
};
/// Reads all of a config.json. Throws gradus::error, which names the key, for one that is not known or not right.
inline description read_config(const huggingface_config& file) {
  description found{.sizes = read_sizes(file), .settings = {}};
  const family& kind = found.sizes.kind();
  found.settings = read_settings(file, kind, found.sizes.layers);
  for (const char* key : {"hidden_act", "hidden_activation"})
    if (const auto f = file.value(key); kind.gelu && f == "gelu_new") continue;
    else file.check_fixed(key, kind.gelu ? "gelu_pytorch_tanh" : "silu");
  for (const auto& [key, value] : fixed_keys) file.check_fixed(key, nlohmann::json::parse(value));
  file.check_all_read(harmless_here);
  return found;
}

/// The keys of a config.json that describe a model, as older transformers and newer ones read them.
inline nlohmann::ordered_json config_json(const config& of, const gr::nn::llama_settings& by) {
  const family& kind = of.kind();
  nlohmann::ordered_json all{{"architectures", {kind.class_name}}, {"model_type", kind.name}};
  for (const size_row& row : size_rows)
    if (const std::string key = key_of(row, kind); !key.empty()) all[key] = of.*row.size;
  all["tie_word_embeddings"] = of.tied == 1;
  all["head_dim"] = of.head();
  all["attention_bias"] = of.biases == 2;
  all["hidden_act"] = kind.gelu ? "gelu_pytorch_tanh" : "silu";
  if (kind.gelu) all["hidden_activation"] = all["hidden_act"];
  all["mlp_bias"] = false;
  if (std::string_view(kind.name) == "qwen3_moe") all["norm_topk_prob"] = true;
  all["pad_token_id"] = nullptr;
  all["rms_norm_eps"] = by.norm_eps;
  all["rope_theta"] = by.rope.base;
  if (by.window_rope > 0) all["rope_local_base_freq"] = by.window_rope;
  const gr::rope_scaling& scaling = by.rope.scaling;
  const bool linear = scaling.rule == gr::rope_rule::linear, yarn = scaling.rule == gr::rope_rule::yarn;
  nlohmann::ordered_json rope{{"rope_type", linear ? "linear" : yarn ? "yarn" : "llama3"}, {"factor", scaling.factor}};
  if (!linear) {
    rope[yarn ? "beta_slow" : "low_freq_factor"] = scaling.low_freq_factor;
    rope[yarn ? "beta_fast" : "high_freq_factor"] = scaling.high_freq_factor;
    rope["original_max_position_embeddings"] = static_cast<long long>(scaling.original_context);
  }
  if (yarn) rope["attention_factor"] = scaling.amplitude;
  if (scaling.factor != 1) all["rope_scaling"] = rope;
  if (kind.query_scalar) {
    const double scale = by.score_scale > 0 ? by.score_scale : 1 / std::sqrt(static_cast<double>(of.head()));
    all["query_pre_attn_scalar"] = std::llround(1 / (scale * scale));
    all["attn_logit_softcapping"] = by.score_cap > 0 ? nlohmann::json(by.score_cap) : nlohmann::json();
    all["final_logit_softcapping"] = by.logit_cap > 0 ? nlohmann::json(by.logit_cap) : nlohmann::json();
  }
  all["sliding_window"] = by.window > 0 ? nlohmann::json(static_cast<long long>(by.window)) : nlohmann::json();
  if (kind.window_switch) all["use_sliding_window"] = by.window > 0;
  if (kind.window_from && by.window > 0) all["max_window_layers"] = static_cast<long long>(by.window_from);
  if (kind.window_from || kind.full_every > 0) all["layer_types"] = layer_types(by, of.layers);
  return all;
}

}  // namespace llama
