// One model, which nobody changes, serves several threads at once: each computes in a context of its own.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <gradus/gradus.hpp>

#include "../../support/message_of.hpp"

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

TEST_CASE(
    "an operation on parameters alone is refused in a thread that does not use their context; watch makes it one of "
    "the thread's") {
  using X = gr::on<gr::cpu>;
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  gr::param<X, 4, 4> w;
  gr::param<X, 4> scale;
  w.set(gr::ones<float, gr::shape<4, 4>>(ctx, gr::category::parameter));
  scale.set(gr::zeros<float, gr::shape<4>>(ctx, gr::category::parameter));
  CHECK(gr::item(gr::sum(w * gr::exp(scale))) == 16);  // this thread made the context
  std::array<std::string, 4> said;
  std::array<float, 4> sums{};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      gr::stream own;
      gr::pool_resource pool{heap};
      gr::context mine{own, pool};
      const auto x = gr::ones<float, gr::shape<1, 4>>(mine);
      said[t] = gradus_test::message_of([&] { auto y = gr::matmul(x, w * gr::exp(scale)); });
      for (int i = 0; i < 100; ++i) sums[t] += gr::item(gr::sum(gr::matmul(x, w * gr::exp(gr::watch(scale, x)))));
    });
  for (std::thread& t : threads) t.join();
  for (const std::string& s : said)
    CHECK(s ==
          "exp: all operands are parameters, so this would run in their context, which another thread uses; begin with "
          "gradus::watch(parameter, x), where x belongs to a context of this thread");
  CHECK(sums == std::array<float, 4>{1600, 1600, 1600, 1600});
}

TEST_CASE("a context that is handed over to a thread serves operations on parameters alone there") {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  gr::param<gr::on<gr::cpu>, 4> p;
  p.set(gr::ones<float, gr::shape<4>>(ctx, gr::category::parameter));
  float found = 0;
  std::thread([&] {
    const auto x = gr::ones<float, gr::shape<4>>(ctx);
    found = gr::item(gr::sum(p * p + x));
  }).join();
  CHECK(found == 8);
}
