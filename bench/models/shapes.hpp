#pragma once
// Shapes of Llamas that benchmarks train.

#include <llama/model.hpp>

namespace bench {

/// 15M parameters.
inline constexpr llama::config small_llama{.layers = 6,
                                           .heads = 6,
                                           .width = 288,
                                           .context = 256,
                                           .vocabulary = 32000,
                                           .kv_heads = 6,
                                           .hidden = 768,
                                           .tied = true};
/// SmolLM2 135M.
inline constexpr llama::config smollm2{.layers = 30,
                                       .heads = 9,
                                       .width = 576,
                                       .context = 256,
                                       .vocabulary = 49152,
                                       .kv_heads = 3,
                                       .hidden = 1536,
                                       .tied = true};
/// Qwen 2.5 0.5B.
inline constexpr llama::config qwen2{.layers = 24,
                                     .heads = 14,
                                     .width = 896,
                                     .context = 256,
                                     .vocabulary = 151936,
                                     .kv_heads = 2,
                                     .hidden = 4864,
                                     .tied = true,
                                     .family = llama::family_named("qwen2"),
                                     .biases = 1};
/// Llama 3.2 1B.
inline constexpr llama::config llama3{.layers = 16,
                                      .heads = 32,
                                      .width = 2048,
                                      .context = 256,
                                      .vocabulary = 128256,
                                      .kv_heads = 8,
                                      .hidden = 8192,
                                      .tied = true};

/// The shape with another context.
constexpr llama::config with_context(llama::config shape, gradus::index_t context) {
  shape.context = context;
  return shape;
}

}  // namespace bench
