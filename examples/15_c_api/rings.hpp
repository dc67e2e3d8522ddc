#pragma once
// A model, and what its training is made of: for a C++ program, and for GRADUS_C_API.

#include <gradus/gradus.hpp>

namespace gr = gradus;

template <class X>
struct ring_classifier {
  gr::nn::linear<X, 2, 32> first;
  gr::nn::linear<X, 32, 32> second;
  gr::nn::linear<X, 32, 4> last;
  GRADUS_MEMBERS(first, second, last)

  constexpr auto operator()(const auto& places) const { return last(gr::gelu(second(gr::gelu(first(places))))); }
};

template <class D>
struct ring_training {
  using input = gr::tensor<float, gr::shape<gr::upto<64>, 2>, D>;
  using target = gr::tensor<std::int32_t, gr::shape<gr::upto<64>>, D>;

  ring_classifier<gr::on<D>> model;
  gr::adamw<float, D> optimizer{model};

  constexpr void init(gr::context<D>& ctx, std::uint64_t seed) { gr::init(model, ctx, gr::he_normal{.seed = seed}); }
  constexpr auto loss(const auto& places, const auto& rings) const { return gr::cross_entropy(model(places), rings); }
};
