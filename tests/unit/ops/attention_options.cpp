// attention(q, k, v, options) against its definition: every subset of the options, and what they reject.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "../../support/documents.hpp"
#include "../../support/operands.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {

struct problem {
  std::size_t batch, heads, kv_heads, queries, keys, depth;
  std::vector<std::int32_t> lengths;  // empty: all keys
  std::vector<bool> mask;             // empty: all keys
  values bias;                        // [1 or batch, 1 or heads, queries, keys], or empty
  bool bias_per_batch = false, bias_per_head = false;
  bool causal = false;
  double scale = 0, dropout = 0;
  std::size_t window = 0;
  std::vector<std::int32_t> documents = {};  // empty: one

  bool sees(std::size_t b, std::size_t i, std::size_t j) const {
    const auto distance = static_cast<long>(j) - (static_cast<long>(i + keys) - static_cast<long>(queries));
    const auto reach = static_cast<long>(window);
    return (lengths.empty() || static_cast<std::int32_t>(j) < lengths[b]) && (mask.empty() || mask[b * keys + j]) &&
           (!causal || distance <= 0) && (window == 0 || (distance < reach && -distance < reach)) &&
           (documents.empty() || in_document(b, i, static_cast<std::int32_t>(j)));
  }
  bool in_document(std::size_t b, std::size_t i, std::int32_t j) const {
    const std::int32_t* const of = documents.data() + 2 * (b * queries + i);
    return of[0] <= j && j < of[1];
  }
  std::size_t bias_at(std::size_t b, std::size_t h, std::size_t i, std::size_t j) const {
    const std::size_t head = (bias_per_batch ? b * (bias_per_head ? heads : 1) : 0) + (bias_per_head ? h : 0);
    return (head * queries + i) * keys + j;
  }
  // Factor of the weight: the draw's number is that of the key's row, plus the query.
  double kept(std::size_t b, std::size_t h, std::size_t i, std::size_t j) const {
    if (dropout == 0) return 1;
    const gr::op::dropout drop{dropout, {.domain = gr::random_domain::tape}};
    const std::size_t number = ((b * heads + h) * keys + j) * ((queries + 7) / 8 * 8) + i;
    return drop.key.half(number) >= drop.threshold() ? drop.scale() : 0;
  }
};

// Output, and the gradients of q, k, v [B, T, H*D] and of the bias.
outcome attend(const problem& p, const values& q, const values& k, const values& v, const values& dy) {
  const std::size_t width = p.heads * p.depth, kv_width = p.kv_heads * p.depth;
  const double scale = p.scale == 0 ? 1 / std::sqrt(static_cast<double>(p.depth)) : p.scale;
  outcome r{values(q.size()), {values(q.size()), values(k.size()), values(v.size()), values(p.bias.size())}};
  for (std::size_t b = 0; b < p.batch; ++b)
    for (std::size_t h = 0; h < p.heads; ++h)
      for (std::size_t i = 0; i < p.queries; ++i) {
        const std::size_t at = (b * p.queries + i) * width + h * p.depth;
        const auto row = [&](std::size_t j) {
          return (b * p.keys + j) * kv_width + h / (p.heads / p.kv_heads) * p.depth;
        };
        values weight(p.keys), gradient(p.keys);
        double sum = 0, delta = 0;
        for (std::size_t j = 0; j < p.keys; ++j) {
          if (!p.sees(b, i, j)) continue;
          double score = p.bias.empty() ? 0 : p.bias[p.bias_at(b, h, i, j)];
          for (std::size_t d = 0; d < p.depth; ++d) score += scale * q[at + d] * k[row(j) + d];
          sum += weight[j] = std::exp(score);
        }
        for (std::size_t j = 0; j < p.keys; ++j) {
          if (sum > 0) weight[j] /= sum;
          const double kept = p.kept(b, h, i, j);
          for (std::size_t d = 0; d < p.depth; ++d) {
            r.y[at + d] += kept * weight[j] * v[row(j) + d];
            gradient[j] += kept * dy[at + d] * v[row(j) + d];
            r.gradients[2][row(j) + d] += kept * weight[j] * dy[at + d];
          }
          delta += weight[j] * gradient[j];
        }
        for (std::size_t j = 0; j < p.keys; ++j) {
          const double of_score = weight[j] * (gradient[j] - delta);
          for (std::size_t d = 0; d < p.depth; ++d) {
            r.gradients[0][at + d] += scale * of_score * k[row(j) + d];
            r.gradients[1][row(j) + d] += scale * of_score * q[at + d];
          }
          if (!p.bias.empty()) r.gradients[3][p.bias_at(b, h, i, j)] += of_score;
        }
      }
  return r;
}

// 16-bit weights leave large errors in small elements: there the error is that of the whole.
void compare(const outcome& found, const outcome& wanted, double tolerance) {
  const auto error = [&](values of_found, values of_wanted) {
    // Beside 1 on average: where no row sees two keys, gradients of scores are 0 but for rounding.
    const auto n = static_cast<double>(of_wanted.size());
    of_found.push_back(tolerance > 1e-3 ? std::sqrt(n) : n);
    of_wanted.push_back(tolerance > 1e-3 ? std::sqrt(n) : n);
    return (tolerance > 1e-3 ? error_in_norm_of : worst_error_of)(of_found, of_wanted);
  };
  CHECK(error(found.y, wanted.y) < tolerance);
  for (std::size_t i = 0; i < found.gradients.size(); ++i) {
    CAPTURE(i);
    CHECK(error(found.gradients[i], wanted.gradients[i]) < 10 * tolerance);
  }
}

/// Every subset of causal, scale, dropout, lengths, mask, window and bias; with as many queries as keys, of documents.
template <class T, gr::index_t B, gr::index_t Heads, gr::index_t KvHeads, gr::index_t Tq, gr::index_t Tk,
          gr::index_t Depth, gr::index_t BiasB, gr::index_t BiasHeads>
void check_all(unsigned step, double tolerance) {
  workplace at;
  const auto q = normal<T, gr::shape<B, Tq, Heads * Depth>>(at.ctx);
  const auto dy = normal<T, gr::shape<B, Tq, Heads * Depth>>(at.ctx);
  const auto k = normal<T, gr::shape<B, Tk, KvHeads * Depth>>(at.ctx);
  const auto v = normal<T, gr::shape<B, Tk, KvHeads * Depth>>(at.ctx);
  auto bias = normal<gr::compute_type<T>, gr::shape<BiasB, BiasHeads, Tq, Tk>>(at.ctx);
  for (gr::index_t i = 0; i < bias.size; i += 17) bias.data()[i] = -INFINITY;
  const auto mask = gr::cast<bool>(integers<std::int32_t, gr::shape<B, Tk>>(at.ctx, 0, 1));
  auto lengths = integers<std::int32_t, gr::shape<B>>(at.ctx, 1, static_cast<int>(Tk));
  lengths.data()[B - 1] = fresh_seed() % 2 == 0 ? 0 : static_cast<int>(Tk) / 2;
  for (unsigned set = Tq == Tk ? 128 : 0, first = set; set < first + 128; set += step) {
    CAPTURE(set);
    problem p{B, Heads, KvHeads, Tq, Tk, Depth, {}, {}, {}};
    gr::attention_options<> options;
    if (set & 1) options.causal = p.causal = true;
    if (set & 2) options.scale = p.scale = 0.3;
    if (set & 4) options.dropout = p.dropout = 0.25;
    if (set & 8) options.key_lengths = lengths, p.lengths.assign(lengths.data(), lengths.data() + B);
    if (set & 16) options.mask = mask, p.mask.assign(mask.data(), mask.data() + B * Tk);
    if (set & 32) options.window = p.window = 20;
    if (set & 128) {
      p.documents = draw_documents(B, Tk);
      options.documents = gr::from_host<std::int32_t, gr::shape<B, Tk, 2>>(at.ctx, p.documents.data());
    }
    const auto check = [&](const auto& f, const auto&... x) {
      compare(numbers(evaluate(at.ctx, f, dy, q, k, v, x...)),
              attend(p, numbers(q), numbers(k), numbers(v), numbers(dy)), tolerance);
    };
    if (set & 64) {
      p.bias = numbers(bias), p.bias_per_batch = BiasB > 1, p.bias_per_head = BiasHeads > 1;
      check([&](auto a, auto b, auto c, auto d) { return gr::attention<Heads>(a, b, c, d, options); }, bias);
    } else {
      check([&](auto a, auto b, auto c) { return gr::attention<Heads>(a, b, c, options); });
    }
  }
}

}  // namespace

TEST_CASE("attention with every subset of options is what it is defined to be") {
  check_all<double, 2, 4, 2, 70, 83, 5, 1, 4>(1, 1e-12);
  check_all<float, 1, 3, 1, 131, 66, 9, 1, 1>(3, 1e-4);
  check_all<double, 2, 2, 1, 149, 149, 5, 2, 1>(1, 1e-12);
}

TEST_CASE("attention of bf16 with options is what it is defined to be") {
  check_all<gr::bf16, 2, 2, 1, 37, 70, 16, 2, 2>(5, 1e-2);
  check_all<gr::bf16, 1, 2, 2, 101, 101, 16, 1, 2>(7, 1e-2);
}

TEST_CASE("attention with the option causal has the bits of causal_attention, of keys that all see those without") {
  workplace at;
  constexpr gr::index_t T = 150, C = 40;
  const auto x = normal<float, gr::shape<2, T, 3 * C>>(at.ctx);
  const auto dy = normal<float, gr::shape<2, T, C>>(at.ctx);
  const auto q = gr::slice<2, 0, C>(x), k = gr::slice<2, C, C>(x), v = gr::slice<2, 2 * C, C>(x);
  const auto packed = evaluate(
      at.ctx, [](auto a) { return gr::causal_attention<2>(a); }, dy, x);
  const auto apart = [&](const gr::attention_options<>& options) {
    return evaluate(
        at.ctx, [&](auto a, auto b, auto c) { return gr::attention<2>(a, b, c, options); }, dy, q, k, v);
  };
  const auto causal = apart({.causal = true});
  CHECK(same_bits(packed.y, causal.y));
  const auto& [dq, dk, dv] = causal.gradients;
  CHECK(same_bits(std::get<0>(packed.gradients), gr::concat<2>(dq, dk, dv)));
  const auto plain = evaluate(
      at.ctx, [](auto a, auto b, auto c) { return gr::attention<2>(a, b, c); }, dy, q, k, v);
  const auto lengths = gr::full<std::int32_t, gr::shape<2>>(at.ctx, T);
  CHECK(same_bits(plain.y, apart({.key_lengths = lengths}).y));
}

TEST_CASE("attention with options does not depend on the number of threads") {
  workplace at;
  const auto q = normal<float, gr::shape<1, 150, 4 * 8>>(at.ctx), dy = normal<float, gr::shape<1, 150, 4 * 8>>(at.ctx);
  const auto k = normal<float, gr::shape<1, 170, 2 * 8>>(at.ctx), v = normal<float, gr::shape<1, 170, 2 * 8>>(at.ctx);
  const auto bias = normal<float, gr::shape<1, 1, 150, 170>>(at.ctx);
  const auto lengths = gr::full<std::int32_t, gr::shape<1>>(at.ctx, 101);
  const auto run = [&](int n) {
    const threads some(at.ctx, n);
    return evaluate(
        at.ctx,
        [&](auto a, auto b, auto c, auto d) {
          return gr::attention<4>(a, b, c, d, {.dropout = 0.1, .key_lengths = lengths, .window = 90});
        },
        dy, q, k, v, bias);
  };
  const auto one = run(1);
  for (const int n : {2, 7, 96}) {
    const auto many = run(n);
    CHECK(same_bits(one.y, many.y));
    CHECK(same_bits(std::get<0>(one.gradients), std::get<0>(many.gradients)));
    CHECK(same_bits(std::get<1>(one.gradients), std::get<1>(many.gradients)));
    CHECK(same_bits(std::get<2>(one.gradients), std::get<2>(many.gradients)));
    CHECK(same_bits(std::get<3>(one.gradients), std::get<3>(many.gradients)));
  }
}

TEST_CASE("attention to a cache has the bits of attention without one, with heads that share keys, and options") {
  workplace at;
  constexpr gr::index_t T = 70, B = 2;
  const auto q = normal<float, gr::shape<B, T, 4 * 5>>(at.ctx);
  const auto k = normal<float, gr::shape<B, T, 2 * 5>>(at.ctx), v = normal<float, gr::shape<B, T, 2 * 5>>(at.ctx);
  const auto mask = gr::cast<bool>(integers<std::int32_t, gr::shape<B, T>>(at.ctx, 0, 2));
  const auto check = [&](const auto& whole, const auto&... options) {
    gr::nn::key_value_cache<gr::on<gr::cpu>, 1, B, 2, T, 5> past(at.ctx);
    const auto take = [&](auto first, auto count) {
      constexpr gr::index_t from = decltype(first)::value, n = decltype(count)::value;
      const auto part = [&](const auto& x) { return gr::slice<1, from, n>(x); };
      if constexpr (from == 0)
        CHECK_THROWS_WITH_AS(gr::attention<4>(part(q), part(k), part(v), past.layer(0, n + 1), options...),
                             "attention(q, k, v, past): 4 new positions do not fit after the 0 cached ones: the cache "
                             "holds 70, and q has 3 positions",
                             gr::error);
      const auto y = gr::attention<4>(part(q), part(k), part(v), past.layer(0, n), options...);
      CHECK(same_bits(y, part(whole)));
      past.advance(n);
    };
    take(std::integral_constant<gr::index_t, 0>{}, std::integral_constant<gr::index_t, 3>{});
    take(std::integral_constant<gr::index_t, 3>{}, std::integral_constant<gr::index_t, 66>{});
    take(std::integral_constant<gr::index_t, 69>{}, std::integral_constant<gr::index_t, 1>{});
  };
  check(gr::attention<4>(q, k, v, {.causal = true}));
  const gr::attention_options<> options{
      .scale = 0.3,
      .mask = mask,
      .window = 20,
      .documents = gr::from_host<std::int32_t, gr::shape<B, T, 2>>(at.ctx, draw_documents(B, T).data())};
  auto causal = options;
  causal.causal = true;
  check(gr::attention<4>(q, k, v, causal), options);
}

TEST_CASE("queries without keys yield 0 and have no gradient, and heads that share keys need no options") {
  workplace at;
  const auto q = normal<float, gr::shape<1, 9, 4 * 3>>(at.ctx), dy = normal<float, gr::shape<1, 9, 4 * 3>>(at.ctx);
  const auto k = normal<float, gr::shape<1, 9, 2 * 3>>(at.ctx), v = normal<float, gr::shape<1, 9, 2 * 3>>(at.ctx);
  const auto none = gr::full<bool, gr::shape<1, 9>>(at.ctx, false);
  const auto f = evaluate(
      at.ctx, [&](auto a, auto b, auto c) { return gr::attention<4>(a, b, c, {.mask = none}); }, dy, q, k, v);
  const auto is_zero = [](const auto& x) {
    for (const float e : x.values())
      if (e != 0) return false;
    return true;
  };
  CHECK(is_zero(f.y));
  std::apply([&](const auto&... x) { CHECK((is_zero(x) && ...)); }, f.gradients);
  const auto plain = evaluate(
      at.ctx, [](auto a, auto b, auto c) { return gr::attention<4>(a, b, c); }, dy, q, k, v);
  compare(numbers(plain), attend({1, 4, 2, 9, 9, 3, {}, {}, {}}, numbers(q), numbers(k), numbers(v), numbers(dy)),
          1e-5);
}

TEST_CASE("attention<true> is causal with whatever options, bias or mask") {
  workplace at;
  constexpr gr::index_t T = 7;
  using by_axis = gr::shape<2, 3, T, 5>;
  const auto q = normal<float, by_axis>(at.ctx), k = normal<float, by_axis>(at.ctx), v = normal<float, by_axis>(at.ctx);
  const auto bias = normal<float, gr::shape<1, 3, T, T>>(at.ctx);
  const auto seen = gr::full<bool, gr::shape<1, 1, T, T>>(at.ctx, true);
  const auto lengths = gr::full<std::int32_t, gr::shape<2>>(at.ctx, 6);
  const auto check = [](const auto& found, const auto& wanted) { CHECK(same_bits(found, wanted)); };
  check(gr::attention<true>(q, k, v, {.scale = 0.3}), gr::attention(q, k, v, {.causal = true, .scale = 0.3}));
  check(gr::attention<true>(q, k, v, {.window = 3}), gr::attention(q, k, v, {.causal = true, .window = 3}));
  check(gr::attention<true>(q, k, v, {.key_lengths = lengths}),
        gr::attention(q, k, v, {.causal = true, .key_lengths = lengths}));
  check(gr::attention<true>(q, k, v, bias), gr::attention(q, k, v, bias, {.causal = true}));
  check(gr::attention<true>(q, k, v, seen), gr::attention(q, k, v, seen, {.causal = true}));
  CHECK(worst_error(gr::attention<true>(q, k, v, seen), gr::attention<true>(q, k, v)) < 1e-6);
  CHECK_FALSE(same_bits(gr::attention<true>(q, k, v, bias), gr::attention(q, k, v, bias)));
}

TEST_CASE("a bool tensor as the fourth operand is a mask of queries by keys, and has no gradient") {
  workplace at;
  constexpr gr::index_t B = 2, H = 4, T = 9, S = 11;
  const auto q = normal<double, gr::shape<B, T, H * 3>>(at.ctx), dy = normal<double, gr::shape<B, T, H * 3>>(at.ctx);
  const auto k = normal<double, gr::shape<B, S, 2 * 3>>(at.ctx), v = normal<double, gr::shape<B, S, 2 * 3>>(at.ctx);
  auto mask = gr::cast<bool>(integers<std::int32_t, gr::shape<B, 1, T, S>>(at.ctx, 0, 1));
  for (gr::index_t row = 0; row < B * T; ++row) mask.values()[row * S] = true;
  values bias = numbers(mask);
  for (double& b : bias) b = b != 0 ? 0 : -INFINITY;
  problem p{B, H, 2, T, S, 3, {}, {}, bias};
  p.bias_per_batch = true;
  const auto f = evaluate(
      at.ctx, [&](auto a, auto b, auto c) { return gr::attention<H>(a, b, c, mask); }, dy, q, k, v);
  outcome wanted = attend(p, numbers(q), numbers(k), numbers(v), numbers(dy));
  wanted.gradients.pop_back();  // of the bias
  compare(numbers(f), wanted, 1e-12);
}

TEST_CASE("capped scores are cap tanh(s / cap), and a bias with them is refused") {
  workplace at;
  const auto q = normal<float, gr::shape<1, 2, 70, 9>>(at.ctx), k = normal<float, gr::shape<1, 2, 70, 9>>(at.ctx),
             v = normal<float, gr::shape<1, 2, 70, 9>>(at.ctx);
  const auto scores = gr::matmul<gr::transpose{.b = true}>(q, k) * 0.9;
  const auto wanted = gr::matmul(gr::softmax(gr::tanh(scores / 1.5) * 1.5), v);
  const auto found = gr::attention(q, k, v, {.scale = 0.9, .cap = 1.5});
  for (std::size_t i = 0; i < found.extents().size; ++i)
    REQUIRE(found.data()[i] == doctest::Approx(wanted.data()[i]).epsilon(1e-4));
  const auto bias = normal<float, gr::shape<1, 1, 70, 70>>(at.ctx);
  CHECK_THROWS_WITH_AS(gr::attention(q, k, v, bias, {.cap = 1}),
                       "attention(q, k, v, options): cap is for attention without a bias", gr::error);
  CHECK_THROWS_WITH_AS(gr::attention(q, k, v, {.cap = -1}),
                       "attention(q, k, v, options): cap is -1.000000; it must be 0 or more", gr::error);
}

TEST_CASE("a window is one of keys, however few the queries") {
  workplace at;
  const auto q = normal<double, gr::shape<1, 1, 2 * 4>>(at.ctx), dy = normal<double, gr::shape<1, 1, 2 * 4>>(at.ctx);
  const auto k = normal<double, gr::shape<1, 11, 4>>(at.ctx), v = normal<double, gr::shape<1, 11, 4>>(at.ctx);
  const auto f = evaluate(
      at.ctx, [](auto a, auto b, auto c) { return gr::attention<2>(a, b, c, {.causal = true, .window = 3}); }, dy, q, k,
      v);
  problem p{1, 2, 1, 1, 11, 4, {}, {}, {}};
  p.causal = true;
  p.window = 3;
  outcome wanted = attend(p, numbers(q), numbers(k), numbers(v), numbers(dy));
  wanted.gradients.pop_back();
  compare(numbers(f), wanted, 1e-12);
}

TEST_CASE("attention with options allocates nothing of the size of the scores, and runs on meta") {
  constexpr gr::index_t T = 512, C = 8;
  const auto step = [](auto& ctx, auto shape) {
    using D = typename std::remove_cvref_t<decltype(ctx)>::device;
    using X = gr::tensor<float, decltype(shape), D>;
    gr::tape tape{ctx};
    const auto lengths = gr::full<std::int32_t, gr::shape<1>>(ctx, 300);
    const auto x = tape.variable(X(ctx));
    const auto y = gr::attention<1>(x, x, x, {.causal = true, .dropout = 0.1, .key_lengths = lengths});
    y.slot()->give(X(ctx));
    tape.unwind();
  };
  workplace at;
  step(at.ctx, gr::shape<1, T, C>{});
  CHECK(at.stats.all().peak < 8 * T * C * sizeof(float));
  const std::size_t planned = [&] {
    gr::meta_stream stream;
    gr::accounting counted;
    gr::context<gr::meta> ctx{stream, counted};
    step(ctx, gr::shape<1, T, C>{});
    return counted.peak_bytes();
  }();
  CHECK(planned == at.stats.all().peak);
}

TEST_CASE("options that do not fit are refused in one line") {
  workplace at;
  const auto x = normal<float, gr::shape<2, 5, 6>>(at.ctx);
  const auto message = [&](const gr::attention_options<>& options) -> std::string {
    try {
      static_cast<void>(gr::attention<2>(x, x, x, options));
    } catch (const gr::error& e) { return e.what(); }
    return "";
  };
  CHECK(message({.dropout = 1}) ==
        "attention(q, k, v, options): dropout is 1.000000; it must be at least 0 and less than 1");
  CHECK(message({.key_lengths = gr::full<std::int32_t, gr::shape<2>>(at.ctx, 6)}) ==
        "attention(q, k, v, options): key_lengths[0] is 6; it must be 0 to Tk = 5");
  CHECK(message({.key_lengths = gr::full<std::int32_t, gr::shape<2>>(at.ctx, -1)}) ==
        "attention(q, k, v, options): key_lengths[0] is -1; it must be 0 to Tk = 5");
  CHECK(message({.key_lengths = gr::full<std::int32_t, gr::shape<3>>(at.ctx, 1)}) ==
        "attention(q, k, v, options): key_lengths is [3]; it must be [B] = [2]");
  CHECK(message({.mask = gr::full<bool, gr::shape<5, 2>>(at.ctx, true)}) ==
        "attention(q, k, v, options): mask is [5, 2]; it must be [B, Tk] = [2, 5]");
  const auto documents = [&](std::vector<std::int32_t> pairs) {
    return message({.documents = gr::from_host<std::int32_t, gr::shape<2, 5, 2>>(at.ctx, pairs.data())});
  };
  CHECK(documents({0, 3, 0, 3, 0, 3, 3, 5, 3, 5, 0, 5, 0, 5, 0, 5, 0, 5, 0, 5}).empty());
  CHECK(documents({7, 7, 1, 2, 0, 0, 3, 5, 3, 5, 0, 0, 0, 0, 0, 0, 0, 0, -3, -3}).empty());
  CHECK(documents({0, 3, 0, 3, 0, 3, 2, 5, 2, 5, 0, 5, 0, 5, 0, 5, 0, 5, 0, 5}) ==
        "attention(q, k, v, options): documents[0, 3] is [2, 5]; it must be [3, end] with an end of at most T = 5, or "
        "empty");
  CHECK(documents({0, 5, 0, 5, 0, 5, 0, 5, 0, 5, 0, 6, 0, 6, 0, 6, 0, 6, 0, 6}) ==
        "attention(q, k, v, options): documents[1, 0] is [0, 6]; it must be [0, end] with an end of at most T = 5, or "
        "empty");
  CHECK(documents({0, 3, 0, 3, 2, 2, 3, 5, 3, 5, 0, 5, 0, 5, 0, 5, 0, 5, 0, 5}) ==
        "attention(q, k, v, options): documents[0, 2] is [2, 2]; it must be [0, 3] as at the position before");
  CHECK(message({.documents = gr::zeros<std::int32_t, gr::shape<2, 5>>(at.ctx)}) ==
        "attention(q, k, v, options): documents is [2, 5]; it must be [B, T, 2] = [2, 5, 2]");
  const auto longer = normal<float, gr::shape<2, 8, 6>>(at.ctx);
  CHECK_THROWS_WITH_AS(
      gr::attention<2>(x, longer, longer, {.documents = gr::zeros<std::int32_t, gr::shape<2, 5, 2>>(at.ctx)}),
      "attention(q, k, v, options): documents are for as many queries as keys, not 5 and 8", gr::error);
  CHECK(message({.causal = true, .window = 3}).empty());
}

TEST_CASE("an option that is an empty tensor is an error, and not no option") {
  workplace at;
  const auto x = normal<float, gr::shape<2, 5, 6>>(at.ctx);
  const gr::tensor<std::int32_t, gr::shape<2>> lengths;
  auto mask = gr::full<bool, gr::shape<2, 5>>(at.ctx, true);
  const auto moved = std::move(mask);
  const char* const message = "this tensor is empty";
  CHECK_THROWS_WITH_AS(static_cast<void>(gr::attention<2>(x, x, x, {.key_lengths = lengths})),
                       doctest::Contains(message), gr::error);
  CHECK_THROWS_WITH_AS(static_cast<void>(gr::attention<2>(x, x, x, {.mask = mask})), doctest::Contains(message),
                       gr::error);
  const auto gates = normal<float, gr::shape<2, 5, 12>>(at.ctx);
  const auto w = normal<float, gr::shape<3, 12>>(at.ctx);
  CHECK_THROWS_WITH_AS(static_cast<void>(gr::lstm(gates, w, {.lengths = lengths})), doctest::Contains(message),
                       gr::error);
}

TEST_CASE("a checkpointed region repeats the dropout of attention, bit for bit") {
  workplace at;
  const auto x = normal<float, gr::shape<2, 40, 12>>(at.ctx), dy = normal<float, gr::shape<2, 40, 12>>(at.ctx);
  const auto lengths = gr::full<std::int32_t, gr::shape<2>>(at.ctx, 33);
  const auto f = [&](auto a) { return gr::attention<2>(a, a, a, {.dropout = 0.3, .key_lengths = lengths}); };
  const auto plain = evaluate(at.ctx, f, dy, x);
  const auto region = evaluate(
      at.ctx, [&](auto a) { return gr::checkpoint(f, a); }, dy, x);
  CHECK(same_bits(plain.y, region.y));
  CHECK(same_bits(std::get<0>(plain.gradients), std::get<0>(region.gradients)));
}

TEST_CASE_TEMPLATE("a parameter may be the bias, in any precision", P, gr::bf16_mixed, gr::bf16_pure) {
  using X = gr::on<gr::cpu, P>;
  workplace at;
  gr::nn::linear<X, 12, 12> project;
  gr::param<X, 1, 2, 7, 7> bias;
  gr::init(project, at.ctx, gr::he_normal{.seed = 7});
  gr::init(bias, at.ctx, gr::he_normal{.seed = 8});
  gr::tape tape{at.ctx};
  const auto q = project(tape.watch(normal<float, gr::shape<2, 7, 12>>(at.ctx)));
  gr::backward(gr::sum(gr::attention<2>(q, q, q, bias, {.causal = true})));
  const auto gradient = numbers(bias.gradient());
  CHECK(gradient[1] == 0);  // above the diagonal
  CHECK(gradient[7] != 0);
  const auto k = project(tape.watch(normal<float, gr::shape<2, 7, 12>>(at.ctx)));
  bias.clear_gradient();
  gr::backward(gr::sum(gr::attention<2>(gr::detach(k), k, k, bias)));  // constant queries
  CHECK(bias.has_gradient());
}
