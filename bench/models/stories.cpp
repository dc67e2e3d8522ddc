// A Llama of 15M parameters on 16 short texts of 16 to 256 tokens, one behind the other; counted in texts.

#include <algorithm>

#include <gradus/data/token_examples.hpp>
#include <llama/model.hpp>

#include <gpt/training.hpp>

#include "measure.hpp"

namespace gr = gradus;

namespace {

constexpr gr::index_t texts = 16;
constexpr llama::config sizes{.layers = 6,
                              .heads = 6,
                              .width = 288,
                              .context = 256,
                              .vocabulary = 32000,
                              .kv_heads = 6,
                              .hidden = 768,
                              .tied = true};
template <class D>
struct training : gpt::training<D, sizes, texts, std::int32_t, gr::fp32, gr::adamw, 0, true> {
  using base = gpt::training<D, sizes, texts, std::int32_t, gr::fp32, gr::adamw, 0, true>;
  training(gr::context<D>& persistent, gr::context<D>& transient)
      : base(persistent, transient, {.adamw = {.lr = 1e-4}}) {}
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
