// Training steps of bert-base on random batches with padding: bench/peers/transformers_bert.py starts it. One JSON
// object on stdout.
//
//   bench_peers_bert STEPS THREADS [fp32|bf16_mixed]
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <gradus/planning.hpp>

#include "../bert/rows.hpp"
#include "../support/process.hpp"

namespace {

namespace gr = gradus;
constexpr gr::index_t batch = 8, length = 128;
constexpr int warmup = 2;

bert::host_batch padded_batch(std::uint32_t number) {
  bert::host_batch b;
  const gr::random_key key{.seed = 1, .step = number};
  b.segments.resize(batch * length);
  b.tokens.resize(batch * length);
  for (gr::index_t s = 0; s < batch; ++s) {
    const auto w = key.words(s);
    const auto real = s == 0 ? length : length / 4 + w[0] % (length - length / 4 + 1);
    b.lengths.push_back(static_cast<std::int32_t>(real));
    b.labels.push_back(static_cast<std::int32_t>(w[1] % 2));
    for (gr::index_t t = 0; t < real; ++t)
      b.tokens[s * length + t] = static_cast<std::int32_t>(1000 + key.words(batch + s * length + t)[0] % 29522);
  }
  return b;
}

template <class P>
double samples_a_second(int steps, int threads) {
  const gpt::step_options o{.dropout = 0.1, .adamw = {.lr = 2e-5, .beta2 = 0.999, .weight_decay = 0.01}};
  gr::stream stream;
  gr::set_thread_count(stream, threads);
  gr::host_resource heap;
  gr::planned_resource planned(
      gr::make_plan(gr::trace_step<bert::training<gr::meta, bench::bert_base, batch, length, P>>(o)), heap, stream);
  gr::context persistent{stream, heap};
  gr::context transient{stream, planned};
  bert::training<gr::cpu, bench::bert_base, batch, length, P> t(persistent, transient, o);
  std::vector<double> times;
  for (int s = 0; s < warmup + steps; ++s) {
    const bert::host_batch b = padded_batch(static_cast<std::uint32_t>(s));
    const double start = bench::now_ms();
    t.load(0, b);
    t.step();
    static_cast<void>(t.send_loss().value());
    if (s >= warmup) times.push_back(bench::now_ms() - start);
  }
  return 1e3 * batch / bench::median(times);
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 0, threads = argc > 2 ? std::atoi(argv[2]) : 0;
  if (steps < 1 || threads < 1) {
    std::fprintf(stderr, "bench_peers_bert: steps and threads, both 1 or more\n");
    return 2;
  }
  const bool bf16 = argc > 3 && std::string(argv[3]) == "bf16_mixed";
  const double speed =
      bf16 ? samples_a_second<gr::bf16_mixed>(steps, threads) : samples_a_second<gr::fp32>(steps, threads);
  std::printf("{\"samples_s\": %.3f, \"peak_mib\": %.1f}\n", speed, bench::status_bytes("VmHWM") / (1 << 20));
}
