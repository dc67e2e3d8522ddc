#pragma once
// The numbers of a model of the Llama family that are neither sizes nor parameters: their names in files, and ranges.

#include <cmath>
#include <string>
#include <type_traits>

#include <gradus/nn/llama_settings.hpp>

#include "config.hpp"

namespace llama {

/// The settings of a new model.
constexpr gr::nn::llama_settings new_settings(const family& of) {
  return {.rope = {.base = of.rope_base},
          .full_every = of.full_every,
          .window_rope = of.window_rope,
          .logit_cap = of.caps_logits ? 30.0 : 0.0};
}

/// YaRN's factor of what is rotated where waves become `factor` times longer, by its constant or so many of it.
inline double yarn_amplitude(double factor, double scale = 1) {
  return factor <= 1 ? 1.0 : 0.1 * scale * std::log(factor) + 1;
}

/// Calls f(name, number) for each setting, by the names that files have for them.
template <class Settings>
void visit_settings(Settings& of, const auto& f) {
  auto& by = of.rope.scaling;
  double rule = static_cast<double>(by.rule);
  f("norm_eps", of.norm_eps);
  f("rope_base", of.rope.base);
  f("rope_factor", by.factor);
  f("rope_low_freq_factor", by.low_freq_factor);
  f("rope_high_freq_factor", by.high_freq_factor);
  f("rope_original_context", by.original_context);
  f("rope_rule", rule);
  f("rope_amplitude", by.amplitude);
  f("window", of.window);
  f("window_from", of.window_from);
  f("full_every", of.full_every);
  f("window_rope", of.window_rope);
  f("score_scale", of.score_scale);
  f("score_cap", of.score_cap);
  f("logit_cap", of.logit_cap);
  if constexpr (!std::is_const_v<Settings>)
    by.rule = static_cast<gr::rope_rule>(rule >= 0 && rule <= 2 ? static_cast<int>(rule) : 3);
}

/// What is wrong with the numbers of a model, by their names in a config.json; "" if nothing is.
inline std::string wrong_setting(const gr::nn::llama_settings& of, const family& kind = families[0]) {
  const gr::rope_scaling& by = of.rope.scaling;
  const auto is_from = [](double least, double x) { return x >= least && std::isfinite(x); };
  const auto is_count = [](double x) { return x >= 0 && x < 1e9 && x == std::floor(x); };
  if (!(of.norm_eps > 0 && of.norm_eps <= 1)) return "'rms_norm_eps' must be above 0 and at most 1";
  if (!is_from(1, of.rope.base) || (of.window_rope != 0 && !is_from(1, of.window_rope)))
    return "'rope_theta' must be 1 or more";
  if (!is_from(1, by.factor)) return "the 'factor' of the rotary scaling must be 1 or more";
  if (!is_from(1, by.original_context)) return "'original_max_position_embeddings' must be 1 or more";
  if (!(by.low_freq_factor > 0 && by.low_freq_factor < by.high_freq_factor && std::isfinite(by.high_freq_factor)))
    return "'low_freq_factor' must be above 0 and below 'high_freq_factor'";
  if (by.rule > gr::rope_rule::yarn) return "the rule of the rotary scaling must be 0, 1 or 2";
  if (!(by.amplitude > 0 && by.amplitude < 100)) return "'attention_factor' must be above 0 and below 100";
  if (!is_count(of.window) || !is_count(of.window_from) || !is_count(of.full_every))
    return "'sliding_window' must be a whole number, 0 or more, and so the layers that have it";
  if (!is_from(0, of.score_scale)) return "the scale of attention scores must be 0 or more";
  if (!is_from(0, of.score_cap)) return "'attn_logit_softcapping' must be above 0, or null";
  if (kind.caps_logits ? !(of.logit_cap > 0 && std::isfinite(of.logit_cap)) : of.logit_cap != 0)
    return kind.caps_logits ? "'final_logit_softcapping' must be above 0" : "'final_logit_softcapping' must be null";
  return "";
}

}  // namespace llama
