#pragma once
// The sizes of the small random models in tests/data that fine-tuning starts from.

#include "gpt/config.hpp"

namespace gradus_test {

/// tests/data/llama_family/qwen2
inline constexpr llama::config small_llama{.layers = 3,
                                           .heads = 2,
                                           .width = 14,
                                           .context = 18,
                                           .vocabulary = 37,
                                           .kv_heads = 1,
                                           .hidden = 18,
                                           .tied = 1,
                                           .family = llama::family_named("qwen2"),
                                           .head_size = 6,
                                           .biases = 1};
/// tests/data/gpt2
inline constexpr gpt::config small_gpt2{.layers = 2, .heads = 3, .width = 21, .context = 13, .vocabulary = 61};

}  // namespace gradus_test
