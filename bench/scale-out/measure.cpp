// Measures steps of a GPT on ranks that are threads, and what the model of model.hpp says of them. One JSON line a row;
// then those of predict.hpp.
//
//   bench_scale-out [--rounds N]

#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <limits>
#include <vector>

#include <gradus/ranks/thread_communicator.hpp>

#include "../support/process.hpp"
#include "model.hpp"
#include "predict.hpp"

namespace {

namespace gr = gradus;
using bench::now_ms;

constexpr gpt::config sizes{.layers = 4, .heads = 4, .width = 256, .context = 128, .vocabulary = 256};
constexpr gr::index_t batch = 4;
template <class D>
using training = gpt::training<D, sizes, batch>;

struct setting {
  int ranks;
  gr::sharding shard;
  const char* shard_name;
  gr::sum_order order;
  const char* order_name;

  gr::training_options options(int rank) const {
    return {.accumulate = ranks, .ranks = ranks, .rank = rank, .leaves = ranks, .shard = shard, .order = order};
  }
};

// Contexts of one thread of computation, whose blocks come from a pool.
struct rank_memory {
  gr::stream stream;
  gr::host_resource heap;
  gr::pool_resource pool{heap};
  gr::context<gr::cpu> persistent{stream, heap}, transient{stream, pool};
  rank_memory() { gr::set_thread_count(stream, 1); }
};

void load(training<gr::cpu>& t) {
  const gr::random_key key{.seed = 5};
  std::vector<std::uint8_t> text(2 * training<gr::cpu>::ids::size);
  for (gr::index_t i = 0; i < text.size(); ++i) text[i] = static_cast<std::uint8_t>(key.words(i)[0] % 256);
  t.load(0, text.data(), text.data() + text.size() / 2);
}

// Keeps the least of its values: others load the machine.
struct least {
  double value = std::numeric_limits<double>::infinity();
  void take(double v) { value = std::min(value, v); }
};

// Calls f() on all ranks at once, `count` times after a first one, and takes the milliseconds until all have done it.
void take_times(least& to, gr::communicator<gr::cpu>& ranks, gr::context<gr::cpu>& ctx, int count,
                const std::function<void()>& f) {
  for (int i = 0; i <= count; ++i) {
    ranks.barrier(ctx);
    const double start = now_ms();
    f();
    ranks.barrier(ctx);
    if (i > 0 && ranks.rank() == 0) to.take(now_ms() - start);
  }
}

void measure_step(const setting& s, int steps, least& step) {
  gr::run_ranks(static_cast<gr::index_t>(s.ranks), [&](gr::communicator<gr::cpu>& ranks) {
    rank_memory memory;
    training<gr::cpu> t(memory.persistent, memory.transient, s.options(static_cast<int>(ranks.rank())), &ranks);
    load(t);
    take_times(step, ranks, memory.persistent, steps, [&] { t.step(); });
  });
}

// Milliseconds that tell what the machine is: of ranks that exchange nothing, and of sums of two ranks.
struct machine_times {
  least gradients, update;  // of one rank
  least of_two;             // a step of two ranks at once
  least empty, small, large;

  static constexpr gr::index_t small_sum = 1 << 8, large_sum = 1 << 21;  // floats

  void measure(int steps) {
    for (const gr::index_t count : {1, 2})
      gr::run_ranks(count, [&](gr::communicator<gr::cpu>& ranks) {
        rank_memory memory;
        training<gr::cpu> t(memory.persistent, memory.transient, {});
        load(t);
        least ignored;
        take_times(count == 2 ? of_two : ignored, ranks, memory.persistent, steps, [&] {
          const double start = now_ms();
          t.backward(0);
          const double middle = now_ms();
          t.update();
          if (count == 2) return;
          gradients.take(middle - start);
          update.take(now_ms() - middle);
        });
      });
    gr::run_ranks(2, [&](gr::communicator<gr::cpu>& ranks) {
      rank_memory memory;
      std::vector<float> data(large_sum, 1);
      const auto sum = [&](gr::index_t n) {
        return [&, n] { ranks.all_reduce(memory.transient, data.data(), data.data(), n).wait(); };
      };
      take_times(empty, ranks, memory.persistent, 10 * steps, [] {});
      take_times(small, ranks, memory.persistent, 10 * steps, sum(small_sum));
      take_times(large, ranks, memory.persistent, steps, sum(large_sum));
    });
  }
};

int processors() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

bench::machine machine_of(const machine_times& t) {
  const bench::rank_step step = bench::note_step<training<gr::meta>>({});
  double flops = 0, update = 0;
  for (const gr::op_span& op : step.trace.ops)
    if (op.depth == 0 && op.what.phase == gr::phase::update) update += static_cast<double>(op.what.work.bytes());
    else if (op.depth == 0) flops += static_cast<double>(op.what.work.flops);
  bench::machine m{};
  m.flops = flops / t.gradients.value * 1e3;
  m.memory = update / t.update.value * 1e3;
  m.node = std::numeric_limits<gr::index_t>::max();
  m.processors = processors();
  m.together = 1;
  m.together = std::max(1.0, t.of_two.value / (t.gradients.value + t.update.value) / m.crowding(2));
  // An all_reduce of two ranks is two messages, as many bytes in each direction as it sums, and the sums.
  const double slower = m.crowding(2) * 1e3, bytes = machine_times::large_sum * sizeof(float);
  m.within.latency = std::max(t.small.value - t.empty.value, 0.0) / 2 / slower;
  m.within.overhead = m.within.latency;
  m.within.bandwidth = bytes / std::max((t.large.value - t.small.value) / slower - bytes / m.memory, bytes / 1e12);
  return m;
}

void print(const bench::machine& m) {
  std::printf(
      "{\"row\": \"machine\", \"processors\": %.0f, \"gflops\": %.1f, \"update_gb_s\": %.2f, \"together\": %.3f, "
      "\"latency_us\": %.1f, \"bandwidth_gb_s\": %.2f}\n",
      m.processors, m.flops * 1e-9, m.memory * 1e-9, m.together, m.within.latency * 1e6, m.within.bandwidth * 1e-9);
}

std::vector<setting> all_settings() {
  std::vector<setting> all;
  for (const int ranks : {1, 2, 4})
    for (const auto& [shard, shard_name] : bench::shardings)
      for (const auto& [order, order_name] : bench::orders)
        if (ranks > 1 || (shard == gr::sharding::nothing && order == gr::sum_order::tree))
          all.push_back({ranks, shard, shard_name, order, order_name});
  return all;
}

void measure_and_predict(int rounds) {
  constexpr int steps = 4;  // of a setting in a round
  const std::vector<setting> settings = all_settings();
  std::vector<least> found(settings.size());
  machine_times times;
  for (int round = 0; round < rounds; ++round) {
    times.measure(steps);
    for (std::size_t i = 0; i < settings.size(); ++i) measure_step(settings[i], steps, found[i]);
  }
  const bench::machine machine = machine_of(times);
  print(machine);
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const setting& s = settings[i];
    const bench::rank_step step = bench::note_step<training<gr::meta>>(s.options(0));
    const bench::step_time t = bench::predict(step, machine, static_cast<gr::index_t>(s.ranks));
    std::printf(
        "{\"row\": \"measured\", \"ranks\": %d, \"shard\": \"%s\", \"sums\": \"%s\", \"step_ms\": %.2f, "
        "\"predicted_ms\": %.2f, \"exchange_ms\": %.2f, \"bytes\": %zu}\n",
        s.ranks, s.shard_name, s.order_name, found[i].value, t.all * 1e3, t.exchanged * 1e3,
        bench::planned_bytes(step));
  }
  std::fflush(stdout);
}

int count_of(int argc, char** argv) {
  if (argc == 1) return 5;
  const int rounds = argc == 3 && std::strcmp(argv[1], "--rounds") == 0 ? std::atoi(argv[2]) : 0;
  if (rounds < 1) std::fprintf(stderr, "usage: %s [--rounds N]\n", argv[0]);
  return rounds;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = count_of(argc, argv);
  if (rounds < 1) return 2;
  try {
    measure_and_predict(rounds);
    bench::predict_gpus();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_scale-out: %s\n", e.what());
    return 1;
  }
  return 0;
}
