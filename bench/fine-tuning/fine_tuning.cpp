// Fine-tuning in the shape of a small open model: all weights, or adapters beside frozen ones. The build defines SHAPE,
// TEXTS of CONTEXT tokens, POLICY, OPTIMIZER, LORA (the adapters' rank, or 0), BASE (how the frozen weights are stored)
// and BLOCKS (whether each block is computed again in backward). Counted in tokens.

#include <cstdint>
#include <vector>

#include <gpt/training.hpp>

#include "../models/adapters.hpp"
#include "../models/measure.hpp"
#include "../models/shapes.hpp"

#ifndef POLICY
#define POLICY fp32
#endif
#ifndef OPTIMIZER
#define OPTIMIZER adamw
#endif
#ifndef LORA
#define LORA 0
#endif
#ifndef BASE
#define BASE stored
#endif
#ifndef BLOCKS
#define BLOCKS 0
#endif

namespace gr = gradus;

namespace {

constexpr llama::config sizes = bench::with_context(bench::SHAPE, CONTEXT);
constexpr auto base_storage = gr::nn::base_storage::BASE;

template <class D>
using step = gpt::training<D, sizes, TEXTS, std::int32_t, gr::POLICY, gr::OPTIMIZER, LORA, false, base_storage>;

gr::training_options options() {
  gr::training_options o{.adamw = {.lr = 1e-4}};
  if (BLOCKS) o.regions = gr::region_schedule::every_block(sizes.layers);
  return bench::with_adapters<sizes, gr::POLICY, LORA>(o);
}

template <class D>
struct training : step<D> {
  training(gr::context<D>& persistent, gr::context<D>& transient) : step<D>(persistent, transient, options()) {}
  void load() {
    constexpr gr::index_t tokens = step<D>::ids::size;
    std::vector<std::int32_t> inputs(tokens), targets(tokens);
    const gr::random_key key{.seed = 5};
    for (gr::index_t i = 0; i < tokens; ++i) {
      const auto [input, target, more, last] = key.words(i);
      inputs[i] = static_cast<std::int32_t>(input % sizes.vocabulary);
      targets[i] = static_cast<std::int32_t>(target % sizes.vocabulary);
    }
    step<D>::load(0, inputs.data(), targets.data());
  }
  double loss() { return this->send_loss().value(); }
};

}  // namespace

int main(int argc, char** argv) { return bench::measure<training>(argc, argv, TEXTS * CONTEXT); }
