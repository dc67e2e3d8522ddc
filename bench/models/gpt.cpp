// A GPT on 8 texts of 256 tokens, dense or (EXPERTS) with mixtures of as many active parameters; counted in tokens.

#include "language_model.hpp"

#ifndef EXPERTS
#define EXPERTS 0
#endif

constexpr gpt::config sizes{.layers = 6,
                            .heads = 6,
                            .width = 384,
                            .context = 256,
                            .vocabulary = 256,
                            .experts = EXPERTS,
                            .experts_per_token = EXPERTS > 0 ? 2 : 0};
template <class D>
using training = bench::language_model<D, sizes>;

int main(int argc, char** argv) { return bench::measure<training>(argc, argv, bench::texts * sizes.context); }
