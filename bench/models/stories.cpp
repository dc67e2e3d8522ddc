// A Llama of 15M parameters on 16 short texts of 16 to 256 tokens, one behind the other; with LORA, adapters of this
// rank in the shape of SmolLM2 135M on 8 texts. Counted in texts.

#include <algorithm>

#include <gradus/data/token_examples.hpp>

#include <gpt/training.hpp>

#include "adapters.hpp"
#include "measure.hpp"
#include "shapes.hpp"

namespace gr = gradus;

namespace {

#ifndef LORA
#define LORA 0
#endif
constexpr gr::index_t texts = LORA > 0 ? 8 : 16;
constexpr llama::config sizes = LORA > 0 ? bench::smollm2 : bench::small_llama;
template <class D>
struct training : gpt::training<D, sizes, texts, std::int32_t, gr::fp32, gr::adamw, LORA, true> {
  using base = gpt::training<D, sizes, texts, std::int32_t, gr::fp32, gr::adamw, LORA, true>;
  training(gr::context<D>& persistent, gr::context<D>& transient)
      : base(persistent, transient, bench::with_adapters<sizes, gr::fp32, LORA>({.adamw = {.lr = 1e-4}})) {}
  void load() {
    std::vector<gr::token_example> examples(texts);
    std::vector<std::size_t> all(texts);
    std::size_t positions = 0;
    const gr::random_key key{.seed = 5};
    for (gr::index_t i = 0; i < texts; ++i) {
      const gr::index_t tokens = sizes.context - 240 * i / (texts - 1);
      for (gr::index_t t = 0; t <= tokens; ++t)
        examples[i].tokens.push_back(static_cast<std::int32_t>(key.words(i * 512 + t)[0] % sizes.vocabulary));
      examples[i].is_target.assign(tokens + 1, 1);
      all[i] = i;
      positions += tokens;
    }
    base::load(0, gr::pack_batch(examples, all, positions));
  }
  double loss() { return this->send_loss().value(); }
};

}  // namespace

int main(int argc, char** argv) { return bench::measure<training>(argc, argv, texts); }
