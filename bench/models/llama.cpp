// A Llama of 15M parameters on 8 texts of 256 tokens; counted in tokens.

#include <llama/model.hpp>

#include <gpt/training.hpp>

#include "measure.hpp"

namespace gr = gradus;

namespace {

constexpr gr::index_t batch = 8;
constexpr llama::config sizes{.layers = 6,
                              .heads = 6,
                              .width = 288,
                              .context = 256,
                              .vocabulary = 32000,
                              .kv_heads = 6,
                              .hidden = 768,
                              .tied = true};
const gpt::step_options options{.adamw = {.lr = 1e-4}};

template <class D>
struct training : gpt::training<D, sizes, batch, std::uint16_t> {
  using base = gpt::training<D, sizes, batch, std::uint16_t>;
  training(gr::context<D>& persistent, gr::context<D>& transient) : base(persistent, transient, options) {}
  void load() {
    std::vector<std::uint16_t> inputs(base::ids::size), targets(base::ids::size);
    const gr::random_key key{.seed = 5};
    for (gr::index_t i = 0; i < inputs.size(); ++i) {
      inputs[i] = static_cast<std::uint16_t>(key.words(i)[0] % sizes.vocabulary);
      targets[i] = static_cast<std::uint16_t>(key.words(i)[1] % sizes.vocabulary);
    }
    base::load(0, inputs.data(), targets.data());
  }
  double loss() { return this->send_loss().value(); }
};

}  // namespace

int main(int argc, char** argv) { return bench::measure<training>(argc, argv, batch * sizes.context); }
