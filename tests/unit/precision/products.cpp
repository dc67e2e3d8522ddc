// Products, norms, attention and losses of bf16 and f16 against their definitions in double.
#include <doctest/doctest.h>

#include <cstdint>
#include <type_traits>
#include <vector>

#include "rounding.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {

definition matmul(const reference::product& p, std::size_t batches) {
  return
      [=](const values& dy, const std::vector<values>& xs) { return reference::matmul(p, batches, xs[0], xs[1], dy); };
}
definition softmax(bool logarithm) {
  return [=](const values& dy, const std::vector<values>& xs) { return reference::softmax(logarithm, 37, xs[0], dy); };
}
definition causal_attention(std::size_t batch, std::size_t length, std::size_t heads, std::size_t depth) {
  return [=](const values& dy, const std::vector<values>& xs) {
    return reference::causal_attention(batch, length, heads, depth, xs[0], dy);
  };
}

}  // namespace

TEST_CASE_TEMPLATE("products of 16 bits add up in float and round once", T, gr::bf16, gr::f16) {
  workplace at;
  const auto a = normal<double, gr::shape<2, 5, 600>>(at.ctx);
  const auto b = normal<double, gr::shape<600, 33>>(at.ctx);
  const auto bt = normal<double, gr::shape<2, 33, 600>>(at.ctx);
  check<T>(
      "matmul", 2, [](const auto& u, const auto& v) { return gr::matmul(u, v); }, matmul({5, 600, 33}, 2), a, b);
  check<T>(
      "matmul_nt", 2, [](const auto& u, const auto& v) { return gr::matmul<gr::transpose{.b = true}>(u, v); },
      matmul({5, 600, 33, false, true}, 2), a, bt);
  const auto x = normal<double, gr::shape<3, 7, 19>>(at.ctx);
  const auto w = normal<double, gr::shape<19, 21>>(at.ctx);
  const auto bias = normal<double, gr::shape<21>>(at.ctx);
  check<T>(
      "linear", 2, [](const auto& u, const auto& v, const auto& c) { return gr::linear(u, v, c); },
      [](const values& dy, const std::vector<values>& xs) {
        return reference::linear(21, 19, 21, xs[0], xs[1], xs[2], dy);
      },
      x, w, bias);
}

TEST_CASE_TEMPLATE("norms and softmax of 16 bits compute in float and give float", T, gr::bf16, gr::f16) {
  workplace at;
  const auto x = normal<double, gr::shape<9, 37>>(at.ctx);
  const auto w = normal<double, gr::shape<37>>(at.ctx);
  const auto b = normal<double, gr::shape<37>>(at.ctx);
  check<T>(
      "layer_norm", 4, [](const auto& u, const auto& v, const auto& c) { return gr::layer_norm(u, v, c); },
      [](const values& dy, const std::vector<values>& xs) {
        return reference::norm(true, 37, xs[0], xs[1], xs[2], dy);
      },
      x, w, b);
  check<T>(
      "rms_norm", 4, [](const auto& u, const auto& v) { return gr::rms_norm(u, v); },
      [](const values& dy, const std::vector<values>& xs) { return reference::norm(false, 37, xs[0], xs[1], {}, dy); },
      x, w);
  check<T>(
      "softmax", 4, [](const auto& u) { return gr::softmax(u); }, softmax(false), x);
  check<T>(
      "log_softmax", 4, [](const auto& u) { return gr::log_softmax(u); }, softmax(true), x);
  static_assert(std::is_same_v<gr::value_of_t<decltype(gr::softmax(in<T>(x)))>, float>);
}

TEST_CASE_TEMPLATE("attention of 16 bits keeps its scores in float", T, gr::bf16, gr::f16) {
  workplace at;
  const auto qkv = normal<double, gr::shape<2, 37, 3 * 3 * 10>>(at.ctx);
  check<T>(
      "causal_attention", 8, [](const auto& u) { return gr::causal_attention<3>(u); }, causal_attention(2, 37, 3, 10),
      qkv);
  // Several blocks of queries and of keys, and rows that are no whole pairs.
  const auto longer = normal<double, gr::shape<1, 133, 3 * 2 * 7>>(at.ctx);
  check<T>(
      "causal_attention of blocks", 8, [](const auto& u) { return gr::causal_attention<2>(u); },
      causal_attention(1, 133, 2, 7), longer);
  const auto q = normal<double, gr::shape<2, 3, 21, 10>>(at.ctx);
  const auto k = normal<double, gr::shape<2, 3, 35, 10>>(at.ctx);
  const auto v = normal<double, gr::shape<2, 3, 35, 10>>(at.ctx);
  check<T>(
      "attention", 8, [](const auto& a, const auto& b, const auto& c) { return gr::attention(a, b, c); },
      [](const values& dy, const std::vector<values>& xs) {
        return reference::attention(false, 6, 10, xs[0], xs[1], xs[2], dy);
      },
      q, k, v);
}

TEST_CASE_TEMPLATE("losses of 16 bits compute in float and give float", T, gr::bf16, gr::f16) {
  workplace at;
  const auto logits = normal<double, gr::shape<11, 70>>(at.ctx);
  const auto targets = integers<std::int32_t, gr::shape<11>>(at.ctx, -1, 66);
  check<T>(
      "cross_entropy", 4, [](const auto& u, const auto& t) { return gr::cross_entropy<67>(u, t); },
      [](const values& dy, const std::vector<values>& xs) {
        return reference::cross_entropy(67, xs[0], xs[1], -1, dy[0]);
      },
      logits, targets);
  const auto x = normal<double, gr::shape<11, 19>>(at.ctx, 0.5);
  const auto table = normal<double, gr::shape<70, 19>>(at.ctx, 0.5);
  check<T>(
      "linear_cross_entropy", 4,
      [](const auto& u, const auto& v, const auto& t) { return gr::linear_cross_entropy<67>(u, v, t); },
      [](const values& dy, const std::vector<values>& xs) {
        return reference::linear_cross_entropy(67, xs[0], xs[1], xs[2], -1, dy[0]);
      },
      x, table, targets);
  static_assert(std::is_same_v<gr::value_of_t<decltype(gr::cross_entropy(in<T>(logits), targets))>, float>);
}
