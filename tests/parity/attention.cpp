// Attention with every option and pair of options against PyTorch's scaled_dot_product_attention, and rotary embeddings
// against the formula of Hugging Face's transformers, in double and float.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>

#include "../support/operands.hpp"
#include "fixture.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {

const fixture& recorded() {
  static const fixture f(GRADUS_TEST_DATA "/parity/attention.safetensors");
  return f;
}
template <class T, class Shape>
gr::tensor<T, Shape> read(gr::context<gr::cpu>& ctx, const std::string& name) {
  const auto values = recorded().values_as<T>(name);
  REQUIRE(values.size() == Shape::size);
  return gr::from_host<T, Shape>(ctx, values.data());
}
template <class X>
void check(const X& found, const std::string& name) {
  CAPTURE(name);
  const double near =
      std::is_same_v<typename X::value_type, double> ? gr::testing::tolerances{}.f64 : gr::testing::tolerances{}.f32;
  CHECK(worst_error(found.values(), recorded().values_as<double>(name)) < near);
}

}  // namespace

TEST_CASE_TEMPLATE("attention with options has PyTorch's values and gradients", T, double, float) {
  workplace at;
  using Q = gr::shape<2, 5, 4 * 3>;
  using K = gr::shape<2, 7, 2 * 3>;
  const auto q = read<T, Q>(at.ctx, "q"), dy = read<T, Q>(at.ctx, "dy");
  const auto k = read<T, K>(at.ctx, "k"), v = read<T, K>(at.ctx, "v");
  const auto bias = read<T, gr::shape<1, 4, 5, 7>>(at.ctx, "bias");
  const auto lengths = read<std::int32_t, gr::shape<2>>(at.ctx, "lengths");
  const auto mask = gr::cast<bool>(read<std::int32_t, gr::shape<2, 7>>(at.ctx, "mask"));
  const std::array<std::string, 6> names{"causal", "scale", "key_lengths", "mask", "window", "bias"};
  for (std::size_t first = 0; first < names.size(); ++first)
    for (std::size_t second = first; second < names.size(); ++second) {
      const auto has = [&](std::size_t option) { return option == first || option == second; };
      gr::attention_options<> options{.causal = has(0), .scale = has(1) ? 0.7 : 0};
      if (has(2)) options.key_lengths = lengths;
      if (has(3)) options.mask = mask;
      if (has(4)) options.window = 3;
      const std::string name = names[first] + "." + names[second];
      const auto compare = [&](const auto& f, const auto&... more) {
        const auto found = evaluate(at.ctx, f, dy, q, k, v, more...);
        check(found.y, name + ".y");
        check(std::get<0>(found.gradients), name + ".dq");
        check(std::get<1>(found.gradients), name + ".dk");
        check(std::get<2>(found.gradients), name + ".dv");
        if constexpr (sizeof...(more) > 0) check(std::get<3>(found.gradients), name + ".dbias");
      };
      if (has(5)) compare([&](auto a, auto b, auto c, auto d) { return gr::attention<4>(a, b, c, d, options); }, bias);
      else compare([&](auto a, auto b, auto c) { return gr::attention<4>(a, b, c, options); });
    }
}

TEST_CASE_TEMPLATE("rope has transformers' values and gradients, in halves and pairs, and with Llama 3's scaling", T,
                   double, float) {
  workplace at;
  const auto compare = [&]<class X, gr::index_t Heads>(X, std::integral_constant<gr::index_t, Heads>,
                                                       const std::string& name, const gr::rope_options& options) {
    const auto found = evaluate(
        at.ctx, [&](auto x) { return gr::rope<Heads>(x, options); }, read<T, X>(at.ctx, name + ".dy"),
        read<T, X>(at.ctx, name + ".x"));
    check(found.y, name + ".y");
    check(std::get<0>(found.gradients), name + ".dx");
  };
  constexpr std::integral_constant<gr::index_t, 3> three;
  compare(gr::shape<2, 5, 18>{}, three, "rope_halves", {});
  compare(gr::shape<2, 5, 18>{}, three, "rope_pairs", {.base = 100, .position = 7, .layout = gr::rope_layout::pairs});
  compare(gr::shape<1, 3, 16>{}, std::integral_constant<gr::index_t, 1>{}, "rope_llama3",
          {.base = 500000, .position = 9000, .scaling = {.factor = 8}});
}
