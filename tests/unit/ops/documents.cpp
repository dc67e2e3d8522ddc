// Documents one behind the other in a row of tokens: attention and rotary positions are those of each document alone.
#include "../../support/documents.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "../../support/operands.hpp"

namespace gr = gradus;
using namespace gradus_test;
using gr::index_t;

namespace {

struct document {
  index_t sequence, begin, end;
  index_t size() const { return end - begin; }
};
std::vector<document> documents_in(const std::vector<std::int32_t>& pairs, index_t times) {
  std::vector<document> found;
  for (index_t i = 0; i < pairs.size() / 2; ++i)
    if (static_cast<index_t>(pairs[2 * i]) == i % times && pairs[2 * i] < pairs[2 * i + 1])
      found.push_back({i / times, i % times, static_cast<index_t>(pairs[2 * i + 1])});
  return found;
}

template <index_t Axis, class X>
using part_of =
    gr::tensor<typename X::value_type,
               gr::with_extent<gr::with_extent<typename X::shape, 0, 1>, Axis, gr::upto<X::shape::extent(Axis)>>>;
/// Calls f with each row along the axis that belongs to the document, its first element in x, and that in a part.
template <index_t Axis, class X, class F>
void for_rows(const X& x, const document& of, const F& f) {
  const auto extents = x.extents().extents;
  index_t outer = 1;
  for (index_t a = 1; a < Axis; ++a) outer *= extents[a];
  const index_t inner = x.extents().stride(Axis);
  for (index_t o = 0; o < outer; ++o)
    for (index_t t = 0; t < of.size(); ++t)
      f(((of.sequence * outer + o) * extents[Axis] + of.begin + t) * inner, (o * of.size() + t) * inner, inner);
}
/// A document of x as a tensor of its own, in a bounded shape.
template <index_t Axis, class X>
part_of<Axis, X> take(workplace& at, const X& x, const document& of) {
  auto part = gr::zeros<typename X::value_type, typename part_of<Axis, X>::shape>(at.ctx, {of.size()});
  for_rows<Axis>(x, of, [&](index_t i, index_t j, index_t n) { std::copy_n(x.data() + i, n, part.data() + j); });
  return part;
}
template <index_t Axis, class X, class Part>
void put_back(X& x, const document& of, const Part& part) {
  for_rows<Axis>(x, of, [&](index_t i, index_t j, index_t n) { std::copy_n(part.data() + j, n, x.data() + i); });
}

/// Options besides the documents.
struct kind {
  const char* name;
  gr::attention_options<> options;
  bool lengths = false, mask = false;
};

/// Holds values and gradients of packed documents against those of each document alone: gradients of keys and values
/// are sums over blocks of queries, which begin elsewhere, the others have the same bits. Documents are along `Axis`.
template <auto How, index_t Axis, class T, class Q, class K>
void check(const kind& how, double tolerance) {
  CAPTURE(std::string(how.name));
  workplace at;
  constexpr index_t batch = Q::extent(0), times = Q::extent(Axis);
  const auto pairs = draw_documents(batch, times);
  auto options = how.options;
  options.documents = gr::from_host<std::int32_t, gr::shape<batch, times, 2>>(at.ctx, pairs.data());
  const auto lengths = integers<std::int32_t, gr::shape<batch>>(at.ctx, times / 2, times);
  const auto mask = gr::cast<bool>(integers<std::int32_t, gr::shape<batch, times>>(at.ctx, 0, 2));
  if (how.lengths) options.key_lengths = lengths;
  if (how.mask) options.mask = mask;
  const auto q = normal<T, Q>(at.ctx), dy = normal<T, Q>(at.ctx);
  const auto k = normal<T, K>(at.ctx), v = normal<T, K>(at.ctx);
  const auto attend = [&](const gr::attention_options<>& with) {
    return [&with](auto a, auto b, auto c) { return gr::attention<How>(a, b, c, with); };
  };
  const auto packed = evaluate(at.ctx, attend(options), dy, q, k, v);
  auto y = gr::zeros<T, Q>(at.ctx), dq = gr::zeros<T, Q>(at.ctx);
  auto dk = gr::zeros<T, K>(at.ctx), dv = gr::zeros<T, K>(at.ctx);
  for (const document& of : documents_in(pairs, times)) {
    auto alone = how.options;
    const auto here = static_cast<std::int32_t>(of.begin), size = static_cast<std::int32_t>(of.size());
    if (how.lengths)
      alone.key_lengths =
          gr::full<std::int32_t, gr::shape<1>>(at.ctx, std::clamp(lengths.data()[of.sequence] - here, 0, size));
    if (how.mask) alone.mask = take<1>(at, mask, of);
    const auto part = [&](const auto& x) { return take<Axis>(at, x, of); };
    const auto f = evaluate(at.ctx, attend(alone), part(dy), part(q), part(k), part(v));
    put_back<Axis>(y, of, f.y);
    put_back<Axis>(dq, of, std::get<0>(f.gradients));
    put_back<Axis>(dk, of, std::get<1>(f.gradients));
    put_back<Axis>(dv, of, std::get<2>(f.gradients));
  }
  CHECK(same_bits(packed.y, y));
  CHECK(same_bits(std::get<0>(packed.gradients), dq));
  CHECK(error_in_norm(std::get<1>(packed.gradients), dk) < tolerance);
  CHECK(error_in_norm(std::get<2>(packed.gradients), dv) < tolerance);
}

/// [sequences, times, 2] with these lengths; a document of a negative length is none.
std::vector<std::int32_t> pairs_of(const std::vector<std::int32_t>& lengths) {
  std::vector<std::int32_t> pairs;
  std::int32_t begin = 0;
  for (const std::int32_t n : lengths) {
    const std::int32_t size = std::abs(n), end = n < 0 ? begin : begin + n;
    for (std::int32_t i = 0; i < size; ++i) pairs.insert(pairs.end(), {begin, end});
    begin += size;
  }
  return pairs;
}

}  // namespace

TEST_CASE_TEMPLATE("packed documents have the values and gradients of each alone, with whatever options", T, float,
                   double) {
  const double tolerance = sizeof(T) == 4 ? 2e-6 : 1e-14;
  for (const kind& how : {kind{"none", {}}, kind{"causal", {.causal = true}}, kind{"window", {.window = 20}},
                          kind{"causal window", {.causal = true, .window = 40}}, kind{"lengths", {}, true},
                          kind{"mask", {}, false, true}, kind{"cap", {.scale = 0.9, .cap = 1.5}},
                          kind{"all", {.causal = true, .scale = 0.3, .window = 33, .cap = 2}, true, true}}) {
    check<4, 1, T, gr::shape<2, 300, 4 * 8>, gr::shape<2, 300, 2 * 8>>(how, tolerance);
    check<false, 2, T, gr::shape<1, 3, 257, 5>, gr::shape<1, 3, 257, 5>>(how, tolerance);
  }
}

TEST_CASE("documents that begin where a block of queries does have all bits of each alone") {
  workplace at;
  constexpr index_t times = 350;
  const auto pairs = pairs_of({64, 50, -14, 128, 1, -63, 30});
  const auto documents = gr::from_host<std::int32_t, gr::shape<1, times, 2>>(at.ctx, pairs.data());
  const auto x = normal<float, gr::shape<1, times, 3 * 24>>(at.ctx);
  const auto dy = normal<float, gr::shape<1, times, 24>>(at.ctx);
  const auto packed = evaluate(
      at.ctx, [&](auto a) { return gr::causal_attention<2>(a, {.documents = documents}); }, dy, x);
  for (const document& of : documents_in(pairs, times)) {
    CAPTURE(of.begin);
    const auto alone = evaluate(
        at.ctx, [](auto a) { return gr::causal_attention<2>(a); }, take<1>(at, dy, of), take<1>(at, x, of));
    CHECK(gr::to_host(take<1>(at, packed.y, of)) == gr::to_host(alone.y));
    CHECK(gr::to_host(take<1>(at, std::get<0>(packed.gradients), of)) == gr::to_host(std::get<0>(alone.gradients)));
  }
}

TEST_CASE("positions of no document yield 0 and have no gradient") {
  workplace at;
  const auto documents = gr::zeros<std::int32_t, gr::shape<2, 70, 2>>(at.ctx);
  const auto x = normal<float, gr::shape<2, 70, 3 * 6>>(at.ctx);
  const auto dy = normal<float, gr::shape<2, 70, 6>>(at.ctx);
  const auto f = evaluate(
      at.ctx, [&](auto a) { return gr::causal_attention<2>(a, {.documents = documents}); }, dy, x);
  const auto is_zero = [](const auto& of) { return std::ranges::all_of(of.values(), [](float v) { return v == 0; }); };
  CHECK(is_zero(f.y));
  CHECK(is_zero(std::get<0>(f.gradients)));
}

TEST_CASE("causal_attention with options has the bits of attention with them, on any number of threads") {
  workplace at;
  constexpr index_t times = 200, width = 16;
  const auto x = normal<float, gr::shape<1, times, 3 * width>>(at.ctx);
  const auto dy = normal<float, gr::shape<1, times, width>>(at.ctx);
  const auto q = gr::slice<2, 0, width>(x), k = gr::slice<2, width, width>(x), v = gr::slice<2, 2 * width, width>(x);
  const auto lengths = gr::full<std::int32_t, gr::shape<1>>(at.ctx, 170);
  const gr::attention_options<> options{
      .causal = true,
      .dropout = 0.25,
      .key_lengths = lengths,
      .window = 50,
      .documents = gr::from_host<std::int32_t, gr::shape<1, times, 2>>(at.ctx, draw_documents(1, times).data())};
  auto without_causal = options;
  without_causal.causal = false;
  const auto apart = evaluate(
      at.ctx, [&](auto a, auto b, auto c) { return gr::attention<2>(a, b, c, options); }, dy, q, k, v);
  for (const int n : {1, 2, 7}) {
    const threads some(at.ctx, n);
    const auto packed = evaluate(
        at.ctx, [&](auto a) { return gr::causal_attention<2>(a, without_causal); }, dy, x);
    CHECK(same_bits(packed.y, apart.y));
    const auto& [dq, dk, dv] = apart.gradients;
    CHECK(same_bits(std::get<0>(packed.gradients), gr::concat<2>(dq, dk, dv)));
  }
  CHECK_FALSE(same_bits(gr::causal_attention<2>(x, without_causal), apart.y));  // not recorded: no dropout
}

TEST_CASE("rows with fewer tokens than their bound have the bits of those of a static shape") {
  workplace at;
  constexpr index_t most = 300, times = 170;
  auto pairs = draw_documents(1, times);
  pairs.resize(2 * most);
  const auto x = normal<float, gr::shape<1, most, 3 * 8>>(at.ctx),
             dy = normal<float, gr::shape<1, most, 3 * 8>>(at.ctx);
  const auto documents = gr::from_host<std::int32_t, gr::shape<1, most, 2>>(at.ctx, pairs.data());
  const auto positions = gr::from_host<std::int32_t, gr::shape<1, most>>(at.ctx, positions_in(pairs, most).data());
  const auto run = [&](const auto& first) {
    const auto of = first(documents);
    const auto f = evaluate(
        at.ctx,
        [&](auto a) {
          return gr::attention<3>(gr::rope<1>(a, first(positions)), a, a, {.dropout = 0.1, .documents = of});
        },
        first(dy), first(x));
    return std::pair{gr::to_host(f.y), gr::to_host(std::get<0>(f.gradients))};
  };
  CHECK(run([&](const auto& whole) {
          return take<1>(at, whole, {0, 0, times});
        }) == run([&](const auto& whole) { return gr::slice<1, 0, times>(whole); }));
}

TEST_CASE("rope with positions has the bits of each document alone, forward and backward") {
  workplace at;
  constexpr index_t times = 150;
  const auto pairs = draw_documents(2, times);
  const auto positions = gr::from_host<std::int32_t, gr::shape<2, times>>(at.ctx, positions_in(pairs, times).data());
  const auto check = [&]<class T>(T, const gr::rope_options& options) {
    const auto x = normal<T, gr::shape<2, times, 3 * 10>>(at.ctx), dy = normal<T, gr::shape<2, times, 3 * 10>>(at.ctx);
    const auto packed = evaluate(
        at.ctx, [&](auto a) { return gr::rope<3>(a, positions, options); }, dy, x);
    for (const document& of : documents_in(pairs, times)) {
      const auto alone = evaluate(
          at.ctx, [&](auto a) { return gr::rope<3>(a, options); }, take<1>(at, dy, of), take<1>(at, x, of));
      CHECK(numbers(take<1>(at, packed.y, of)) == numbers(alone.y));
      CHECK(numbers(take<1>(at, std::get<0>(packed.gradients), of)) == numbers(std::get<0>(alone.gradients)));
    }
  };
  check(float{}, {});
  check(double{}, {.base = 100, .position = 70000, .layout = gr::rope_layout::pairs, .scaling = {.factor = 8}});
  check(gr::bf16{}, {.position = 3});
}

TEST_CASE("positions before 0 turn back") {
  workplace at;
  const auto x = normal<double, gr::shape<4, 6>>(at.ctx);
  const auto forth = gr::from_values<std::int32_t, gr::shape<4>>(at.ctx, {0, 1, 100, 7});
  CHECK(worst_error(gr::rope<1>(gr::rope<1>(x, forth), forth * -1), x) < 1e-12);
}
