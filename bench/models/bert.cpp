// BERT base on 8 sequences of 8 to 128 tokens, one behind the other.

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
#ifndef OPTIMIZER
#define OPTIMIZER adamw
#endif
template <class D>
using base_training = bert::training<D, sizes, batch, length, gr::fp32, gr::OPTIMIZER>;

// With BUDGET, in MiB, what backward recomputes is chosen for it.
gr::training_options make_options() {
  gr::training_options o{.adamw = {.lr = 1e-4}};
#ifdef BUDGET
  o.regions = gr::recompute_schedule<base_training<gr::meta>>(std::size_t{BUDGET} << 20, o).regions;
#endif
  return o;
}
const gr::training_options options = make_options();

template <class D>
struct training : base_training<D> {
  using base = base_training<D>;
  training(gr::context<D>& persistent, gr::context<D>& transient) : base(persistent, transient, options) {}
  void load() {
    bert::host_batch b;
    const gr::random_key key{.seed = 5};
    for (gr::index_t i = 0; i < batch; ++i) {
      const gr::index_t tokens = length - 120 * i / (batch - 1);
      b.lengths.push_back(static_cast<std::int32_t>(tokens));
      b.labels.push_back(static_cast<std::int32_t>(i % 2));
      for (gr::index_t t = 0; t < tokens; ++t)
        b.tokens.push_back(static_cast<std::int32_t>(key.words(i * length + t)[0] % sizes.vocabulary));
    }
    b.segments.resize(b.tokens.size());
    base::load(0, b);
  }
  double loss() { return this->send_loss().value(); }
};

}  // namespace

int main(int argc, char** argv) { return bench::measure<training>(argc, argv, batch); }
