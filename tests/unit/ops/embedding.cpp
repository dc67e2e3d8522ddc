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

// x [outer, rows, inner] and y [outer, count, inner]: where each element of y is in x.
std::vector<std::size_t> places(const values& indices, bool each, std::size_t outer, std::size_t count,
                                std::size_t rows, std::size_t inner) {
  std::vector<std::size_t> from;
  for (std::size_t o = 0; o < outer; ++o)
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t k = 0; k < inner; ++k) {
        const double index = indices[each ? (o * count + i) * inner + k : i];
        from.push_back((o * rows + static_cast<std::size_t>(index)) * inner + k);
      }
  return from;
}

// Along Axis of x, with indices of shape I: values and gradients, with equal bits on one thread and on two.
template <gr::index_t Axis, class X, class I, class Index>
void check_picks() {
  workplace at;
  constexpr gr::index_t rows = X::extent(Axis), inner = X::stride(Axis), outer = X::size / rows / inner;
  constexpr bool each = I::rank == X::rank && X::rank > 1;
  constexpr gr::index_t count = each ? I::extent(each ? Axis : 0) : I::size;
  const auto indices = integers<Index, I>(at.ctx, 0, static_cast<int>(rows) - 1);
  const auto from = places(numbers(indices), each, outer, count, rows, inner);
  const auto pick = [&](const auto& x) {
    if constexpr (each) return gr::gather<Axis>(x, indices);
    else return gr::index_select<Axis>(x, indices);
  };
  const auto x = normal<float, X>(at.ctx);
  using Y = gr::shape_of<decltype(pick(x))>;
  const auto dy = normal<float, Y>(at.ctx);
  const auto run = [&](int n) {
    const threads some(at.ctx, n);
    return evaluate(at.ctx, pick, dy, x);
  };
  const auto found = run(1), again = run(2);
  const auto wanted = reference::moved(from, numbers(x), numbers(dy));
  CHECK(numbers(found.y) == wanted.y);
  CHECK(worst_error(numbers(std::get<0>(found.gradients)), wanted.gradients.at(0)) < 1e-5);
  CHECK(same_bits(std::get<0>(found.gradients), std::get<0>(again.gradients)));
  if constexpr (each) {  // scatter_add is the transpose
    const auto sum = gr::scatter_add<Axis>(gr::zeros<float, X>(at.ctx), indices, dy);
    CHECK(same_bits(sum, std::get<0>(found.gradients)));
    CHECK(worst_error(gr::scatter_add<Axis>(x, indices, dy), x + sum) < 1e-5);
    const auto halves = gr::scatter_add<Axis>(gr::cast<gr::bf16>(x), indices, gr::cast<gr::bf16>(dy));
    CHECK(error_in_norm(halves, x + sum) < 4e-3);
  }
}

}  // namespace

TEST_CASE("gather, index_select and scatter_add agree with plain loops along every axis, with one order of sums") {
  check_picks<0, gr::shape<7>, gr::shape<19>, std::uint8_t>();
  check_picks<0, gr::shape<11, 67>, gr::shape<5>, std::int32_t>();
  check_picks<1, gr::shape<3, 5, 7>, gr::shape<9>, std::int64_t>();
  check_picks<2, gr::shape<3, 5, 7>, gr::shape<1>, std::uint16_t>();
  check_picks<0, gr::shape<4, 600>, gr::shape<40, 600>, std::int32_t>();
  check_picks<1, gr::shape<3, 5, 7>, gr::shape<3, 11, 7>, std::int64_t>();
  check_picks<1, gr::shape<70, 13>, gr::shape<70, 1>, std::int32_t>();
}

TEST_CASE("scatter_add adds in the memory of an operand that is moved in; one_hot has a 1 for each index") {
  workplace at;
  const auto indices = gr::from_values<std::int32_t, gr::shape<1, 3>>(at.ctx, {2, 0, 2});
  const auto values = gr::from_values<float, gr::shape<1, 3>>(at.ctx, {1, 2, 4});
  auto x = gr::from_values<float, gr::shape<1, 3>>(at.ctx, {10, 20, 30});
  const auto kept = gr::scatter_add<1>(x, indices, values);
  const float* memory = x.data();
  const auto y = gr::scatter_add<1>(std::move(x), indices, values);
  CHECK(y.data() == memory);
  CHECK(gr::to_host(y) == std::vector<float>{12, 20, 35});
  CHECK(same_bits(y, kept));
  CHECK(gr::to_host(gr::one_hot<3>(indices)) == std::vector<float>{0, 0, 1, 1, 0, 0, 0, 0, 1});
  const gr::tensor<std::uint8_t, gr::shape<1, 3, 4>> of_bytes = gr::one_hot<4, std::uint8_t>(indices);
  CHECK(of_bytes(0, 1, 0) == 1);
  // The gradient of a 16-bit operand is summed in float and rounded once.
  const auto many = gr::zeros<std::uint8_t, gr::shape<1000>>(at.ctx);
  const auto dy = gr::full<gr::bf16, gr::shape<1000>>(at.ctx, gr::bf16(1.0f));
  const auto sum = evaluate(
      at.ctx, [&](auto v) { return gr::index_select<0>(v, many); }, dy,
      gr::full<gr::bf16, gr::shape<2>>(at.ctx, gr::bf16(3.0f)));
  CHECK(static_cast<float>(std::get<0>(sum.gradients)(0)) == 1000);
}

TEST_CASE("an index outside of its axis is refused, and nothing is written") {
  workplace at;
  auto x = gr::zeros<float, gr::shape<2, 3>>(at.ctx);
  const auto indices = gr::from_values<std::int64_t, gr::shape<2, 2>>(at.ctx, {0, 2, -1, 1});
  CHECK_THROWS_WITH_AS(gr::gather<1>(x, indices), "gather: index -1 at position 2 is outside 0 .. 2", gr::error);
  const auto row = gr::from_values<std::uint8_t, gr::shape<2>>(at.ctx, {1, 2});
  CHECK_THROWS_WITH_AS(gr::index_select<0>(x, row), "index_select: index 2 at position 1 is outside 0 .. 1", gr::error);
  CHECK_THROWS_WITH_AS(gr::one_hot<2>(row), "one_hot: index 2 at position 1 is outside 0 .. 1", gr::error);
  const auto shared = x;
  const auto values = gr::ones<float, gr::shape<2, 2>>(at.ctx);
  CHECK_THROWS_WITH_AS(gr::scatter_add<1>(std::move(x), indices, values),
                       "scatter_add: index -1 at position 2 is outside 0 .. 2", gr::error);
  CHECK(gr::to_host(shared) == std::vector<float>(6));
}

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
