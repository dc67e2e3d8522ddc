#pragma once
// A step of a language model of examples/gpt or examples/llama, on texts of random tokens.

#include <gpt/training.hpp>

#include "measure.hpp"

namespace bench {

inline constexpr gr::index_t texts = 8;

/// A step of the language model of sizes C.
/// @tparam Rank of adapters on all linear layers, which are trained in place of the weights; 0: there are none
template <class D, auto C, gr::index_t Texts = texts, class P = gr::fp32, gr::index_t Rank = 0>
struct language_model : gpt::training<D, C, Texts, std::uint16_t, P, gr::adamw, Rank> {
  using base = gpt::training<D, C, Texts, std::uint16_t, P, gr::adamw, Rank>;
  language_model(gr::context<D>& persistent, gr::context<D>& transient) : base(persistent, transient, options()) {}
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

 private:
  static gr::training_options options() {
    gr::training_options o{.adamw = {.lr = 1e-4}};
    if constexpr (Rank > 0) {
      gpt::model_of<gpt::placed<gr::meta, P, Rank>, C> model;
      gr::nn::for_each_adapter_slot(model, [&](std::string_view name, auto&) { o.adapted_layers.emplace_back(name); });
    }
    return o;
  }
};

}  // namespace bench
