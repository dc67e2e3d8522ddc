#pragma once
// A step of a language model of examples/gpt or examples/llama, on 8 texts of random tokens.

#include <gpt/training.hpp>

#include "measure.hpp"

namespace bench {

inline constexpr gr::index_t texts = 8;

/// A step of the language model of sizes C.
template <class D, auto C>
struct language_model : gpt::training<D, C, texts, std::uint16_t> {
  using base = gpt::training<D, C, texts, std::uint16_t>;
  language_model(gr::context<D>& persistent, gr::context<D>& transient)
      : base(persistent, transient, {.adamw = {.lr = 1e-4}}) {}
  void load() {
    std::vector<std::uint16_t> inputs(base::ids::size), targets(base::ids::size);
    const gr::random_key key{.seed = 5};
    for (gr::index_t i = 0; i < inputs.size(); ++i) {
      inputs[i] = static_cast<std::uint16_t>(key.words(i)[0] % C.vocabulary);
      targets[i] = static_cast<std::uint16_t>(key.words(i)[1] % C.vocabulary);
    }
    base::load(0, inputs.data(), targets.data());
  }
  double loss() { return this->send_loss().value(); }
};

}  // namespace bench
