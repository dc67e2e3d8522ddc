// Normalisations, embedding, attention and cross-entropy against PyTorch, in double and float.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>

#include "../support/operands.hpp"
#include "fixture.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {

template <class T, class Shape>
gr::tensor<T, Shape> read(gr::context<gr::cpu>& ctx, const std::string& name) {
  const fixture f(GRADUS_TEST_DATA "/parity/ops.safetensors");
  const auto values = f.values_as<T>(name);
  REQUIRE(values.size() == Shape::size);
  return gr::from_host<T, Shape>(ctx, values.data());
}
template <class T>
constexpr double near = std::is_same_v<T, double> ? gr::testing::tolerances{}.f64 : gr::testing::tolerances{}.f32;

// Compares to the recorded array, read in double.
template <class X>
bool matches(const X& found, const std::string& name) {
  const auto wanted = read<double, typename X::shape>(found.owner(), name);
  const double e = worst_error(found.values(), wanted.values());
  CAPTURE(name);
  CHECK(e < near<typename X::value_type>);
  return e < near<typename X::value_type>;
}

}  // namespace

TEST_CASE_TEMPLATE("layer_norm and rms_norm have PyTorch's values and gradients", T, double, float) {
  workplace at;
  using S = gr::shape<3, 5, 13>;
  using W = gr::shape<13>;
  const auto l = evaluate(
      at.ctx, [](auto x, auto w, auto b) { return gr::layer_norm(x, w, b); }, read<T, S>(at.ctx, "layer_norm.dy"),
      read<T, S>(at.ctx, "layer_norm.x"), read<T, W>(at.ctx, "layer_norm.w"), read<T, W>(at.ctx, "layer_norm.b"));
  CHECK(matches(l.y, "layer_norm.y"));
  CHECK(matches(std::get<0>(l.gradients), "layer_norm.dx"));
  CHECK(matches(std::get<1>(l.gradients), "layer_norm.dw"));
  CHECK(matches(std::get<2>(l.gradients), "layer_norm.db"));
  const auto r = evaluate(
      at.ctx, [](auto x, auto w) { return gr::rms_norm(x, w); }, read<T, S>(at.ctx, "rms_norm.dy"),
      read<T, S>(at.ctx, "rms_norm.x"), read<T, W>(at.ctx, "rms_norm.w"));
  CHECK(matches(r.y, "rms_norm.y"));
  CHECK(matches(std::get<0>(r.gradients), "rms_norm.dx"));
  CHECK(matches(std::get<1>(r.gradients), "rms_norm.dw"));
}

TEST_CASE_TEMPLATE("embedding has PyTorch's values and gradient", T, double, float) {
  workplace at;
  const auto tokens = read<std::int32_t, gr::shape<3, 4>>(at.ctx, "embedding.tokens");
  const auto e = evaluate(
      at.ctx, [&](auto w) { return gr::embedding(tokens, w); }, read<T, gr::shape<3, 4, 5>>(at.ctx, "embedding.dy"),
      read<T, gr::shape<11, 5>>(at.ctx, "embedding.w"));
  CHECK(matches(e.y, "embedding.y"));
  CHECK(matches(std::get<0>(e.gradients), "embedding.dw"));
}

TEST_CASE_TEMPLATE("attention has PyTorch's values and gradient", T, double, float) {
  workplace at;
  using X = gr::shape<2, 13, 45>;
  using Y = gr::shape<2, 13, 15>;
  const auto check = [&](const std::string& name, const auto& f) {
    const auto a = evaluate(at.ctx, f, read<T, Y>(at.ctx, name + ".dy"), read<T, X>(at.ctx, name + ".qkv"));
    CHECK(matches(a.y, name + ".y"));
    CHECK(matches(std::get<0>(a.gradients), name + ".dqkv"));
  };
  check("attention", [](auto x) { return gr::causal_attention<3>(x); });
  check("attention_full", [](auto x) {
    const auto head = [&](auto first) {
      return gr::permute<0, 2, 1, 3>(gr::reshape<2, 13, 3, 5>(gr::slice<2, first, 15>(x)));
    };
    const auto y =
        gr::attention(head(std::integral_constant<gr::index_t, 0>{}), head(std::integral_constant<gr::index_t, 15>{}),
                      head(std::integral_constant<gr::index_t, 30>{}));
    return gr::reshape<2, 13, 15>(gr::permute<0, 2, 1, 3>(y));
  });
}

TEST_CASE_TEMPLATE("cross_entropy has PyTorch's value and gradient", T, double, float) {
  workplace at;
  const auto targets = read<std::int32_t, gr::shape<4, 5>>(at.ctx, "cross_entropy.targets");
  const auto c = evaluate(
      at.ctx, [&](auto x) { return gr::cross_entropy(x, targets); }, read<T, gr::shape<>>(at.ctx, "cross_entropy.dy"),
      read<T, gr::shape<4, 5, 17>>(at.ctx, "cross_entropy.logits"));
  CHECK(matches(c.y, "cross_entropy.y"));
  CHECK(matches(std::get<0>(c.gradients), "cross_entropy.dlogits"));
  const auto padded = read<std::int32_t, gr::shape<3, 5>>(at.ctx, "cross_entropy_padded.targets");
  const auto p = evaluate(
      at.ctx, [&](auto x) { return gr::cross_entropy<61>(x, padded); },
      read<T, gr::shape<>>(at.ctx, "cross_entropy_padded.dy"),
      read<T, gr::shape<3, 5, 64>>(at.ctx, "cross_entropy_padded.logits"));
  CHECK(matches(p.y, "cross_entropy_padded.y"));
  CHECK(matches(std::get<0>(p.gradients), "cross_entropy_padded.dlogits"));
}
