#include <gradus/gradus.hpp>

namespace gr = gradus;
template <gr::index_t... Extents>
using tensor = gr::tensor<float, gr::shape<Extents...>>;

// case: attention_bias
// expect: attention\(q, k, v, bias\): bias must be \[1 or B, 1 or heads, Tq, Tk\]
// expect: shape<1, 2, 8, 5>, 2, 6, 5, 8>
auto f(const tensor<2, 5, 6 * 16>& q, const tensor<2, 8, 3 * 16>& k, const tensor<1, 2, 8, 5>& bias) {
  return gr::attention<6>(q, k, k, bias);
}
// twin
auto f(const tensor<2, 5, 6 * 16>& q, const tensor<2, 8, 3 * 16>& k, const tensor<1, 6, 5, 8>& bias) {
  return gr::attention<6>(q, k, k, bias);
}

// case: attention_depth
// expect: attention\(q, k, v\): q and k must have the same batch, heads and depth, or q a multiple of k.s heads
// expect: shape<2, 4, 8, 24>, (gradus::)?shape<2, 4, 8, 16>
auto f(const tensor<2, 4, 8, 24>& q, const tensor<2, 4, 8, 16>& k) { return gr::attention(q, k, k); }
// twin
auto f(const tensor<2, 4, 8, 16>& q, const tensor<2, 4, 8, 16>& k) { return gr::attention(q, k, k); }

// case: attention_heads
// expect: attention<Heads>\(q, k, v\): Heads must be a multiple of the heads of k and v
// expect(g++): heads_share<6, 4>
// expect(clang++): heads_share<6UL, shape<2, 8, 64>
auto f(const tensor<2, 5, 6 * 16>& q, const tensor<2, 8, 4 * 16>& k) {
  return gr::attention<6>(q, k, k, {.causal = true});
}
// twin
auto f(const tensor<2, 5, 6 * 16>& q, const tensor<2, 8, 3 * 16>& k) {
  return gr::attention<6>(q, k, k, {.causal = true});
}

// case: attention_keys_and_values
// expect: attention\(q, k, v\): k and v must have the same shape
// expect: shape<2, 4, 8, 16>, (gradus::)?shape<2, 4, 7, 16>
auto f(const tensor<2, 4, 8, 16>& q, const tensor<2, 4, 7, 16>& v) { return gr::attention(q, q, v); }
// twin
auto f(const tensor<2, 4, 8, 16>& q, const tensor<2, 4, 8, 16>& v) { return gr::attention(q, q, v); }

// case: attention_lengths_of_another_type
// expect: lengths must have elements of std::int32_t and masks of bool, .*write cast<std::int32_t>\(lengths\)
auto f(const tensor<2, 4, 8>& q, const gr::tensor<std::int64_t, gr::shape<2>>& lengths) {
  return gr::attention<2>(q, q, q, {.key_lengths = lengths});
}
// twin
auto f(const tensor<2, 4, 8>& q, const gr::tensor<std::int32_t, gr::shape<2>>& lengths) {
  return gr::attention<2>(q, q, q, {.key_lengths = lengths});
}

// case: attention_of_two_types
// expect: matmul, linear, conv, attention: operands must be of one floating-point type, or of float and one 16-bit type
// expect: element_types_fit<false, .*attention.*, float, double, double>
auto f(const tensor<1, 2, 3, 4>& q, const gr::tensor<double, gr::shape<1, 2, 3, 4>>& k) {
  return gr::attention(q, k, k);
}
// twin
auto f(const tensor<1, 2, 3, 4>& q, const tensor<1, 2, 3, 4>& k) { return gr::attention(q, k, k); }

// case: attention_width
// expect: attention<Heads>\(q, k, v\): the last axis of k and v must be divisible by the depth of q's heads
// expect(g++): width_divides<40, 16>
// expect(clang++): width_divides<shape<2, 8, 40>
auto f(const tensor<2, 5, 6 * 16>& q, const tensor<2, 8, 40>& k) { return gr::attention<6>(q, k, k); }
// twin
auto f(const tensor<2, 5, 6 * 16>& q, const tensor<2, 8, 48>& k) { return gr::attention<6>(q, k, k); }

// case: bounded_width_of_attention
// expect: attention\(q, k, v\): only the batch and the numbers of queries and keys may be upto<N>
auto attend(const tensor<4, gr::upto<9>, gr::upto<16>>& x) { return gr::attention<2>(x, x, x); }
// twin
auto attend(const tensor<4, gr::upto<9>, 16>& x) { return gr::attention<2>(x, x, x); }

// case: cached_attention_heads
// expect: must have the past's \[B, H, S, D\] sequences, heads and numbers of a head
// expect(g++): fits_the_past<gradus::shape<1, 1, 24>, gradus::shape<1, 4, 16, 4>, 2
namespace gr = gradus;
void attend(gr::context<gr::cpu>& ctx) {
  const auto qkv = gr::zeros<float, gr::shape<1, 1, 24>>(ctx);
  gr::nn::key_value_cache<gr::on<gr::cpu>, 1, 1, 4, 16, 4> past(ctx);
  gr::causal_attention<2>(qkv, past.layer(0, 1));
}
// twin
namespace gr = gradus;
void attend(gr::context<gr::cpu>& ctx) {
  const auto qkv = gr::zeros<float, gr::shape<1, 1, 24>>(ctx);
  gr::nn::key_value_cache<gr::on<gr::cpu>, 1, 1, 2, 16, 4> past(ctx);
  gr::causal_attention<2>(qkv, past.layer(0, 1));
}

// case: cached_attention_of_another_type
// expect: the past must hold the element type of qkv
namespace gr = gradus;
void attend(gr::context<gr::cpu>& ctx) {
  const auto qkv = gr::zeros<float, gr::shape<1, 1, 24>>(ctx);
  gr::nn::key_value_cache<gr::on<gr::cpu, gr::bf16_mixed>, 1, 1, 2, 16, 4> past(ctx);
  gr::causal_attention<2>(qkv, past.layer(0, 1));
}
// twin
namespace gr = gradus;
void attend(gr::context<gr::cpu>& ctx) {
  const auto qkv = gr::zeros<float, gr::shape<1, 1, 24>>(ctx);
  gr::nn::key_value_cache<gr::on<gr::cpu>, 1, 1, 2, 16, 4> past(ctx);
  gr::causal_attention<2>(qkv, past.layer(0, 1));
}

// case: cached_attention_recorded
// expect: a cache is for inference only; qkv must not be recorded
namespace gr = gradus;
void attend(gr::context<gr::cpu>& ctx) {
  gr::tape tape{ctx};
  auto qkv = gr::zeros<float, gr::shape<1, 1, 24>>(ctx);
  gr::nn::key_value_cache<gr::on<gr::cpu>, 1, 1, 2, 16, 4> past(ctx);
  gr::causal_attention<2>(tape.watch(qkv), past.layer(0, 1));
}
// twin
namespace gr = gradus;
void attend(gr::context<gr::cpu>& ctx) {
  gr::tape tape{ctx};
  auto qkv = gr::zeros<float, gr::shape<1, 1, 24>>(ctx);
  gr::nn::key_value_cache<gr::on<gr::cpu>, 1, 1, 2, 16, 4> past(ctx);
  gr::causal_attention<2>(qkv, past.layer(0, 1));
}

// case: causal_attention_rank
// expect: causal_attention<Heads>\(qkv\): qkv must have three axes
auto f(const tensor<8, 96>& qkv) { return gr::causal_attention<4>(qkv); }
// twin
auto f(const tensor<2, 8, 96>& qkv) { return gr::causal_attention<4>(qkv); }

// case: causal_attention_width
// expect: causal_attention<Heads>\(qkv\): the last axis of qkv must be divisible by 3 \* Heads
// expect(g++): width_divides<100(UL)?, 12(UL)?>
// expect(clang++): width_divides<shape<2, 8, 100>
auto f(const tensor<2, 8, 100>& qkv) { return gr::causal_attention<4>(qkv); }
// twin
auto f(const tensor<2, 8, 96>& qkv) { return gr::causal_attention<4>(qkv); }

// case: nn_attention_heads
// expect: attention<X, Width, Heads>: Width must be divisible by Heads
// expect: heads_divide_width<5(UL)?, 768(UL)?>
gr::nn::attention<gr::on<gr::cpu>, 768, 5> layer;
// twin
gr::nn::attention<gr::on<gr::cpu>, 768, 12> layer;

// case: rope_heads
// expect: rope<Heads>\(x\): the last axis must be divisible by 2 \* Heads
// expect(g++): heads_have_pairs<36, 12>
// expect(clang++): heads_have_pairs<shape<2, 8, 36>
auto f(const tensor<2, 8, 36>& x) { return gr::rope<12>(x, {.base = 500000}); }
// twin
auto f(const tensor<2, 8, 48>& x) { return gr::rope<12>(x, {.base = 500000}); }

// case: rope_positions
// expect: rope<Heads>\(x, positions\): positions must be \[..., T\], of the shape of x without its last axis
// expect: a_position_for_each_row<.*shape<2, 8, 48>, (gradus::)?shape<8>
auto f(const tensor<2, 8, 48>& x, const gr::tensor<std::int32_t, gr::shape<8>>& positions) {
  return gr::rope<12>(x, positions);
}
// twin
auto f(const tensor<2, 8, 48>& x, const gr::tensor<std::int32_t, gr::shape<2, 8>>& positions) {
  return gr::rope<12>(x, positions);
}

// case: rope_positions_of_another_type
// expect: rope<Heads>\(x, positions\): positions must have elements of std::int32_t
auto f(const tensor<2, 8, 48>& x, const gr::tensor<std::int64_t, gr::shape<2, 8>>& positions) {
  return gr::rope<12>(x, positions);
}
// twin
auto f(const tensor<2, 8, 48>& x, const gr::tensor<std::int32_t, gr::shape<2, 8>>& positions) {
  return gr::rope<12>(x, positions);
}

// case: self_attention_width
// expect: self_attention<X, Width, Heads>: Width must be divisible by Heads
// expect: heads_divide_width<5(UL)?, 768(UL)?>
gr::nn::self_attention<gr::on<gr::cpu>, 768, 5> layer;
// twin
gr::nn::self_attention<gr::on<gr::cpu>, 768, 12> layer;
