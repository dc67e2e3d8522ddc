// Attention, forward and backward, at T = 512, B = 8 and 16 heads of 64 in float: the best milliseconds of each case.
// bench/peers/attention.py runs it beside PyTorch.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include <gradus/gradus.hpp>

namespace gr = gradus;

namespace {

constexpr gr::index_t batch = 8, time_steps = 512, heads = 16, depth = 64;

template <gr::index_t KvHeads>
void measure(gr::context<gr::cpu>& ctx, const char* name, const gr::attention_options<>& options, int runs) {
  using Q = gr::shape<batch, time_steps, heads * depth>;
  using K = gr::shape<batch, time_steps, KvHeads * depth>;
  const auto q = gr::normal<float, Q>(ctx, {1, 0, 0}), dy = gr::normal<float, Q>(ctx, {1, 1, 0});
  const auto k = gr::normal<float, K>(ctx, {1, 2, 0}), v = gr::normal<float, K>(ctx, {1, 3, 0});
  gr::tape tape{ctx};
  double best = 1e9;
  for (int i = 0; i < runs; ++i) {
    const auto a = tape.variable(q);
    const auto b = tape.variable(k), c = tape.variable(v);
    const auto start = std::chrono::steady_clock::now();
    gr::attention<heads>(a, b, c, options).slot()->give(dy);
    tape.unwind();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    tape.clear();
  }
  std::printf("%s %.3f\n", name, best * 1e3);
}

}  // namespace

// attention THREADS RUNS
int main(int count, char** arguments) {
  gr::stream stream;
  gr::host_resource heap;
  gr::pool_resource pool{heap};
  gr::context<gr::cpu> ctx{stream, pool};
  gr::set_thread_count(stream, count > 1 ? std::atoi(arguments[1]) : 2);
  const int runs = count > 2 ? std::atoi(arguments[2]) : 5;
  auto lengths = gr::empty<std::int32_t, gr::shape<batch>>(ctx);
  for (gr::index_t b = 0; b < batch; ++b) lengths.data()[b] = static_cast<std::int32_t>(64 * (b + 1));
  measure<heads>(ctx, "plain", {}, runs);
  measure<heads>(ctx, "padded", {.key_lengths = lengths}, runs);
  measure<4>(ctx, "grouped", {}, runs);
  measure<4>(ctx, "grouped_causal", {.causal = true}, runs);
}
