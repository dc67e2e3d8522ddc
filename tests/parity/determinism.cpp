// Same input, same bits: a GPT trained twice, and on any number of threads.
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "gpt/model.hpp"

namespace gr = gradus;

namespace {

struct run_result {
  std::vector<double> losses;
  std::vector<std::vector<double>> weights;
  bool operator==(const run_result&) const = default;
};

// Large enough that matrix products are cut into several tiles and every reduction into several blocks.
template <gpt::config C, gr::index_t Batch, class Precision = gr::fp32>
run_result train(int threads, double dropout) {
  gr::stream stream;
  gr::set_thread_count(stream, threads);
  gr::host_resource heap;
  gr::pool_resource pool(heap);
  gr::context ctx{stream, pool};
  gpt::model<gr::on<gr::cpu, Precision>, C> net;
  net.dropout = dropout;
  gr::init(net, ctx, gr::normal_init{.seed = 11});
  gr::adamw opt{net, {.lr = 1e-3}};
  gr::tape tape{ctx, 5};
  run_result r;
  for (std::uint32_t step = 0; step < 4; ++step) {
    auto tokens = gr::empty<std::int32_t, gr::shape<Batch, C.context>>(ctx);
    auto targets = gr::empty<std::int32_t, gr::shape<Batch, C.context>>(ctx);
    for (gr::index_t i = 0; i < tokens.size; ++i) {
      const auto w = gr::random_key{.seed = 3, .step = step}.words(i);
      tokens.data()[i] = static_cast<std::int32_t>(w[0] % C.vocabulary);
      targets.data()[i] = static_cast<std::int32_t>(w[1] % C.vocabulary);
    }
    const auto loss = net.loss(tape.watch(tokens), targets);
    gr::backward(loss);
    r.losses.push_back(static_cast<double>(gr::item(loss.value())));
    opt.clip(ctx, 1.0);
    opt.step(ctx);
  }
  gr::visit_params(net, [&](const auto& p) {
    const auto values = gr::to_host(p.value());
    std::vector<double>& to = r.weights.emplace_back();
    for (const auto v : values) to.push_back(gr::convert_element<double>(v));
  });
  return r;
}

}  // namespace

TEST_CASE("two runs, and runs on any number of threads, train to the same bits") {
  const auto once = train<gpt::config{2, 4, 256, 64, 300}, 8>(2, 0.0);
  for (const int threads : {1, 2, 3, 7, 16}) CHECK(train<gpt::config{2, 4, 256, 64, 300}, 8>(threads, 0.0) == once);
}

TEST_CASE("in double precision, the bits do not depend on the threads either") {
  const auto once = train<gpt::config{1, 3, 96, 64, 300}, 4, gr::fp64>(2, 0.0);
  CHECK(train<gpt::config{1, 3, 96, 64, 300}, 4, gr::fp64>(1, 0.0) == once);
  CHECK(train<gpt::config{1, 3, 96, 64, 300}, 4, gr::fp64>(3, 0.0) == once);
}

TEST_CASE("in mixed precision and in bf16 alone, the bits do not depend on the run or the threads") {
  const auto check = [](auto precision) {
    using P = decltype(precision);
    const auto once = train<gpt::config{2, 3, 96, 64, 300}, 4, P>(2, 0.1);
    for (const int threads : {1, 2, 3, 7, 16}) CHECK(train<gpt::config{2, 3, 96, 64, 300}, 4, P>(threads, 0.1) == once);
  };
  check(gr::bf16_mixed{});
  check(gr::bf16_stream{});
  check(gr::fp16_mixed{});
  check(gr::bf16_pure{});
}

TEST_CASE("dropout draws the same masks on one thread and on two, and changes the result") {
  const auto once = train<gpt::config{1, 3, 39, 13, 61}, 3>(2, 0.2);
  CHECK(train<gpt::config{1, 3, 39, 13, 61}, 3>(1, 0.2) == once);
  CHECK_FALSE(train<gpt::config{1, 3, 39, 13, 61}, 3>(1, 0.0) == once);
}
