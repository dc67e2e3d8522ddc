// BERT base on 8 sequences of up to 128 tokens, padded.

#include <bert/training.hpp>

#include "measure.hpp"

namespace gr = gradus;

namespace {

constexpr gr::index_t batch = 8, length = 128;
constexpr bert::config sizes{.layers = 12,
                             .heads = 12,
                             .width = 768,
                             .hidden = 3072,
                             .positions = 512,
                             .vocabulary = 30522,
                             .segments = 2,
                             .labels = 2};
const gpt::step_options options{.adamw = {.lr = 1e-4}};

#ifndef MODELS_OPTIMIZER
#define MODELS_OPTIMIZER adamw
#endif

template <class D>
struct training : bert::training<D, sizes, batch, length, gr::fp32, gr::MODELS_OPTIMIZER> {
  using base = bert::training<D, sizes, batch, length, gr::fp32, gr::MODELS_OPTIMIZER>;
  training(gr::context<D>& persistent, gr::context<D>& transient) : base(persistent, transient, options) {}
  void load() {
    bert::host_batch b{std::vector<std::int32_t>(batch * length), std::vector<std::uint8_t>(batch * length), {}, {}};
    const gr::random_key key{.seed = 5};
    for (gr::index_t i = 0; i < b.tokens.size(); ++i)
      b.tokens[i] = static_cast<std::int32_t>(key.words(i)[0] % sizes.vocabulary);
    for (gr::index_t i = 0; i < batch; ++i) {
      b.lengths.push_back(static_cast<std::int32_t>(length - 96 * i / (batch - 1)));
      b.labels.push_back(static_cast<std::int32_t>(i % 2));
    }
    base::load(0, b);
  }
  double loss() { return this->send_loss().value(); }
};

}  // namespace

int main(int argc, char** argv) { return bench::measure<training>(argc, argv, batch); }
