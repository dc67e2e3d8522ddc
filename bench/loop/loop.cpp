// What a training loop adds to its steps: waiting for batches, and the places where a profiler may look on. One line of
// JSON.
//
//   bench_loop [--steps 20] [--rounds 5] [--threads 0] [--source 0.8]
//
//   step_ms        a step whose batch is at hand; medians, as below
//   in_turn_ms     a step and a source of batches that takes --source of a step, one after the other
//   prefetched_ms  the same with a prefetcher, whose one worker makes the next batch meanwhile
//   profiled_ms    a step with a profiler on
//   places         operations of a step, each of which is a place where an observer may look on
//   place_ns       what such a place costs where nobody does
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include <gradus/data/prefetch.hpp>
#include <gradus/planning.hpp>
#include <gradus/report/profile.hpp>

#include "../support/gpt_step.hpp"

namespace gr = gradus;
using bench::median;
using bench::now_ms;

namespace {

using training = bench::training<gr::cpu, std::int32_t>;
using batch_type = bench::random_batch<std::int32_t>;

class counter : public gr::observer {
 public:
  void begin(const gr::activity&) override { ++count; }
  void end(const gr::activity&) override {}
  std::size_t count = 0;
};

// A place of no operation, as often as tells its time.
double nanoseconds_of_a_place(gr::context<gr::cpu>& ctx) {
  constexpr int times = 1'000'000;
  std::vector<double> found;
  for (int round = 0; round < 9; ++round) {
    const double start = now_ms();
    for (int i = 0; i < times; ++i) {
      const gr::context<gr::cpu>::running now(
          ctx, gr::activity{"nothing", ctx.current().phase, {static_cast<std::size_t>(i), 1, 1}});
      __asm__ volatile("" ::: "memory");
    }
    found.push_back(1e6 * (now_ms() - start) / times);
  }
  return median(found);
}

struct options {
  int steps = 20, rounds = 5, threads = 0;
  double source = 0.8;
};

options read_options(int argc, char** argv) {
  options o;
  for (int i = 1; i < argc; i += 2) {
    const double value = i + 1 < argc ? std::atof(argv[i + 1]) : -1;
    if (value > 0 && std::strcmp(argv[i], "--steps") == 0) o.steps = static_cast<int>(value);
    else if (value > 0 && std::strcmp(argv[i], "--rounds") == 0) o.rounds = static_cast<int>(value);
    else if (value > 0 && std::strcmp(argv[i], "--threads") == 0) o.threads = static_cast<int>(value);
    else if (value > 0 && std::strcmp(argv[i], "--source") == 0) o.source = value;
    else {
      std::fprintf(stderr, "bench_loop: %s: --steps N --rounds N --threads N --source SHARE are known, above 0\n",
                   argv[i]);
      std::exit(2);
    }
  }
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  const options o = read_options(argc, argv);
  gr::stream stream;
  if (o.threads > 0) gr::set_thread_count(stream, o.threads);
  const gr::training_options how{.adamw = {.lr = 3e-4}};
  gr::host_resource heap;
  gr::planned_resource planned(gr::make_plan(gr::trace_step<bench::training<gr::meta, std::int32_t>>(how)), heap,
                               stream);
  gr::context persistent{stream, heap};
  gr::context transient{stream, planned};
  training t(persistent, transient, how);
  const batch_type at_hand;
  const auto step = [&](const batch_type& batch) {
    t.add_batch(batch.inputs.data(), batch.targets.data());
    t.update();
  };
  const auto timed = [&](std::vector<double>& times, const auto& one) {
    one();  // begins what goes on beside the steps
    for (int i = 0; i < o.steps; ++i) {
      const double start = now_ms();
      one();
      times.push_back(now_ms() - start);
    }
  };

  std::vector<double> alone, in_turn, prefetched, profiled;
  counter places;
  step(at_hand);
  transient.observe(&places);
  step(at_hand);
  transient.observe(nullptr);
  timed(alone, [&] { step(at_hand); });
  const std::chrono::duration<double, std::milli> source_takes(o.source * median(alone));
  alone.clear();
  const auto make = [&](std::uint64_t) {
    std::this_thread::sleep_for(source_takes);
    return batch_type{};
  };
  for (int round = 0; round < o.rounds; ++round) {
    timed(alone, [&] { step(at_hand); });
    timed(in_turn, [&] { step(make(0)); });
    {
      gr::prefetcher source(make);
      timed(prefetched, [&] { step(source.next()); });
    }
    {
      gr::profiler profile;
      transient.observe(&profile);
      timed(profiled, [&] { step(at_hand); });
      transient.observe(nullptr);
    }
  }
  std::printf(
      "{\"step_ms\": %.3f, \"source_ms\": %.3f, \"in_turn_ms\": %.3f, \"prefetched_ms\": %.3f, \"profiled_ms\": %.3f, "
      "\"places\": %zu, \"place_ns\": %.2f}\n",
      median(alone), source_takes.count(), median(in_turn), median(prefetched), median(profiled), places.count,
      nanoseconds_of_a_place(transient));
}
