#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <gradus/planning.hpp>

#include "../../support/operands.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {

// The loss with so many rows of logits at once.
template <gr::index_t Vocabulary, gr::index_t ChunkRows>
constexpr auto in_chunks(long long ignore = -1) {
  return [ignore](auto&& x, auto&& table, const auto& targets) {
    return gr::apply(gr::op::linear_cross_entropy<Vocabulary, ChunkRows>{ignore}, std::forward<decltype(x)>(x),
                     std::forward<decltype(table)>(table), targets);
  };
}

template <class X, class Table, class Targets>
outcome definition(const X& x, const Table& table, const Targets& targets, std::size_t vocabulary, double ignore) {
  return reference::linear_cross_entropy(vocabulary, numbers(x), numbers(table), numbers(targets), ignore);
}
void compare(const outcome& found, const outcome& wanted, double within) {
  CHECK(found.y[0] == doctest::Approx(wanted.y[0]).epsilon(1e-5));
  CHECK(worst_error(found.gradients[0], wanted.gradients[0]) < within);
  CHECK(worst_error(found.gradients[1], wanted.gradients[1]) < within);
}

template <gr::index_t Rows, gr::index_t Width, gr::index_t TableRows, gr::index_t Vocabulary, gr::index_t ChunkRows,
          class I = std::int32_t>
void check() {
  CAPTURE(Rows);
  CAPTURE(ChunkRows);
  workplace at;
  const auto x = normal<float, gr::shape<Rows, Width>>(at.ctx, 0.3);  // no row so sure that p - 1 is all rounding
  const auto table = normal<float, gr::shape<TableRows, Width>>(at.ctx);
  auto targets = integers<I, gr::shape<Rows>>(at.ctx, std::is_signed_v<I> ? -1 : 0, static_cast<int>(Vocabulary) - 1);
  targets(Rows - 1) = I(0);  // one row counts at least
  const auto one = gr::ones<float, gr::shape<>>(at.ctx);
  const auto chunked = in_chunks<Vocabulary, ChunkRows>();
  const auto r = evaluate(
      at.ctx, [&](auto vx, auto vtable) { return chunked(vx, vtable, targets); }, one, x, table);
  compare(numbers(r), definition(x, table, targets, Vocabulary, -1), 1e-4);
  CHECK(same_bits(chunked(x, table, targets), r.y));  // recorded or not
}

// A head and its loss, on any device.
template <class D, class P = gr::fp32>
struct head {
  static constexpr gr::index_t rows = 20, width = 6, columns = 33, chunk = 8;
  gr::param<gr::on<D, P>, width> scale;
  gr::param<gr::on<D, P>, columns, width> table;
};
template <class D, class P = gr::fp32>
struct head_step {
  using sizes = head<D, P>;
  head<D, P> net;
  gr::context<D>& transient;
  gr::tape<D> tape;
  int batches;

  constexpr head_step(gr::context<D>& persistent, gr::context<D>& to, int n) : transient(to), tape(to), batches(n) {
    net.scale.set(gr::full<float, gr::shape<sizes::width>>(persistent, 2.0f, gr::category::parameter));
    net.table.set(gr::full<float, gr::shape<sizes::columns, sizes::width>>(persistent, 0.5f, gr::category::parameter));
  }
  constexpr void step() {
    for (int i = 0; i < batches; ++i) {
      auto x = gr::full<float, gr::shape<4, 5, sizes::width>>(transient, 0.5f, gr::category::input);
      const auto targets = gr::full<std::int32_t, gr::shape<4, 5>>(transient, 3, gr::category::input);
      const auto chunked = in_chunks<sizes::columns, sizes::chunk>();
      gr::backward(chunked(tape.watch(std::move(x)) * net.scale, net.table, targets), 0.5f);
    }
    net.scale.clear_gradient();
    net.table.clear_gradient();
  }
};
constexpr std::size_t kept_by(const gr::step_summary& plan, std::string_view name) {
  for (std::size_t i = 0; i < plan.op_count; ++i)
    if (plan.ops[i].name == name) return plan.ops[i].saved_bytes;
  return 0;
}

}  // namespace

TEST_CASE("linear_cross_entropy is cross_entropy of a product, whatever the rows at once") {
  check<1, 1, 1, 1, 0>();
  check<1, 19, 7, 7, 1>();
  check<7, 5, 40, 37, 1>();
  check<7, 5, 40, 37, 3>();         // a last chunk of one row
  check<8, 17, 33, 33, 4>();        // whole chunks
  check<13, 3, 64, 61, 13>();       // one chunk
  check<13, 3, 64, 61, 100>();      // one chunk, and not a full one
  check<300, 24, 130, 129, 128>();  // more than a tile of a product
  check<33, 8, 50, 50, 0>();
  check<9, 6, 256, 255, 4, std::uint8_t>();
  check<9, 6, 300, 300, 4, std::int64_t>();
}

TEST_CASE("linear_cross_entropy takes any number of axes, and the whole table as vocabulary unless told") {
  workplace at;
  const auto table = normal<float, gr::shape<11, 5>>(at.ctx);
  const auto x = normal<float, gr::shape<2, 3, 5>>(at.ctx);
  const auto targets = integers<std::int32_t, gr::shape<2, 3>>(at.ctx, 0, 10);
  const auto flat = gr::linear_cross_entropy<11>(gr::reshape<6, 5>(x), table, gr::reshape<6>(targets));
  CHECK(same_bits(gr::linear_cross_entropy(x, table, targets), flat));
  CHECK(same_bits(gr::linear_cross_entropy<11, 4>(x, table, targets), in_chunks<11, 4>()(x, table, targets)));
  const auto row = gr::from_values<float, gr::shape<5>>(at.ctx, {1, 2, 3, 4, 5});
  const auto target = gr::full<std::int32_t, gr::shape<>>(at.ctx, 10);
  const auto wanted = definition(row, table, target, 11, -1);
  CHECK(gr::item(gr::linear_cross_entropy(row, table, target)) == doctest::Approx(wanted.y[0]).epsilon(1e-5));
}

TEST_CASE("rows go through in chunks of equal size, in 128s, as few as the device's bytes for a chunk's logits allow") {
  using op = gr::op::linear_cross_entropy<50304>;
  using table = gr::tensor<float, gr::shape<50304, 8>, gr::meta>;
  static_assert(op::chunk_rows<gr::tensor<float, gr::shape<8, 512, 8>, gr::meta>, table>() == 640);
  static_assert(op::chunk_rows<gr::tensor<float, gr::shape<100, 8>, gr::meta>, table>() == 100);
  static_assert(op::chunk_rows<gr::tensor<float, gr::shape<660, 8>, gr::meta>, table>() == 660);
  static_assert(op::chunk_rows<gr::tensor<float, gr::shape<1300, 8>, gr::meta>, table>() ==
                512);  // two of 768 are too many
  static_assert(op::chunk_rows<gr::tensor<gr::bf16, gr::shape<1300, 8>, gr::meta>, table>() == 1300);
  using wide = gr::tensor<double, gr::shape<1000000, 8>, gr::meta>;
  static_assert(op::chunk_rows<gr::tensor<double, gr::shape<200, 8>, gr::meta>, wide>() == 128);
  using on_gpu = gr::tensor<gr::bf16, gr::shape<50304, 8>, gr::cuda_meta>;  // 1 GiB: 10672 rows
  static_assert(op::chunk_rows<gr::tensor<gr::bf16, gr::shape<65536, 8>, gr::cuda_meta>, on_gpu>() == 9472);  // of 7
  static_assert(op::chunk_rows<gr::tensor<gr::bf16, gr::shape<10600, 8>, gr::cuda_meta>, on_gpu>() == 10600);
  using few = gr::op::linear_cross_entropy<50304, 384>;
  static_assert(few::chunk_rows<gr::tensor<gr::bf16, gr::shape<10600, 8>, gr::cuda_meta>, on_gpu>() == 384);
}

TEST_CASE("a recorded linear_cross_entropy keeps the two gradients and nothing else") {
  workplace at;
  using Table = gr::tensor<float, gr::shape<96, 8>>;
  using X = gr::tensor<float, gr::shape<64, 8>>;
  const auto targets = integers<std::int32_t, gr::shape<64>>(at.ctx, 0, 95);
  gr::param<gr::on<gr::cpu>, 96, 8> table;
  table.set(normal<float, Table::shape>(at.ctx));
  gr::tape tape{at.ctx};
  const auto x = tape.variable(normal<float, X::shape>(at.ctx));
  at.stats.reset_peak();
  const auto before = at.stats.all().live;
  const auto chunked = in_chunks<96, 16>();
  {
    const auto loss = chunked(x, table, targets);
    CHECK(at.stats.all().live - before == X::bytes + Table::bytes + sizeof(float));
    CHECK(at.stats.all().peak - before ==
          X::bytes + Table::bytes + sizeof(float) + 16 * 96 * sizeof(float) + 64 * sizeof(double));
    CHECK(at.stats.of(gr::category::gradient).live == Table::bytes);
    gr::backward(loss, 0.5f);  // no copy of either
  }
  CHECK(at.stats.all().live - before == X::bytes + Table::bytes);
}

TEST_CASE("linear_cross_entropy's gradients scale with the gradient of the loss") {
  workplace at;
  const auto x = normal<float, gr::shape<6, 19>>(at.ctx);
  const auto table = normal<float, gr::shape<23, 19>>(at.ctx);
  const auto targets = integers<std::int32_t, gr::shape<6>>(at.ctx, 0, 22);
  const auto run = [&](float scale) {
    return evaluate(
        at.ctx, [&](auto vx, auto vtable) { return in_chunks<23, 4>()(vx, vtable, targets); },
        gr::full<float, gr::shape<>>(at.ctx, scale), x, table);
  };
  const auto one = run(1.0f);
  const auto three = run(3.0f);
  const auto tripled = [](const auto& gradient) {
    std::vector<double> values;
    for (const float v : gradient.values()) values.push_back(3 * static_cast<double>(v));
    return values;
  };
  CHECK(worst_error(std::get<0>(three.gradients).values(), tripled(std::get<0>(one.gradients))) < 1e-6);
  CHECK(worst_error(std::get<1>(three.gradients).values(), tripled(std::get<1>(one.gradients))) < 1e-6);
}

TEST_CASE("linear_cross_entropy adds to the gradient that a table has, and leaves constants alone") {
  workplace at;
  gr::param<gr::on<gr::cpu>, 23, 5> table;
  table.set(normal<float, gr::shape<23, 5>>(at.ctx));
  const auto targets = integers<std::int32_t, gr::shape<6>>(at.ctx, 0, 22);
  gr::tape tape{at.ctx};
  const auto gradient_of = [&](const auto& x) {  // x is a constant
    table.clear_gradient();
    gr::backward(in_chunks<23, 4>()(tape.watch(x), table, targets));
    return gr::to_host(table.gradient());
  };
  const auto a = normal<float, gr::shape<6, 5>>(at.ctx);
  const auto b = normal<float, gr::shape<6, 5>>(at.ctx);
  const auto from_a = gradient_of(a);
  auto both = gradient_of(b);
  gr::backward(in_chunks<23, 4>()(tape.watch(a), table, targets));
  for (std::size_t i = 0; i < both.size(); ++i) both[i] += from_a[i];
  CHECK(gr::to_host(table.gradient()) == both);

  // The token table of a language model: at the beginning and at the end.
  const auto tokens = integers<std::int32_t, gr::shape<6>>(at.ctx, 0, 22);
  const auto shared = [&](auto loss) {
    table.clear_gradient();
    gr::backward(loss(gr::embedding(tape.watch(tokens), table)));
    return gr::to_host(table.gradient());
  };
  const auto found = shared([&](auto x) { return in_chunks<23, 4>()(std::move(x), table, targets); });
  const auto wanted = shared(
      [&](auto x) { return gr::cross_entropy(gr::matmul<gr::transpose{.b = true}>(std::move(x), table), targets); });
  CHECK(worst_error(found, wanted) < 1e-5);

  const auto constant = table.value();
  const auto v = tape.variable(gr::clone(a));
  gr::backward(in_chunks<23, 4>()(v, constant, targets));
  CHECK(worst_error(v.gradient().values(), definition(a, constant, targets, 23, -1).gradients[0]) < 1e-4);
}

TEST_CASE("rows whose target is ignored count for nothing in linear_cross_entropy; when all do, everything is 0") {
  workplace at;
  const auto x = normal<float, gr::shape<5, 4>>(at.ctx, 0.3);
  const auto table = normal<float, gr::shape<7, 4>>(at.ctx);
  const auto run = [&](const auto& targets) {
    return evaluate(
        at.ctx, [&](auto vx, auto vtable) { return in_chunks<7, 2>(-100)(vx, vtable, targets); },
        gr::ones<float, gr::shape<>>(at.ctx), x, table);
  };
  const auto some = gr::from_values<std::int32_t, gr::shape<5>>(at.ctx, {-100, -100, 3, -100, 6});  // none of a chunk
  const auto r = run(some);
  compare(numbers(r), definition(x, table, some, 7, -100), 1e-5);

  const auto none = run(gr::full<std::int32_t, gr::shape<5>>(at.ctx, -100));
  CHECK(gr::item(none.y) == 0.0f);
  for (const float v : std::get<0>(none.gradients).values()) CHECK(v == 0.0f);
  for (const float v : std::get<1>(none.gradients).values()) CHECK(v == 0.0f);
}

TEST_CASE("linear_cross_entropy refuses a target that is no row of the vocabulary, and has then changed nothing") {
  workplace at;
  const auto x = normal<float, gr::shape<5, 4>>(at.ctx);
  gr::param<gr::on<gr::cpu>, 7, 4> table;
  table.set(normal<float, gr::shape<7, 4>>(at.ctx));
  auto targets = integers<std::int32_t, gr::shape<5>>(at.ctx, 0, 5);
  gr::tape tape{at.ctx};
  gr::backward(in_chunks<6, 2>()(tape.watch(x), table, targets));
  const auto gradient = gr::to_host(table.gradient());
  const auto before = at.stats.all().live;
  targets(4) = 6;  // in the last chunk, and a row of padding
  const char* const message =
      "linear_cross_entropy(x, table, targets): target 6 of row 4 is outside 0 .. 5 and is not the ignored -1";
  CHECK_THROWS_WITH_AS((in_chunks<6, 2>()(tape.watch(x), table, targets)), message, gr::error);
  CHECK_THROWS_WITH_AS((in_chunks<6, 2>()(x, table.value(), targets)), message, gr::error);
  CHECK(at.stats.all().live == before);
  CHECK(gr::to_host(table.gradient()) == gradient);
}

TEST_CASE("linear_cross_entropy has the same bits on one, two and three threads") {
  workplace at;
  const auto x = normal<float, gr::shape<200, 40>>(at.ctx);
  const auto table = normal<float, gr::shape<777, 40>>(at.ctx);
  const auto targets = integers<std::int32_t, gr::shape<200>>(at.ctx, -1, 699);
  const auto run = [&](int n) {
    const threads some(at.ctx, n);
    return evaluate(
        at.ctx, [&](auto vx, auto vtable) { return in_chunks<700, 64>()(vx, vtable, targets); },
        gr::ones<float, gr::shape<>>(at.ctx), x, table);
  };
  const auto one = run(1);
  CHECK(std::isfinite(gr::item(one.y)));
  for (const int n : {2, 3}) {
    const auto several = run(n);
    CHECK(same_bits(one.y, several.y));
    CHECK(same_bits(std::get<0>(one.gradients), std::get<0>(several.gradients)));
    CHECK(same_bits(std::get<1>(one.gradients), std::get<1>(several.gradients)));
  }
}

TEST_CASE("linear_cross_entropy inside a checkpoint region, kept or computed again, has the bits of the plain one") {
  workplace at;
  const auto x = normal<float, gr::shape<11, 6>>(at.ctx);
  const auto table = normal<float, gr::shape<17, 6>>(at.ctx);
  const auto targets = integers<std::int32_t, gr::shape<11>>(at.ctx, -1, 16);
  const auto loss = [&](auto vx, auto vtable) { return in_chunks<17, 4>()(vx * 1.5, vtable, targets); };
  const auto dy = gr::full<float, gr::shape<>>(at.ctx, 0.5f);
  const auto plain = evaluate(at.ctx, loss, dy, x, table);
  const auto check_same = [&](const auto& r) {
    CHECK(same_bits(r.y, plain.y));
    CHECK(same_bits(std::get<0>(r.gradients), std::get<0>(plain.gradients)));
    CHECK(same_bits(std::get<1>(r.gradients), std::get<1>(plain.gradients)));
  };
  check_same(evaluate(
      at.ctx, [&](auto vx, auto vtable) { return gr::checkpoint(loss, vx, vtable); }, dy, x, table));
  using policy = gr::save_only<gr::op::linear_cross_entropy<17, 4>>;
  check_same(evaluate(
      at.ctx, [&](auto vx, auto vtable) { return gr::checkpoint<policy>(loss, vx, vtable); }, dy, x, table));
}

namespace {
template <class P>
void check_planned_peak(int batches) {
  gr::stream stream;
  gr::host_resource heap;
  gr::stats_resource stats(heap);
  gr::context persistent{stream, stats};
  gr::context transient{stream, stats};
  head_step<gr::cpu, P> training(persistent, transient, batches);
  training.step();
  stats.reset_peak();
  training.step();
  CHECK(stats.all().peak == gr::summarize_step<head_step<gr::meta, P>>(batches).peak_bytes);
}
}  // namespace

TEST_CASE("the planned peak of a step with linear_cross_entropy is the measured one, also with several batches") {
  constexpr auto planned = gr::summarize_step<head_step<gr::meta>>(1);
  using sizes = head<gr::meta>;
  constexpr std::size_t gradients = sizeof(float) * sizes::width * (sizes::rows + sizes::columns);
  static_assert(kept_by(planned, "linear_cross_entropy") == gradients);
  CHECK(gr::summarize_step<head_step<gr::meta>>(1).peak_bytes == planned.peak_bytes);
  for (const int batches : {1, 3}) {
    check_planned_peak<gr::fp32>(batches);
    check_planned_peak<gr::bf16_gradients>(batches);  // the table's gradient is summed in a float temporary
  }
}
