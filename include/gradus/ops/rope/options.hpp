#pragma once
// The options of rotary positions.

#include "../../core/extent.hpp"

namespace gradus {

/// Which elements of a head are rotated together: i and i + D/2 (Llama, GPT-NeoX), or 2i and 2i + 1 (GPT-J, the paper).
enum class rope_layout { halves, pairs };

/// How waves become longer: all alike; or less the shorter they are, between two numbers of turns, as in Llama 3 or as
/// in YaRN (Peng et al. 2023, arXiv 2309.00071).
enum class rope_rule { linear, llama3, yarn };

/// Scaling of frequencies for contexts beyond `original_context`: waves that complete fewer than low_freq_factor turns
/// in it become `factor` times longer, waves of more than high_freq_factor turns stay; with rope_rule::linear, all
/// become longer.
struct rope_scaling {
  double factor = 1;  ///< 1: no scaling
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  double original_context = 8192;
  rope_rule rule = rope_rule::llama3;
  double amplitude = 1;  ///< factor of what is rotated (YaRN's attention factor)
};

/// Options of rope(x, {...}).
struct rope_options {
  double base = 10000;   ///< pair i of a head turns by base^(-2i/D) a position
  index_t position = 0;  ///< of the first row
  rope_layout layout = rope_layout::halves;
  rope_scaling scaling = {};
};

}  // namespace gradus
