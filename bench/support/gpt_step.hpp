#pragma once
// The training step of examples/gpt for one model of bench/, whose shape comes from bench/CMakeLists.txt, on random
// tokens.

#include <vector>

#include "gpt/training.hpp"

#include "process.hpp"

namespace bench {

namespace gr = gradus;

inline constexpr gpt::config config{GPT_LAYERS, GPT_HEADS, GPT_WIDTH, GPT_CONTEXT, GPT_VOCABULARY};
inline constexpr gr::index_t batch = GPT_BATCH;

#ifndef GPT_PRECISION
#define GPT_PRECISION fp32
#endif

/// `Token` is the element type of the batches.
template <class D, class Token>
using training = gpt::training<D, config, batch, Token, gr::GPT_PRECISION>;

/// One batch, the same in every run.
template <class Token>
struct random_batch {
  std::vector<Token> inputs, targets;

  random_batch() : inputs(batch * config.context), targets(inputs.size()) {
    const gr::random_key key{.seed = 5};
    constexpr gr::index_t used =
        config.vocabulary > 1000 ? config.vocabulary - 47 : config.vocabulary;  // without padding
    for (gr::index_t i = 0; i < inputs.size(); ++i) {
      const auto w = key.words(i);
      inputs[i] = static_cast<Token>(w[0] % used);
      targets[i] = static_cast<Token>(w[1] % used);
    }
  }
};

}  // namespace bench
