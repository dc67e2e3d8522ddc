// A Llama of 15M parameters on 8 texts of 256 tokens; counted in tokens.

#include <llama/model.hpp>

#include "language_model.hpp"

constexpr llama::config sizes{.layers = 6,
                              .heads = 6,
                              .width = 288,
                              .context = 256,
                              .vocabulary = 32000,
                              .kv_heads = 6,
                              .hidden = 768,
                              .tied = true};
template <class D>
using training = bench::language_model<D, sizes>;

int main(int argc, char** argv) { return bench::measure<training>(argc, argv, bench::texts * sizes.context); }
