// Tokens a second of a GPT-2 of 124M random parameters, one sequence at a time: with a key-value cache, at several positions, and by a
// forward pass over the whole context. Beside them, how fast the parameters can be read: bytes_per_second of a token counts the
// parameters that it multiplies by, in the type they are multiplied in.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <vector>

#include <gradus/gradus.hpp>

#include "gpt/cached.hpp"

namespace gr = gradus;
namespace {

constexpr gpt::config gpt2{12, 12, 768, 1024, 50257};
constexpr gr::index chunk = 64;

template <class Precision>
struct writer {
  using X = gr::on<gr::cpu, gr::precision_with<Precision, gr::keep_copies>>;
  using network = gpt::model<X, gpt2>;
  static constexpr std::size_t bytes_read =
      (12 * gpt2.layers * gpt2.width * gpt2.width + gpt2.padded_vocabulary() * gpt2.width) *
      sizeof(typename X::compute);

  writer() { gr::init(net, ctx, gr::normal_init{.seed = 1}); }

  gr::stream stream;
  gr::host_resource heap;
  gr::pool_resource pool{heap};
  gr::context<gr::cpu> ctx{stream, pool};
  network net;
  gpt::cache<X, gpt2, 1> past{ctx};
};

template <class Precision>
writer<Precision>& the_writer() {
  static const auto one = std::make_unique<writer<Precision>>();
  return *one;
}

template <class Precision, gr::index Times>
void take_in(writer<Precision>& w, gr::index position) {
  std::vector<std::int32_t> ids(Times);
  std::iota(ids.begin(), ids.end(), 0);
  w.past.rewind(0);
  while (w.past.position() < position) w.past.advance(1);
  const auto logits =
      gpt::next(w.net, gr::from_host<std::int32_t, gr::shape<1, Times>>(w.ctx, ids.data()), w.past, Times);
  benchmark::DoNotOptimize(logits.data());
}

template <class Precision>
void token(benchmark::State& state) {
  auto& w = the_writer<Precision>();
  for (auto _ : state) take_in<Precision, 1>(w, static_cast<gr::index>(state.range(0)));
  state.SetItemsProcessed(state.iterations());
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(w.bytes_read));
}
template <class Precision>
void prompt(benchmark::State& state) {
  auto& w = the_writer<Precision>();
  for (auto _ : state) take_in<Precision, chunk>(w, static_cast<gr::index>(state.range(0)));
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(chunk));
}
template <class Precision>
void whole_context(benchmark::State& state) {
  auto& w = the_writer<Precision>();
  const auto ids = gr::zeros<std::int32_t, gr::shape<1, gpt2.context>>(w.ctx);
  for (auto _ : state) {
    const auto logits = w.net(ids);
    benchmark::DoNotOptimize(logits.data());
  }
  state.SetItemsProcessed(state.iterations());
}
// As many bytes as a token multiplies by in float, summed up by all threads.
void memory(benchmark::State& state) {
  auto& w = the_writer<gr::fp32>();
  std::vector<float> numbers(w.bytes_read / sizeof(float), 1.0f);
  constexpr gr::index part = 1 << 16;
  std::vector<float> sums(numbers.size() / part);
  for (auto _ : state) {
    gr::cpu_kit::parallel_tasks(w.ctx, sums.size(), [&](gr::index i) {
      gr::pack<float> sum[8];
      for (auto& s : sum) s = gr::pack<float>(0);
      constexpr gr::index lanes = gr::lanes<float>;
      for (gr::index j = 0; j < part; j += 8 * lanes)
        for (gr::index k = 0; k < 8; ++k)
          sum[k] = sum[k] + gr::pack<float>::load(numbers.data() + i * part + j + k * lanes);
      for (gr::index k = 1; k < 8; ++k) sum[0] = sum[0] + sum[k];
      sums[i] = gr::sum_lanes(sum[0]);
    });
    benchmark::DoNotOptimize(sums.data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(sums.size() * part * sizeof(float)));
}

void by_the_clock(benchmark::internal::Benchmark* b) {
  b->Unit(benchmark::kMillisecond)->UseRealTime()->MeasureProcessCPUTime();
}

BENCHMARK(memory)->Apply(by_the_clock);
BENCHMARK(token<gr::fp32>)->Name("token/fp32/at")->Arg(0)->Arg(512)->Arg(1023)->Apply(by_the_clock);
BENCHMARK(token<gr::bf16_mixed>)->Name("token/bf16_mixed/at")->Arg(0)->Arg(512)->Arg(1023)->Apply(by_the_clock);
BENCHMARK(prompt<gr::fp32>)->Name("chunk_of_64/fp32/at")->Arg(0)->Arg(960)->Apply(by_the_clock);
BENCHMARK(prompt<gr::bf16_mixed>)->Name("chunk_of_64/bf16_mixed/at")->Arg(0)->Arg(960)->Apply(by_the_clock);
BENCHMARK(whole_context<gr::fp32>)->Name("whole_context/fp32")->Apply(by_the_clock);
BENCHMARK(whole_context<gr::bf16_mixed>)->Name("whole_context/bf16_mixed")->Apply(by_the_clock);

}  // namespace
