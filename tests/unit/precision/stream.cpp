// bf16_stream: what runs through a transformer is bf16 from the embeddings to the loss, and back.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "../../support/operands.hpp"

namespace gr = gradus;
using gradus_test::normal;
using gradus_test::workplace;

namespace {

constexpr gr::index_t batch = 2, times = 7, width = 18, tokens = 41;
constexpr gr::index_t stream_size = batch * times * width;
using ids = gr::tensor<std::int32_t, gr::shape<batch, times>>;

template <class X>
struct transformer {
  gr::nn::embedding<X, tokens, width> table;
  gr::param<X, times, width> positions;
  gr::nn::block<X, width, 3> first, second;
  gr::nn::layer_norm<X, width> norm;
  GRADUS_MEMBERS(table, positions, first, second, norm)

  auto stream(const auto& in, double drop) const {
    auto x = gr::dropout(table(in) + positions, drop);
    return second(gr::checkpoint([this, drop](auto v) { return first(std::move(v), drop); }, std::move(x)), drop);
  }
  auto loss(const auto& in, const ids& targets, double drop) const {
    return gr::linear_cross_entropy<tokens - 2>(norm(stream(in, drop)), table.weight, targets);
  }
};

template <class P>
using on = gr::on<gr::cpu, P>;
template <class P>
using copies = gr::precision_with<P, gr::keep_copies>;

// Counts the float tensors that operations compute, give as gradients or take as scratch, if they have one of the
// stream's sizes, those of the branches among them; and the casts.
class float_counter final : public gr::observer, public gr::memory_resource {
 public:
  void begin(const gr::activity& what) override { casts += what.name == "cast" ? 1 : 0; }
  void end(const gr::activity&) override {}
  void computed(const gr::activity& what, const gr::computed_values& values) override {
    if (values.read == &gr::detail::read_element<float> && is_of_stream(values.count)) floats.emplace_back(what.name);
  }
  int casts = 0;
  std::vector<std::string> floats;

 private:
  static bool is_of_stream(std::size_t size) {
    return size == stream_size || size == 3 * stream_size || size == 4 * stream_size;
  }
  void* do_allocate(const gr::memory_request& request, gr::stream& on) override {
    // The same bytes of bf16 would be the stream twice, six or eight times.
    if (request.bytes % sizeof(float) == 0 && is_of_stream(request.bytes / sizeof(float)) &&
        request.what != gr::category::parameter)
      floats.emplace_back(request.source);
    return heap_.allocate(request, on);
  }
  void do_deallocate(void* memory, const gr::memory_request& request, gr::stream& on) noexcept override {
    heap_.deallocate(memory, request, on);
  }
  gr::host_resource heap_;
};

struct found {
  std::vector<std::string> floats;
  int casts = 0;
  std::vector<float> numbers;  // loss and gradients
};
template <class P>
found step(unsigned seed, double drop) {
  gr::stream stream;
  float_counter count;
  gr::context<gr::cpu> ctx{stream, count};
  transformer<on<P>> net;
  gr::init(net, ctx, gr::normal_init{.seed = seed, .stddev = 0.3});
  const ids in = gradus_test::integers<std::int32_t, ids::shape>(ctx, 0, tokens - 3, seed);
  const ids targets = gradus_test::integers<std::int32_t, ids::shape>(ctx, 0, tokens - 3, seed + 1);
  count.floats.clear();
  ctx.observe(&count);
  gr::tape tape{ctx, seed};
  const auto loss = net.loss(tape.watch(in), targets, drop);
  static_assert(std::is_same_v<gr::value_of_t<decltype(loss)>, float>);
  gr::backward(loss);
  ctx.observe(nullptr);
  found result{count.floats, count.casts, {gr::item(loss.value())}};
  gr::for_each_param(net, [&](std::string_view, const auto& p) {
    static_assert(std::is_same_v<typename std::remove_cvref_t<decltype(p)>::gradient_value_type, float>);
    for (const float v : p.gradient().values()) result.numbers.push_back(v);
  });
  return result;
}

}  // namespace

TEST_CASE("the residual stream of bf16_stream is bf16: embeddings, sums, norms and what enters the loss") {
  workplace at;
  transformer<on<gr::bf16_stream>> net;
  gr::init(net, at.ctx, gr::normal_init{.seed = 3, .stddev = 0.5});
  const auto in = gr::zeros<std::int32_t, ids::shape>(at.ctx);
  using stream = gr::tensor<gr::bf16, gr::shape<batch, times, width>>;
  static_assert(std::is_same_v<decltype(net.table(in)), stream>);
  static_assert(std::is_same_v<decltype(net.table(in) + net.positions), stream>);
  static_assert(std::is_same_v<decltype(net.positions + net.table(in)), stream>);
  static_assert(std::is_same_v<decltype(net.stream(in, 0)), stream>);
  static_assert(std::is_same_v<decltype(net.norm(net.stream(in, 0))), stream>);
  static_assert(std::is_same_v<decltype(net.norm.weight)::value_type, float>);
  static_assert(std::is_same_v<decltype(gr::cross_entropy(net.stream(in, 0), in)), gr::tensor<float, gr::shape<>>>);
  static_assert(std::is_same_v<decltype(gr::sum(net.stream(in, 0)))::value_type, float>);
  // Without a parameter, and for other operations with one, the operands' types decide.
  const auto x = normal<float, gr::shape<times, width>>(at.ctx);
  static_assert(std::is_same_v<decltype(net.table(in) + x)::value_type, float>);
  static_assert(std::is_same_v<decltype(net.table(in) * net.positions)::value_type, float>);
  static_assert(std::is_same_v<decltype(gr::exp(net.positions))::value_type, float>);
  static_assert(std::is_same_v<decltype(gr::embedding(in, x)), gr::tensor<float, gr::shape<batch, times, width>>>);
}

TEST_CASE("no operation of a step in bf16_stream has a float tensor of the stream's size, in forward and backward") {
  const unsigned seed = gradus_test::fresh_seed();
  for (const double drop : {0.0, 0.1}) {
    const found mixed = step<gr::bf16_mixed>(seed, drop), stream = step<gr::bf16_stream>(seed, drop);
    CHECK(mixed.floats.size() > 10);
    CHECK(stream.floats == std::vector<std::string>{});
    CHECK(mixed.casts == 2);   // of the last norm's results, and of their gradient
    CHECK(stream.casts == 1);  // the positions
    CHECK(gradus_test::error_in_norm(stream.numbers, mixed.numbers) < 0.03);
  }
}

TEST_CASE(
    "an embedding of bf16_stream rounds rows of the table as it reads them, or reads the copy that products read") {
  const unsigned seed = gradus_test::fresh_seed();
  const found direct = step<gr::bf16_stream>(seed, 0.1), copied = step<copies<gr::bf16_stream>>(seed, 0.1);
  CHECK(direct.numbers == copied.numbers);
  CHECK(copied.casts == direct.casts + 1 + 2 * 4);  // the table, once for embedding and loss, and eight weights
  workplace at;
  transformer<on<gr::bf16_stream>> net;
  gr::init(net, at.ctx, gr::normal_init{.seed = seed, .stddev = 0.5});
  const auto in = gradus_test::integers<std::int32_t, ids::shape>(at.ctx, 0, tokens - 1);
  const auto rounded = gr::embedding(in, gr::cast<gr::bf16>(net.table.weight.value()));
  CHECK(gradus_test::same_bits(net.table(in), rounded));
  CHECK(gradus_test::same_bits(net.table(in) + net.positions, rounded + gr::cast<gr::bf16>(net.positions.value())));
  using wide = gr::precision_with<gr::bf16_pure, gr::in_full<gr::op::embedding>>;
  gr::nn::embedding<on<wide>, tokens, width> table;
  table.weight.set(gr::cast<gr::bf16>(net.table.weight.value()));
  CHECK(gradus_test::same_bits(table(in), gr::cast<float>(rounded)));
}
