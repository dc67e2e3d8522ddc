#pragma once
// The numbers of a Llama, which may change between steps.

#include "../core/extent.hpp"
#include "../ops/rope/options.hpp"

namespace gradus::nn {

/// The numbers of a Llama that are neither sizes nor parameters.
struct llama_settings {
  double norm_eps = 1e-5;
  rope_options rope = {};
  double window = 0;       ///< positions that attention looks back over, its own among them; 0: all
  double window_from = 0;  ///< the first layer with that window
  double full_every = 0;   ///< the last of so many layers has no window; 0: all have it
  double window_rope = 0;  ///< rotary base of layers with a window, unscaled; 0: `rope`
  double score_scale = 0;  ///< factor of attention scores; 0: 1 / sqrt(elements of a head)
  double score_cap = 0;    ///< scores s become cap tanh(s / cap); 0: as they are
  double logit_cap = 0;    ///< likewise of logits, in a model that caps them

  /// Whether layer number `index` looks back over the window only.
  constexpr bool windowed(index_t index) const {
    const auto every = static_cast<index_t>(full_every);
    return window > 0 && index >= static_cast<index_t>(window_from) && (every == 0 || (index + 1) % every != 0);
  }
  /// The settings of layer number `index`.
  constexpr llama_settings layer(index_t index) const {
    llama_settings of = *this;
    if (!windowed(index)) of.window = 0;
    else if (window_rope > 0) of.rope = {.base = window_rope};
    return of;
  }
};

}  // namespace gradus::nn
