// Training steps of bert-base at 128 tokens, of one row of rows.hpp, on the guide's dummy data: random tokens and
// labels. One JSON object on stdout.
//
//   bench_bert_steps ROW STEPS [THREADS]
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <gradus/planning.hpp>

#include "../support/process.hpp"
#include "rows.hpp"

namespace {

namespace gr = gradus;

constexpr gr::index_t length = 128;
int steps = 4, threads = 0;

struct measured {
  double samples_a_second, processor_ms, loss;
  std::size_t planned;
};

bert::host_batch dummy_batch(gr::index_t batch, std::uint32_t number) {
  bert::host_batch b;
  const gr::random_key key{.seed = 1, .step = number};
  for (gr::index_t i = 0; i < batch * length; ++i)
    b.tokens.push_back(static_cast<std::int32_t>(key.words(i)[0] % bench::bert_base.vocabulary));
  b.segments.resize(batch * length);
  for (gr::index_t i = 0; i < batch; ++i) {
    b.lengths.push_back(length);
    b.labels.push_back(static_cast<std::int32_t>(key.words(i)[1] % bench::bert_base.labels));
  }
  return b;
}

template <gr::index_t Batch, class P, template <class, class, class> class Optimizer>
struct measure {
  template <class D>
  using training = bert::training<D, bench::bert_base, Batch, length, P, Optimizer>;

  static measured run(const gr::training_options& o) {
    gr::stream stream;
    if (threads > 0) gr::set_thread_count(stream, threads);
    gr::host_resource heap;
    const gr::step_trace trace = gr::trace_step<training<gr::meta>>(o);
    gr::planned_resource planned(gr::make_plan(trace), heap, stream);
    gr::context persistent{stream, heap};
    gr::context transient{stream, planned};
    training<gr::cpu> t(persistent, transient, o);
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
            gr::summarize(trace).peak_bytes};
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
  const measured m = r.run(r.options(bench::bert_base.layers));
  std::printf(
      "{\"row\": \"%s\", \"samples_s\": %.3f, \"processor_ms\": %.1f, \"loss\": %.4f, \"planned\": %zu, \"process\": "
      "%.0f}\n",
      r.name, m.samples_a_second, m.processor_ms, m.loss, m.planned, bench::status_bytes("VmHWM"));
}
