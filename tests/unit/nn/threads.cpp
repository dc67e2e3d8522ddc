// One model, which nobody changes, serves several threads at once: each computes in a context of its own.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <thread>
#include <vector>

#include <gradus/gradus.hpp>

namespace gr = gradus;
namespace {

constexpr gr::index_t tokens = 12, width = 24, vocabulary = 40;

template <class X>
struct small_gpt {
  gr::param<X, vocabulary, width> table;
  gr::nn::block<X, width, 3> block;
  gr::param<X, width> gain{gr::start::ones};
  GRADUS_MEMBERS(table, block, gain)

  auto operator()(const gr::tensor<std::int32_t, gr::shape<1, tokens>>& text) const {
    const auto h = block(gr::embedding(text, table));
    return gr::log_softmax(
        gr::matmul<gr::transpose{.b = true}>(gain * h, table));  // a parameter first: its context is left alone
  }
};

template <class X>
std::vector<float> answer(const small_gpt<X>& model, std::int32_t question) {
  gr::stream stream;
  gr::host_resource heap;
  gr::pool_resource pool{heap};
  gr::context ctx{stream, pool};
  std::vector<float> all;
  for (std::int32_t round = 0; round < 20; ++round) {
    std::array<std::int32_t, tokens> text{};
    for (std::size_t i = 0; i < tokens; ++i)
      text[i] = (question * 7 + round + static_cast<std::int32_t>(i * i)) % static_cast<std::int32_t>(vocabulary);
    const auto y = model(gr::from_host<std::int32_t, gr::shape<1, tokens>>(ctx, text.data()));
    for (const auto v : y.values()) all.push_back(static_cast<float>(v));
  }
  return all;
}

// Four threads with one model have the results of one thread.
template <class X>
void check() {
  gr::stream stream;
  gr::host_resource heap;
  gr::stats_resource stats{heap};
  gr::context ctx{stream, stats};
  small_gpt<X> model;
  gr::init(model, ctx, gr::normal_init{5});
  std::array<std::vector<float>, 4> wanted, got;
  {
    std::vector<std::thread> threads;
    for (std::int32_t t = 0; t < 4; ++t)
      threads.emplace_back([&, t] { got[static_cast<std::size_t>(t)] = answer(model, t); });
    for (std::thread& t : threads) t.join();
  }
  const std::size_t live = stats.all().live;
  for (std::int32_t t = 0; t < 4; ++t) wanted[static_cast<std::size_t>(t)] = answer(model, t);
  CHECK(got == wanted);
  CHECK(got[0] != got[1]);
  CHECK(stats.all().live == live);
  CHECK(model.table.value().unique());  // no handle was lost
}

}  // namespace

TEST_CASE("one const model serves inference from four threads, with the results of one") { check<gr::on<gr::cpu>>(); }

TEST_CASE("the copies that a mixed policy computes in are made once for all threads") {
  check<gr::on<gr::cpu, gr::bf16_mixed>>();
}
