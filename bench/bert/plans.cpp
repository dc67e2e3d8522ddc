// The memory of a training step of BERT-large at 512 tokens, planned to the byte for each row of rows.hpp: one JSON
// object a line. Trains nothing.
#include <cstdio>

#include <gradus/planning.hpp>

#include "rows.hpp"

namespace {

namespace gr = gradus;

struct planned {
  std::size_t persistent, peak, workspace;
};
template <gr::index_t Batch, class P, template <class, class, class> class Optimizer>
struct plan {
  static planned run(const gr::training_options& o) {
    const gr::step_trace step =
        gr::trace_step<bert::training<gr::meta, bench::bert_large, Batch, 512, P, Optimizer>>(o);
    const gr::step_summary s = gr::summarize(step);
    return {s.persistent_bytes, s.peak_bytes, gr::make_plan(step).bytes};
  }
};

}  // namespace

int main() {
  for (const auto& row : bench::rows<plan>()) {
    const planned p = row.run(row.options(bench::bert_large.layers));
    std::printf(
        "{\"row\": \"%s\", \"persistent\": %zu, \"peak\": %zu, \"workspace\": %zu, \"guide_mb\": %.0f, "
        "\"guide_samples_s\": %.2f}\n",
        row.name, p.persistent, p.peak, p.workspace, row.guide.megabytes, row.guide.samples_a_second);
  }
}
