// Training steps of one row of rows.hpp, on the guide's dummy data, random tokens and labels: of bert-base at 128
// tokens, or on a GPU, as in the guide, of BERT-large at 512, rows with AdamW only. One JSON object on stdout.
//
//   bench_bert_steps ROW STEPS [THREADS]
#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <vector>

#include <gradus/planning.hpp>

#include "../support/process.hpp"
#include "rows.hpp"

namespace {

namespace gr = gradus;

#ifdef BERT_ON_GPU
using device = gr::cuda;
using planned_device = gr::cuda_meta;
using heap_resource = gr::device_resource;
constexpr bert::config sizes = bench::bert_large;
constexpr gr::index_t length = 512;
void set_threads(gr::cuda_stream&, int) {}
double process_bytes(const heap_resource& heap) { return static_cast<double>(heap.peak_bytes()); }
#else
using device = gr::cpu;
using planned_device = gr::meta;
using heap_resource = gr::host_resource;
constexpr bert::config sizes = bench::bert_base;
constexpr gr::index_t length = 128;
void set_threads(gr::stream& on, int threads) {
  if (threads > 0) gr::set_thread_count(on, threads);
}
double process_bytes(const heap_resource&) { return bench::status_bytes("VmHWM"); }
#endif
constexpr bool on_gpu = std::is_same_v<device, gr::cuda>;
int steps = 4, threads = 0;

struct measured {
  double samples_a_second = 0, processor_ms = 0, loss = 0;
  std::size_t planned = 0;
  double process = 0;
};

bert::host_batch dummy_batch(gr::index_t batch, std::uint32_t number) {
  bert::host_batch b;
  const gr::random_key key{.seed = 1, .step = number};
  for (gr::index_t i = 0; i < batch * length; ++i)
    b.tokens.push_back(static_cast<std::int32_t>(key.words(i)[0] % sizes.vocabulary));
  b.segments.resize(batch * length);
  for (gr::index_t i = 0; i < batch; ++i) {
    b.lengths.push_back(length);
    b.labels.push_back(static_cast<std::int32_t>(key.words(i)[1] % sizes.labels));
  }
  return b;
}

template <gr::index_t Batch, class P, template <class, class, class> class Optimizer>
struct measure {
  template <class D>
  using training = bert::training<D, sizes, Batch, length, P, Optimizer>;

  static measured run(const gr::training_options& o) {
    if constexpr (on_gpu && !std::is_same_v<Optimizer<float, device, float>, gr::adamw<float, device, float>>)
      return {};
    else return steps_of(o);
  }
  static measured steps_of(const gr::training_options& o) {
    device::stream_type stream;
    set_threads(stream, threads);
    heap_resource heap;
    const gr::step_trace trace = gr::trace_step<training<planned_device>>(o);
    gr::basic_planned_resource<device::stream_type> planned(gr::make_plan(trace), heap, stream);
    gr::context<device> persistent{stream, heap};
    gr::context<device> transient{stream, planned};
    training<device> t(persistent, transient, o);
    std::vector<double> times, processor;
    double loss = 0;
    for (int s = 0; s < steps + 2; ++s) {  // two to warm up
      const double start = bench::now_ms(), cpu = bench::cpu_now_ms();
      for (int i = 0; i < o.accumulate; ++i)
        t.load(i, dummy_batch(Batch, static_cast<std::uint32_t>(s * o.accumulate + i)));
      t.step();
      loss = t.send_loss().value();
      if (s < 2) continue;
      times.push_back(bench::now_ms() - start);
      processor.push_back(bench::cpu_now_ms() - cpu);
    }
    return {1e3 * static_cast<double>(Batch) * o.accumulate / bench::median(times), bench::median(processor), loss,
            gr::summarize(trace).peak_bytes, process_bytes(heap)};
  }
};

}  // namespace

int main(int argc, char** argv) {
  const auto all = bench::rows<measure>();
  const int row = argc > 1 ? std::atoi(argv[1]) : -1;
  if (argc > 2) steps = std::atoi(argv[2]);
  if (argc > 3) threads = std::atoi(argv[3]);
  if (row < 0 || row >= static_cast<int>(all.size()) || steps < 1) {
    std::fprintf(stderr, "bench_bert_steps: a row 0 to %zu, and a number of steps\n", all.size() - 1);
    return 2;
  }
  const auto& r = all[static_cast<std::size_t>(row)];
  const measured m = r.run(r.options(sizes.layers));
  if (m.planned == 0) {
    std::fprintf(stderr, "bench_bert_steps: row %d is not measured on a GPU\n", row);
    return 2;
  }
  std::printf(
      "{\"row\": \"%s\", \"samples_s\": %.3f, \"processor_ms\": %.1f, \"loss\": %.4f, \"planned\": %zu, \"process\": "
      "%.0f, \"guide_mb\": %.0f, \"guide_samples_s\": %.2f}\n",
      r.name, m.samples_a_second, m.processor_ms, m.loss, m.planned, m.process, r.guide.megabytes,
      r.guide.samples_a_second);
}
