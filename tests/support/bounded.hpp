// What bounded shapes compute, against static shapes with the same extents: families of operations, for CPU and GPU.
#pragma once

#include <cstdint>
#include <gradus/gradus.hpp>
#include <random>
#include <vector>

namespace gradus_test {

namespace gr = gradus;

using bits = std::vector<std::vector<float>>;

/// The result and the gradients of f(ctx, x, y) for operands with these extents, drawn from `seed`, in the context of a
/// new Place, whose memory is full of NaN.
template <class Place, class S, class F>
bits bits_of(const F& f, unsigned seed, const gr::extents_of<S>& extents) {
  Place place;
  std::mt19937 draw(seed);
  std::normal_distribution<float> normal;
  const auto operand = [&] {
    std::vector<float> values(extents.size);
    for (float& v : values) v = normal(draw);
    return gr::from_values<float, S>(place.ctx, values, extents);
  };
  gr::tape tape(place.ctx, 7);
  auto x = tape.variable(operand()), y = tape.variable(operand());
  auto z = f(place.ctx, x, y);
  bits all{gr::to_host(gr::cast<float>(z.value()))};
  gr::backward(gr::mean(z * z));
  for (const auto& v : {x.gradient(), y.gradient()}) all.push_back(v ? gr::to_host(v) : std::vector<float>{});
  return all;
}

/// A constant of any shape without bounds.
template <class S, class D>
auto constant(gr::context<D>& ctx, std::uint64_t seed) {
  return gr::normal<float, S>(ctx, {seed, 0, 0, gr::random_domain::tape});
}

/// Calls check(name, f) for operations whose last axis may be bounded on a GPU, too. x and y are [a, b, c].
template <class Check>
void families_of_any_axes(const Check& check) {
  check("elementwise", [](auto&, auto& x, auto& y) { return gr::exp(x) * y - 2.0f * x / (y * y + 1.0f); });
  check("broadcast of reductions",
        [](auto&, auto& x, auto& y) { return x * gr::mean<-1>(y, gr::keep_axes) + gr::max<0>(x, gr::keep_axes); });
  check("sum over the first", [](auto&, auto& x, auto& y) { return gr::sum<0>(x * y); });
  check("mean over the second", [](auto&, auto& x, auto& y) { return gr::mean<1>(x * y); });
  check("mean over all", [](auto&, auto& x, auto& y) { return gr::mean(x + y); });
  check("extremes", [](auto&, auto& x, auto& y) { return gr::max<1>(x) - gr::min<1>(y); });
  check("variance", [](auto&, auto& x, auto& y) { return gr::variance<0, 1>(x) + gr::sum(y); });
  check("dropout", [](auto&, auto& x, auto& y) { return gr::dropout(x * y, 0.3); });
  check("matmul of batches", [](auto&, auto& x, auto& y) { return gr::matmul<gr::transpose{.b = true}>(x, y); });
  check("matmul over time", [](auto&, auto& x, auto& y) { return gr::matmul<gr::transpose{.a = true}>(x, y); });
  check("permute", [](auto&, auto& x, auto& y) { return gr::permute<2, 0, 1>(x) * gr::permute<2, 0, 1>(y); });
}

/// x [B, 8, ...] normalised by the batch and by groups of each sample.
template <class D, class X>
auto channel_norms(gr::context<D>& ctx, const X& x) {
  const auto w = constant<gr::shape<8>>(ctx, 1), b = constant<gr::shape<8>>(ctx, 2);
  gr::state<gr::on<D>, 8> mean, variance;
  gr::init(mean, ctx, gr::normal_init{});
  gr::init(variance, ctx, gr::normal_init{});
  return gr::batch_norm(x, w, b, mean, variance) + gr::group_norm<2>(x, w, b);
}

/// Calls check(name, f) for operations that need a static last axis of 8.
template <class Check>
void families_of_rows(const Check& check) {
  check("batch_norm, group_norm", [](auto& ctx, auto& x, auto& y) {
    return channel_norms(ctx, gr::permute<0, 2, 1>(x)) + gr::sum(channel_norms(ctx, gr::sum<0>(x + y * 2.0f)));
  });
  check("pooling", [](auto&, auto& x, auto& y) {
    constexpr gr::pool window{3, 2, 1};
    return gr::max_pool1d<window>(x * y) * gr::avg_pool1d<window>(x) + gr::adaptive_avg_pool1d<4>(y);
  });
  check("broadcast", [](auto& ctx, auto& x, auto& y) {
    return x * constant<gr::shape<8>>(ctx, 1) + gr::mean<-1>(y, gr::keep_axes) * gr::max<0>(x, gr::keep_axes);
  });
  check("softmax", [](auto&, auto& x, auto& y) { return gr::softmax(x) + gr::log_softmax(y); });
  check("logsumexp", [](auto&, auto& x, auto& y) { return gr::logsumexp(x * y); });
  check("layer_norm", [](auto& ctx, auto& x, auto& y) {
    return gr::layer_norm(x * y, constant<gr::shape<8>>(ctx, 1), constant<gr::shape<8>>(ctx, 2));
  });
  check("rms_norm", [](auto& ctx, auto& x, auto& y) { return gr::rms_norm(x * y, constant<gr::shape<8>>(ctx, 1)); });
  check("linear", [](auto& ctx, auto& x, auto& y) {
    return gr::linear(x, constant<gr::shape<8, 6>>(ctx, 1), constant<gr::shape<6>>(ctx, 2)) *
           gr::mean<-1>(y, gr::keep_axes);
  });
  check("cross_entropy", [](auto& ctx, auto& x, auto& y) {
    const auto targets = gr::argmax<-1>(y.value());
    return gr::cross_entropy(x * 2.0f, targets) +
           gr::linear_cross_entropy(y, constant<gr::shape<16, 8>>(ctx, 3), targets);
  });
  check("linear_cross_entropy in chunks", [](auto& ctx, auto& x, auto& y) {
    const auto targets = gr::argmax<-1>(y.value());
    return gr::linear_cross_entropy<16, 4>(x, constant<gr::shape<16, 8>>(ctx, 3), targets);
  });
  check("lstm, gru", [](auto& ctx, auto& x, auto& y) {
    const auto start = gr::slice<1, 0, 2>(gr::mean<1>(y));
    const auto [z, h, c] = gr::lstm(x, constant<gr::shape<2, 8>>(ctx, 1), start, start * 2.0f);
    return gr::gru(gr::slice<2, 0, 6>(y), constant<gr::shape<2, 6>>(ctx, 2), constant<gr::shape<6>>(ctx, 3)) * z +
           gr::mean(h * c);
  });
  check("embedding", [](auto& ctx, auto& x, auto& y) {
    return gr::embedding(gr::argmax<-1>(x.value()), constant<gr::shape<8, 8>>(ctx, 3)) * y;
  });
}

/// Calls check(name, f) for operations with no kernel of their own, or with one that does not depend on shapes.
template <class Check>
void families_of_other_kernels(const Check& check) {
  check("cast", [](auto&, auto& x, auto& y) { return gr::cast<float>(gr::cast<gr::bf16>(x) * gr::cast<gr::bf16>(y)); });
  check("concat along a bounded axis", [](auto&, auto& x, auto& y) { return gr::concat<1>(x, y * 2.0f, x); });
  check("slice", [](auto&, auto& x, auto& y) { return gr::slice<1, 1, 2>(x) * gr::slice<1, 0, 2>(y); });
  check("split and concat", [](auto&, auto& x, auto& y) {
    auto [a, b] = gr::split<2, 3, 5>(x);
    return gr::concat<2>(b, y, a);
  });
  check("checkpoint", [](auto& ctx, auto& x, auto& y) {
    const auto w = constant<gr::shape<8, 8>>(ctx, 1);
    const auto block = [w](auto a, auto b) {
      return gr::dropout(gr::tanh(gr::linear(a, w)) + a * gr::softmax(b), 0.2);
    };
    return gr::checkpoint(block, gr::checkpoint<gr::save_all>(block, x, y), y);
  });
}

}  // namespace gradus_test
