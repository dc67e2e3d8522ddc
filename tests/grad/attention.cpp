#include <doctest/doctest.h>

#include <array>
#include <cstdint>

#include <gradus/testing/gradcheck.hpp>

#include "../support/documents.hpp"
#include "../support/operands.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {
template <gr::index_t B, gr::index_t T, gr::index_t Heads, gr::index_t Depth>
void check() {
  CAPTURE(T);
  CAPTURE(Depth);
  workplace at;
  const auto x = normal<double, gr::shape<B, T, 3 * Heads * Depth>>(at.ctx);
  const auto flash = gr::gradcheck([](auto v) { return gr::causal_attention<Heads>(v); }, x);
  CHECK_MESSAGE(flash.ok, flash.message);
}
}  // namespace

TEST_CASE("the gradient of causal attention is right at one time, odd sizes, and beyond a pack and a block") {
  check<1, 1, 1, 1>();
  check<2, 5, 3, 3>();
  check<1, 13, 1, 9>();
  check<1, 70, 1, 2>();
}

TEST_CASE("the gradient of attention is right, and with fewer keys than queries") {
  workplace at;
  const auto q = normal<double, gr::shape<1, 2, 11, 3>>(at.ctx);
  const auto k = normal<double, gr::shape<1, 2, 5, 3>>(at.ctx);
  const auto v = normal<double, gr::shape<1, 2, 5, 3>>(at.ctx);
  const auto full = gr::gradcheck([](auto a, auto b, auto c) { return gr::attention(a, b, c); }, q, k, v);
  CHECK_MESSAGE(full.ok, full.message);
  const auto same = gr::gradcheck([](auto a) { return gr::attention<true>(a, a, a); }, q);
  CHECK_MESSAGE(same.ok, same.message);
}

TEST_CASE("the gradient of attention is right for every pair of options, with heads that share keys") {
  workplace at;
  const auto q = normal<double, gr::shape<2, 9, 2 * 3>>(at.ctx);
  const auto k = normal<double, gr::shape<2, 11, 3>>(at.ctx);
  const auto v = normal<double, gr::shape<2, 11, 3>>(at.ctx);
  const auto bias = normal<double, gr::shape<1, 2, 9, 11>>(at.ctx);
  const auto lengths = gr::from_host<std::int32_t, gr::shape<2>>(at.ctx, std::array<std::int32_t, 2>{7, 0}.data());
  const auto mask = gr::cast<bool>(integers<std::int32_t, gr::shape<2, 11>>(at.ctx, 0, 1));
  for (unsigned first = 0; first < 8; ++first)
    for (unsigned second = first; second < 8; ++second) {
      if (first == 6 && second == 7) continue;  // a bias and a cap are refused
      CAPTURE(first);
      CAPTURE(second);
      const auto has = [&](unsigned option) { return option == first || option == second; };
      gr::attention_options<> options{.causal = has(0), .scale = has(1) ? 0.7 : 0, .dropout = has(2) ? 0.3 : 0};
      if (has(3)) options.key_lengths = lengths;
      if (has(4)) options.mask = mask;
      if (has(5)) options.window = 4;
      if (has(7)) options.cap = 0.8;
      const auto result =
          has(6) ? gr::gradcheck([&](auto a, auto b, auto c, auto d) { return gr::attention<2>(a, b, c, d, options); },
                                 q, k, v, bias)
                 : gr::gradcheck([&](auto a, auto b, auto c) { return gr::attention<2>(a, b, c, options); }, q, k, v);
      CHECK_MESSAGE(result.ok, result.message);
    }
}

TEST_CASE("the gradient of attention within documents is right with every other option") {
  workplace at;
  constexpr gr::index_t T = 23;
  const auto q = normal<double, gr::shape<2, T, 2 * 3>>(at.ctx);
  const auto k = normal<double, gr::shape<2, T, 3>>(at.ctx), v = normal<double, gr::shape<2, T, 3>>(at.ctx);
  const auto bias = normal<double, gr::shape<1, 2, T, T>>(at.ctx);
  const auto lengths = gr::from_host<std::int32_t, gr::shape<2>>(at.ctx, std::array<std::int32_t, 2>{17, T}.data());
  const auto mask = gr::cast<bool>(integers<std::int32_t, gr::shape<2, T>>(at.ctx, 0, 1));
  for (unsigned option = 0; option < 8; ++option) {
    CAPTURE(option);
    gr::attention_options<> options{.causal = option == 0, .dropout = option == 1 ? 0.3 : 0};
    if (option == 2) options.key_lengths = lengths;
    if (option == 3) options.mask = mask;
    if (option == 4) options.window = 4;
    if (option == 5) options.cap = 0.8;
    options.documents = gr::from_host<std::int32_t, gr::shape<2, T, 2>>(at.ctx, draw_documents(2, T).data());
    const auto result =
        option == 6
            ? gr::gradcheck([&](auto a, auto b, auto c, auto d) { return gr::attention<2>(a, b, c, d, options); }, q, k,
                            v, bias)
            : gr::gradcheck([&](auto a, auto b, auto c) { return gr::attention<2>(a, b, c, options); }, q, k, v);
    CHECK_MESSAGE(result.ok, result.message);
    const auto packed = gr::gradcheck([&](auto a) { return gr::causal_attention<1>(a, options); }, q);
    CHECK_MESSAGE(packed.ok, packed.message);
  }
}

TEST_CASE("the gradient of rope is right, and the rotation of a sequence is that of its parts") {
  workplace at;
  const auto x = normal<double, gr::shape<2, 5, 3 * 10>>(at.ctx);
  for (const auto layout : {gr::rope_layout::halves, gr::rope_layout::pairs}) {
    const auto result = gr::gradcheck([&](auto v) { return gr::rope<3>(v, {.position = 4, .layout = layout}); }, x);
    CHECK_MESSAGE(result.ok, result.message);
    const auto positions = integers<std::int32_t, gr::shape<2, 5>>(at.ctx, -9, 99);
    const auto placed = gr::gradcheck([&](auto v) { return gr::rope<3>(v, positions, {.layout = layout}); }, x);
    CHECK_MESSAGE(placed.ok, placed.message);
    const auto whole = gr::rope<3>(x, {.layout = layout});
    const auto last = gr::rope<3>(gr::slice<1, 3, 2>(x), {.position = 3, .layout = layout});
    CHECK(same_bits(gr::slice<1, 3, 2>(whole), last));
  }
  CHECK_THROWS_WITH_AS(gr::rope<3>(x, {.base = 0}), "rope(x, options): base is 0.000000; it must be positive",
                       gr::error);
}
