#pragma once
// Adapters on all linear layers of a benchmark's model.

#include <string_view>

#include <gpt/training.hpp>

namespace bench {

namespace gr = gradus;

/// The options with adapters on all linear layers of the model of sizes C, unless the rank is 0.
template <auto C, class P, gr::index_t Rank>
gr::training_options with_adapters(gr::training_options o) {
  if constexpr (Rank > 0) {
    gpt::model_of<gpt::placed<gr::meta, P, Rank>, C> model;
    gr::nn::for_each_adapter_slot(model, [&](std::string_view name, auto&) { o.adapted_layers.emplace_back(name); });
  }
  return o;
}

}  // namespace bench
