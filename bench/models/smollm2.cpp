// The shape of SmolLM2 135M on 4 texts of 256 tokens: all weights in float, or adapters (LORA is their rank) beside
// frozen weights of a policy. Counted in tokens.

#include <llama/model.hpp>

#include "language_model.hpp"

#ifndef LORA
#define LORA 0
#endif
#ifndef POLICY
#define POLICY fp32
#endif

constexpr llama::config sizes{.layers = 30,
                              .heads = 9,
                              .width = 576,
                              .context = 256,
                              .vocabulary = 49152,
                              .kv_heads = 3,
                              .hidden = 1536,
                              .tied = true};
template <class D>
using training = bench::language_model<D, sizes, 4, gradus::POLICY, LORA>;

int main(int argc, char** argv) { return bench::measure<training>(argc, argv, 4 * sizes.context); }
