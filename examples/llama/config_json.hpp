#pragma once
// A config.json of the Llama family: what each key means (config_keys.hpp has them). Keys that are not known are
// refused.

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "../gpt/tools/huggingface_config.hpp"
#include "config.hpp"
#include "config_keys.hpp"
#include "settings.hpp"

namespace llama {

using gpt::huggingface_config;

/// Keys of decoders that change nothing, besides gpt::harmless_keys.
inline constexpr const char* harmless_here =
    " is_llama_config output_router_logits router_aux_loss_coef _sliding_window_pattern ";
/// Keys that must have one of these values, as JSON, where a family has them; the first is written.
inline constexpr std::pair<const char*, const char*> fixed_keys[] = {{"mlp_bias", "[false]"},
                                                                     {"use_bidirectional_attention", "[false, null]"},
                                                                     {"partial_rotary_factor", "[1.0, null]"},
                                                                     {"router_jitter_noise", "[0.0]"},
                                                                     {"decoder_sparse_step", "[1]"},
                                                                     {"mlp_only_layers", "[[], null]"},
                                                                     {"norm_topk_prob", "[true]"}};
/// Keys of older versions of all families, which must have one value, or be null.
inline constexpr std::pair<const char*, bool> old_keys[] = {
    {"rope_interleaved", false}, {"is_encoder_decoder", false}, {"is_decoder", false}, {"add_cross_attention", false}};
/// The key of the activation in an MLP, and its possible values, as JSON: "gelu" is Gemma 1's name of the other one.
inline std::pair<const char*, const char*> activation_of(const family& of) {
  if (!of.gelu) return {"hidden_act", R"(["silu"])"};
  if (!of.branch_norms) return {"hidden_act", R"(["gelu_pytorch_tanh", "gelu_new", "gelu"])"};
  return {"hidden_activation", R"(["gelu_pytorch_tanh", "gelu_new"])"};
}

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

/// The key that a config.json has for a size; "" if it has none.
inline std::string key_of(const size_row& row, const family& of) {
  if (row.size == &config::experts) return of.experts;
  if (row.size == &config::experts_per_token && !of.mixed()) return "";
  if (row.size == &config::hidden && std::string_view(of.expert_path) == ".mlp.") return "moe_intermediate_size";
  return row.key;
}

/// The config.json with the values that its family's class has (values_of()).
inline huggingface_config complete(const huggingface_config& file) {
  return file.with(values_of(file.all(), families[read_family(file)]));
}

/// The sizes in a complete() config.json; its context is the longest. Throws gradus::error.
inline config read_sizes(const huggingface_config& file) {
  config of{};
  of.family = read_family(file);
  const family& kind = of.kind();
  for (const size_row& row : size_rows) {
    const std::string name = key_of(row, kind);
    const char* const key = name.c_str();
    gr::index_t& size = of.*row.size;
    if (name.empty()) size = 0;
    else if (row.size == &config::biases) size = file.has(key) && file.whole(key, 0) == 1 ? 2 : kind.biases;
    else if (row.size == &config::tied) size = file.whole(key, 0);
    else if (row.size == &config::kv_heads && file.value(key).is_null()) size = of.heads;
    else if (row.size == &config::head_size && file.value(key).is_null()) size = 0;
    else size = file.whole(key);
  }
  if (of.head_size * of.heads == of.width) of.head_size = 0;
  if (of.heads % of.kv_heads != 0)
    file.fail("'num_key_value_heads' is " + std::to_string(of.kv_heads) +
              ", which does not divide 'num_attention_heads'");
  if (of.head_size == 0 && of.width % of.heads != 0)
    file.fail("'hidden_size' is not divisible by 'num_attention_heads'");
  if (of.head() % 2 != 0)
    file.fail("'head_dim': a head has " + std::to_string(of.head()) + " elements, and must have an even number");
  if (of.experts_per_token > of.experts) file.fail("'num_experts_per_tok' is more than its experts");
  return of;
}

/// The rotary positions that an object of a config.json describes. `base` is theirs if the object does not say;
/// `context` is the one that a scaling begins from, and `otherwise` that one if the object does not say, either.
inline gr::rope_options read_rope(const huggingface_config& rope, double base, std::optional<double> context,
                                  double otherwise) {
  gr::rope_options found{.base = rope.number("rope_theta", base)};
  rope.check_fixed("partial_rotary_factor", 1);
  const auto old_type = rope.value("type"), new_type = rope.value("rope_type");
  const auto type = new_type.is_null() ? old_type : new_type;
  gr::rope_scaling& by = found.scaling;
  const auto first_context = [&] {
    const double own = rope.number("original_max_position_embeddings", otherwise);
    return context.value_or(own);
  };
  if (type == "linear") {
    by = {.factor = rope.number("factor"), .rule = gr::rope_rule::linear};
  } else if (type == "llama3") {
    by = {.factor = rope.number("factor"),
          .low_freq_factor = rope.number("low_freq_factor"),
          .high_freq_factor = rope.number("high_freq_factor"),
          .original_context = first_context()};
  } else if (type == "yarn") {
    const auto turns = [&](const char* key, double of) {  // 0 is none
      const double given = rope.number(key, of);
      return given == 0 ? of : given;
    };
    by = {.factor = rope.number("factor"),
          .low_freq_factor = turns("beta_slow", 1),
          .high_freq_factor = turns("beta_fast", 32),
          .original_context = first_context(),
          .rule = gr::rope_rule::yarn};
    const double scale = rope.number("mscale", 0), all = rope.number("mscale_all_dim", 0);
    by.amplitude = rope.number(
        "attention_factor", scale != 0 && all != 0 ? yarn_amplitude(by.factor, scale) / yarn_amplitude(by.factor, all)
                                                   : yarn_amplitude(by.factor));
    rope.check_fixed("truncate", true);
  } else if (!type.is_null() && type != "default") {
    rope.fail("'rope_type' is " + type.dump() + " where \"default\", \"linear\", \"llama3\" or \"yarn\" is needed");
  }
  rope.check_all_read();
  return found;
}

/// The rotary positions in a complete() config.json: in `rope_parameters`, or in older files in `rope_theta` and
/// `rope_scaling`, which come first. Those of layers with windows are apart in Gemma 3.
inline void read_rope(const huggingface_config& file, const family& kind, gr::nn::llama_settings& into) {
  const double base = file.number("rope_theta"), longest = file.number("max_position_embeddings");
  const auto first = file.value("original_max_position_embeddings");
  const std::optional<double> context =
      first.is_null() ? std::optional<double>() : file.number("original_max_position_embeddings");
  const auto scaling = file.value("rope_scaling"), parameters = file.value("rope_parameters");
  const bool scaled = !scaling.is_null() && scaling != nlohmann::json::object();
  const auto inner = [&](const huggingface_config& from, const char* key) {
    return from.value(key).is_null() ? from.with(nlohmann::json::object()) : from.inner(key);
  };
  if (kind.window_rope == 0) {
    into.rope = read_rope(inner(file, scaled ? "rope_scaling" : "rope_parameters"), base, context, longest);
    if (!kind.scaled_rope && into.rope.scaling.factor != 1)
      file.fail(scaled ? "rope_scaling" : "rope_parameters",
                std::string(" where \"default\" positions are needed in a ") + kind.title);
    return;
  }
  const huggingface_config both = inner(file, "rope_parameters"), of_windows = inner(both, "sliding_attention");
  const huggingface_config own = inner(both, "full_attention");
  nlohmann::json full = own.all();
  if (full.empty()) full["rope_type"] = "default";  // which "type" of older files does not replace
  if (scaled) full.update(file.inner("rope_scaling").all());
  both.check_all_read();
  into.rope = read_rope(own.with(full), base, {}, longest);
  const gr::rope_options local = read_rope(of_windows, file.number("rope_local_base_freq"), {}, longest);
  if (local.scaling.factor != 1) of_windows.fail("'rope_type' must be \"default\"");
  into.window_rope = local.base;
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
  if (std::ranges::find(types, "sliding_attention") == types.end()) of.window = 0;
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

/// The settings in a complete() config.json of a model of so many layers. Throws gradus::error for a scaling that is
/// not known, and for numbers outside their ranges.
inline gr::nn::llama_settings read_settings(const huggingface_config& file, const family& kind, gr::index_t layers) {
  gr::nn::llama_settings found = new_settings(kind);
  found.norm_eps = file.number("rms_norm_eps");
  read_rope(file, kind, found);

  const auto has_value = [&](const char* key) { return !file.value(key).is_null(); };
  if (has_value("sliding_window")) found.window = static_cast<double>(file.whole("sliding_window"));
  else if (kind.full_every > 0) file.fail("sliding_window", " where a number is needed");
  if (has_value("use_sliding_window") && file.whole("use_sliding_window", 0) == 0) found.window = 0;
  if (has_value("max_window_layers") && found.window > 0)
    found.window_from = static_cast<double>(file.whole("max_window_layers", 0));
  if (has_value("sliding_window_pattern")) found.full_every = static_cast<double>(file.whole("sliding_window_pattern"));
  read_layer_types(file, layers, found);

  if (has_value("query_pre_attn_scalar"))
    found.score_scale = 1 / std::sqrt(static_cast<double>(file.whole("query_pre_attn_scalar")));
  const double score_cap = file.number("attn_logit_softcapping", 0);
  if (kind.caps_logits) found.score_cap = score_cap;  // in Gemma 3, transformers has the key and does not use it
  found.logit_cap = file.number("final_logit_softcapping", 0);
  if (const std::string wrong = wrong_setting(found, kind); !wrong.empty()) file.fail(wrong);
  return found;
}

/// What a config.json describes.
struct description {
  config sizes;
  gr::nn::llama_settings settings;
};
/// Reads all of a config.json. Throws gradus::error, which names the key, for one that is not known or not right.
inline description read_config(const huggingface_config& given) {
  const huggingface_config file = complete(given);
  description found{.sizes = read_sizes(file), .settings = {}};
  const family& kind = found.sizes.kind();
  found.settings = read_settings(file, kind, found.sizes.layers);
  const auto [activation, possible] = activation_of(kind);
  file.check_one_of(activation, nlohmann::json::parse(possible));
  for (const auto& [key, values] : fixed_keys)
    if (file.has(key)) file.check_one_of(key, nlohmann::json::parse(values));
  for (const auto& [key, value] : old_keys) file.check_fixed(key, value);
  if (kind.mixed()) file.value("intermediate_size");  // of layers without experts
  file.check_all_read(harmless_here);
  return found;
}

/// The keys of a config.json that describe a model, as older transformers and newer ones read them: those that
/// read_config() reads.
inline nlohmann::ordered_json config_json(const config& of, const gr::nn::llama_settings& by) {
  const family& kind = of.kind();
  const nlohmann::json own = keys_of(kind);
  nlohmann::ordered_json all{{"architectures", {kind.class_name}}, {"model_type", kind.name}};
  const auto set = [&](const char* key, nlohmann::json value) {
    if (own.contains(key)) all[key] = std::move(value);
  };
  for (const size_row& row : size_rows)
    if (const std::string key = key_of(row, kind); !key.empty()) set(key.c_str(), of.*row.size);
  set("tie_word_embeddings", of.tied == 1);
  set("head_dim", of.head());
  set("attention_bias", of.biases == 2);
  const auto [activation, possible] = activation_of(kind);
  set(activation, nlohmann::json::parse(possible)[0]);
  for (const auto& [key, values] : fixed_keys)
    if (std::string_view(key) != "partial_rotary_factor") set(key, nlohmann::json::parse(values)[0]);
  all["pad_token_id"] = nullptr;
  set("rms_norm_eps", by.norm_eps);
  set("rope_theta", by.rope.base);
  if (by.window_rope > 0) set("rope_local_base_freq", by.window_rope);
  const gr::rope_scaling& scaling = by.rope.scaling;
  const bool linear = scaling.rule == gr::rope_rule::linear, yarn = scaling.rule == gr::rope_rule::yarn;
  nlohmann::ordered_json rope{{"rope_type", linear ? "linear" : yarn ? "yarn" : "llama3"}, {"factor", scaling.factor}};
  if (!linear) {
    rope[yarn ? "beta_slow" : "low_freq_factor"] = scaling.low_freq_factor;
    rope[yarn ? "beta_fast" : "high_freq_factor"] = scaling.high_freq_factor;
    rope["original_max_position_embeddings"] = static_cast<long long>(scaling.original_context);
  }
  if (yarn) rope["attention_factor"] = scaling.amplitude;
  if (scaling.factor != 1 || scaling.amplitude != 1) all["rope_scaling"] = rope;
  const double scale = by.score_scale > 0 ? by.score_scale : 1 / std::sqrt(static_cast<double>(of.head()));
  set("query_pre_attn_scalar", std::llround(1 / (scale * scale)));
  set("attn_logit_softcapping", by.score_cap > 0 ? nlohmann::json(by.score_cap) : nlohmann::json());
  set("final_logit_softcapping", by.logit_cap > 0 ? nlohmann::json(by.logit_cap) : nlohmann::json());
  const nlohmann::json types = layer_types(by, of.layers);
  const bool windows = std::ranges::find(types, "sliding_attention") != types.end();
  // Gemmas have a number even if no layer has that window.
  set("sliding_window", windows               ? nlohmann::json(static_cast<long long>(by.window))
                        : kind.full_every > 0 ? nlohmann::json(of.context)
                                              : nlohmann::json());
  set("use_sliding_window", windows);
  if (windows) set("max_window_layers", static_cast<long long>(by.window_from));
  if (windows && by.full_every > 0) set("sliding_window_pattern", static_cast<long long>(by.full_every));
  // A Mistral that lists them is a Ministral to transformers: only if its layers are not alike.
  if (std::string_view(kind.name) != "mistral" ||
      (windows && std::ranges::adjacent_find(types, std::not_equal_to<>()) != types.end()))
    set("layer_types", types);
  return all;
}

}  // namespace llama
