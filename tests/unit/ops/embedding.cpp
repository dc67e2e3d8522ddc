#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "../../support/operands.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {

template <class I, gr::index_t Columns>
void check() {
  workplace at;
  using Table = gr::shape<11, Columns>;
  const auto tokens = integers<I, gr::shape<5, 7>>(at.ctx, 0, 10);
  const auto table = normal<float, Table>(at.ctx);
  const auto dy = normal<float, gr::shape<5, 7, Columns>>(at.ctx);
  const auto r = evaluate(
      at.ctx, [&](auto t) { return gr::embedding(tokens, t); }, dy, table);
  std::vector<double> wanted(table.size);
  bool equal = true;
  for (gr::index_t i = 0; i < tokens.size; ++i)
    for (gr::index_t c = 0; c < Columns; ++c) {
      const auto row = static_cast<gr::index_t>(tokens.data()[i]);
      equal = equal && r.y.data()[i * Columns + c] == table(row, c);
      wanted[row * Columns + c] += dy.data()[i * Columns + c];
    }
  CHECK(equal);
  CHECK(worst_error(std::get<0>(r.gradients).values(), wanted) < 1e-5);
  CHECK(same_bits(gr::embedding(tokens, table), r.y));
}

}  // namespace

TEST_CASE("embedding looks rows up by tokens of any integer type, and sums gradients over repeats") {
  check<std::int32_t, 1>();
  check<std::int64_t, 16>();
  check<std::uint16_t, 67>();
  check<std::uint8_t, 130>();
}

TEST_CASE("an embedding adds to what the table's gradient holds (tied weights), on any number of threads") {
  workplace at;
  using Table = gr::shape<20, 200>;
  const auto tokens = integers<std::int32_t, gr::shape<64>>(at.ctx, 0, 4);
  const auto table = normal<float, Table>(at.ctx);
  const auto dy = normal<float, gr::shape<64, 200>>(at.ctx);
  const auto tied = [&](auto t) { return gr::embedding(tokens, t) + gr::embedding(tokens, t); };
  const auto run = [&](int n) {
    const threads some(at.ctx, n);
    return evaluate(at.ctx, tied, dy, table);
  };
  const auto one = run(1);
  const auto two = run(2);
  CHECK(same_bits(std::get<0>(one.gradients), std::get<0>(two.gradients)));
  const auto once = evaluate(
      at.ctx, [&](auto t) { return gr::embedding(tokens, t); }, dy, table);
  std::vector<double> wanted;
  for (const float v : std::get<0>(once.gradients).values()) wanted.push_back(2 * static_cast<double>(v));
  CHECK(worst_error(std::get<0>(one.gradients).values(), wanted) < 1e-5);
}

TEST_CASE("a token outside the table is refused") {
  workplace at;
  const auto table = normal<float, gr::shape<11, 3>>(at.ctx);
  auto tokens = integers<std::int32_t, gr::shape<4>>(at.ctx, 0, 10);
  tokens(2) = 11;
  CHECK_THROWS_WITH_AS(gr::embedding(tokens, table),
                       "embedding(tokens, table): token 11 at position 2 is outside 0 .. 10", gr::error);
  tokens(2) = -1;
  CHECK_THROWS_AS(gr::embedding(tokens, table), gr::error);
}

TEST_CASE("the gradient of a table of 16 bits is rounded once, however often a token comes") {
  workplace at;
  using X = gr::on<gr::cpu, gr::bf16_gradients>;
  gr::nn::embedding<X, 50, 600> table;
  gr::init(table, at.ctx, gr::normal_init{.seed = 3});
  const auto tokens = integers<std::int32_t, gr::shape<4096>>(at.ctx, 0, 3) * 16;  // all of one task
  const auto dy = normal<float, gr::shape<4096, 600>>(at.ctx);
  std::vector<double> wanted(50 * 600);
  for (std::size_t i = 0; i < 4096; ++i)
    for (std::size_t c = 0; c < 600; ++c)
      wanted[static_cast<std::size_t>(tokens(i)) * 600 + c] += static_cast<double>(dy(i, c));
  std::vector<gr::bf16> first;
  for (const int n : {1, 3}) {
    const threads of(at.ctx, n);
    gr::tape tape(at.ctx);
    gr::backward(gr::sum(table(tape.watch(tokens)) * dy));
    const auto& g = table.weight.gradient();
    static_assert(std::is_same_v<std::remove_cvref_t<decltype(g.values()[0])>, gr::bf16>);
    std::vector<float> found(50 * 600);
    for (std::size_t i = 0; i < found.size(); ++i) found[i] = static_cast<float>(g.values()[i]);
    CHECK(error_in_norm(found, wanted) < 0.003);
    const std::vector<gr::bf16> bits(g.values().begin(), g.values().end());
    if (first.empty()) first = bits;
    CHECK(std::memcmp(first.data(), bits.data(), bits.size() * 2) == 0);
    gr::backward(gr::sum(table(tape.watch(tokens)) * dy));  // adds
    for (std::size_t i = 0; i < found.size(); ++i) found[i] = static_cast<float>(g.values()[i]) / 2;
    CHECK(error_in_norm(found, wanted) < 0.003);
    table.weight.clear_gradient();
  }
}
