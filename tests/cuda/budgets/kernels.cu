// Launches what budgets.sh counts: the kernels of a GPT-2 step that cost most, at its widths, and windows of 3 x 3.
#include <gradus/cuda.hpp>

#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

namespace gr = gradus;
namespace {

constexpr gr::index_t rows = 2048, width = 768, classes = 50257, padded = 50304;

template <class T, class S>
gr::tensor<T, S, gr::cuda> values(gr::context<gr::cuda>& ctx, float step) {
  std::vector<T> all(S::size);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = T(step * static_cast<float>(i * 7919 % 101) - 1);
  return gr::from_host<T, S>(ctx, all.data());
}

/// One head of 64 and 1024 tokens: forward, and backward by tiles and by whole heads.
void attention(gr::context<gr::cuda>& ctx) {
  constexpr gr::index_t times = 1024, depth = 64;
  using S = gr::shape<times, depth>;
  constexpr gr::cuda_kit::attention_launches<float, gr::bf16, depth, true> launches{1, 1, times, times};
  const auto at = [](gr::bf16* x) { return gr::attention_operand<gr::bf16>{x, S::size, S::size, depth, false}; };
  const auto from = [](const auto& x) {
    return gr::attention_operand<const gr::bf16>{x.data(), S::size, S::size, depth, false};
  };
  const auto q = values<gr::bf16, S>(ctx, 0.02f), dy = values<gr::bf16, S>(ctx, 0.03f);
  auto y = gr::empty<gr::bf16, S>(ctx), dq = gr::empty<gr::bf16, S>(ctx), dk = gr::empty<gr::bf16, S>(ctx),
       dv = gr::empty<gr::bf16, S>(ctx);
  auto lse = gr::empty<float, gr::shape<times>>(ctx);
  launches.forward(ctx, at(y.data()), lse.data(), from(q), from(q), from(q));
  for (const unsigned by_heads : {0u, 1u})
    launches.backward(ctx, by_heads, at(dq.data()), at(dk.data()), at(dv.data()), from(dy), from(q), from(q), from(q),
                      from(y), lse.data());
}

/// One head of 64 and 512 tokens that attend to all, forward and backward.
template <bool Drops>
void attention_with_options(gr::context<gr::cuda>& ctx) {
  constexpr gr::index_t times = 512, depth = 64;
  using S = gr::shape<times, depth>;
  using scores = gr::cuda_kit::ruled_scores<Drops, false>;
  const std::int32_t length = times;
  const auto lengths = gr::from_host<std::int32_t, gr::shape<1>>(ctx, &length);
  const gr::attention_sizes sizes{1, 1, 1, times, times};
  gr::attention_options<gr::cuda> options;
  options.key_lengths = lengths;
  options.dropout = Drops ? 0.1 : 0;
  const auto rules = gr::detail::rules_of<float, depth>(options, sizes, {});
  const gr::cuda_kit::ruled_tensor_launches<gr::bf16, depth, scores> launches{{sizes, {rules, {}, 1}}};
  const auto at = [](auto& x) {
    return gr::attention_operand<std::remove_pointer_t<decltype(x.data())>>{x.data(), S::size, S::size, depth, false};
  };
  const auto q = values<gr::bf16, S>(ctx, 0.02f), dy = values<gr::bf16, S>(ctx, 0.03f);
  auto y = gr::empty<gr::bf16, S>(ctx), dq = gr::empty<gr::bf16, S>(ctx), dk = gr::empty<gr::bf16, S>(ctx),
       dv = gr::empty<gr::bf16, S>(ctx);
  auto lse = gr::empty<float, gr::shape<times>>(ctx);
  launches.forward(ctx, at(y), lse.data(), at(q), at(q), at(q));
  launches.backward(ctx, {at(dq), at(dk), at(dv)}, {at(dy), at(q), at(q), at(q), at(std::as_const(y)), lse.data()});
}

/// The stream of a block: a sum, a norm and GELU, forward and backward.
void stream(gr::context<gr::cuda>& ctx) {
  gr::tape<gr::cuda> tape{ctx};
  const auto x = tape.variable(values<float, gr::shape<rows, width>>(ctx, 0.02f));
  const auto branch = tape.variable(values<gr::bf16, gr::shape<rows, width>>(ctx, 0.02f));
  using X = gr::nn::detail::norms_before_products<gr::on<gr::cuda, gr::bf16_mixed>>::type;
  gr::nn::layer_norm<X, width> norm;
  gr::init(norm, ctx, gr::normal_init{.seed = 1, .stddev = 0.02});
  const auto wide = tape.variable(values<gr::bf16, gr::shape<rows, 4 * width>>(ctx, 0.02f));
  gr::backward_all(gr::sum(gr::cast<float>(norm(x + branch))), gr::sum(gr::cast<float>(gr::gelu(wide))));
}

void loss(gr::context<gr::cuda>& ctx) {
  constexpr gr::index_t tokens = 64;
  gr::tape<gr::cuda> tape{ctx};
  const auto x = tape.variable(values<gr::bf16, gr::shape<tokens, width>>(ctx, 0.02f));
  const auto table = tape.variable(values<gr::bf16, gr::shape<padded, width>>(ctx, 0.001f));
  std::vector<std::int32_t> ids(tokens);
  for (gr::index_t i = 0; i < tokens; ++i) ids[i] = static_cast<std::int32_t>(i * 773 % classes);
  const auto targets = gr::from_host<std::int32_t, gr::shape<tokens>>(ctx, ids.data());
  gr::backward(gr::linear_cross_entropy<classes>(x, table, targets));
}

/// Windows of 3 x 3, in groups of four channels and in all of them.
void convolutions(gr::context<gr::cuda>& ctx) {
  const auto x = values<gr::bf16, gr::shape<1, 64, 28, 28>>(ctx, 0.02f);
  gr::conv2d<gr::conv{.padding = 1, .groups = 16}>(x, values<gr::bf16, gr::shape<64, 4, 3, 3>>(ctx, 0.02f));
  gr::conv2d<gr::conv{.padding = 1}>(x, values<gr::bf16, gr::shape<64, 64, 3, 3>>(ctx, 0.02f));
}

}  // namespace

int main() {
  gr::cuda_stream stream_of_all;
  gr::device_resource memory;
  gr::context ctx{stream_of_all, memory};
  attention(ctx);
  attention_with_options<false>(ctx);
  attention_with_options<true>(ctx);
  stream(ctx);
  loss(ctx);
  convolutions(ctx);
  stream_of_all.synchronize();
}
