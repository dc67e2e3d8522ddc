// Steps of a small BERT in planned memory, counted above the plan: exact to the byte, whatever policy, optimizer and
// regions.
#include <doctest/doctest.h>

#include <cstdint>

#include <gradus/planning.hpp>

#include "bert/training.hpp"

namespace gr = gradus;

namespace {

constexpr bert::config odd{
    .layers = 3, .heads = 3, .width = 39, .hidden = 70, .positions = 17, .vocabulary = 61, .segments = 2, .labels = 5};
// Pairs of texts, one block for all layers, and means of tokens.
constexpr bert::config pairs = [] {
  bert::config c = odd;
  c.family = bert::family::albert;
  c.task = bert::task::contrastive;
  c.embedding = 21;
  c.labels = 1;
  return c;
}();
constexpr gr::index_t batch = 5, length = 13;

bert::host_batch random_batch(const bert::config& sizes, std::uint32_t step) {
  bert::host_batch b;
  const gr::random_key key{.seed = 3, .step = step};
  for (gr::index_t s = 0; s < sizes.texts() * batch; ++s) {
    b.lengths.push_back(static_cast<std::int32_t>(step == 0 ? length : 1 + key.words(s)[2] % length));
    if (s < batch) b.labels.push_back(static_cast<std::int32_t>(sizes.embeds() ? s : key.words(s)[3] % sizes.labels));
    for (std::int32_t t = 0; t < b.lengths.back(); ++t) {
      const auto w = key.words(b.tokens.size());
      b.tokens.push_back(static_cast<std::int32_t>(w[0] % odd.vocabulary));
      b.segments.push_back(static_cast<std::uint8_t>(w[1] % 2));
    }
  }
  return b;
}

// Plain, with several batches, and in checkpoint regions.
std::vector<gr::training_options> kinds() {
  std::vector<gr::training_options> all(3);
  all[1] = {.dropout = 0.1, .accumulate = 3};
  all[2] = {.dropout = 0.1, .accumulate = 2, .regions = gr::region_schedule::every_block(odd.layers)};
  return all;
}

template <class P, template <class, class, class> class Optimizer = gr::adamw, bert::config C = odd>
void check() {
  using on_cpu = bert::training<gr::cpu, C, batch, length, P, Optimizer>;
  using on_meta = bert::training<gr::meta, C, batch, length, P, Optimizer>;
  std::size_t number = 0;
  for (const gr::training_options& o : kinds()) {
    CAPTURE(number++);
    const gr::step_trace trace = gr::trace_step<on_meta>(o);
    const gr::step_summary plan = gr::summarize(trace);
    gr::stream stream;
    gr::host_resource heap;
    gr::stats_resource kept(heap);
    gr::planned_resource planned(gr::make_plan(trace), heap, stream);
    gr::stats_resource used(planned);
    gr::context persistent{stream, kept};
    gr::context transient{stream, used};
    on_cpu t(persistent, transient, o);
    for (std::uint32_t step = 0; step < 3; ++step) {
      used.reset_peak();
      const std::size_t before = used.all().allocations;
      for (int i = 0; i < o.accumulate; ++i) t.load(i, random_batch(C, step));
      t.step();
      CHECK(t.send_loss().value() < (C.embeds() ? 10 : 3));
      planned.check();
      CHECK(planned.live_blocks() == 0);
      CHECK(kept.all().live == plan.persistent_bytes);
      CHECK(kept.all().live + used.all().peak == plan.peak_bytes);
      CHECK(used.all().allocations - before == plan.requests);
    }
  }
}

// An evaluation takes the memory of its own plan, whatever the lengths.
template <bert::config C>
void check_evaluation() {
  using on_meta = bert::training<gr::meta, C, batch, length>;
  const gr::step_trace trace = gr::trace<on_meta>([](on_meta& t) { t.evaluate({}); }, gr::training_options{});
  gr::stream stream;
  gr::host_resource heap;
  gr::stats_resource kept(heap);
  gr::planned_resource planned(gr::make_plan(trace), heap, stream);
  gr::stats_resource used(planned);
  gr::context persistent{stream, kept};
  gr::context transient{stream, used};
  bert::training<gr::cpu, C, batch, length> t(persistent, transient, {});
  const std::size_t before = kept.all().allocations;
  for (std::uint32_t step = 0; step < 3; ++step) {
    t.evaluate(random_batch(C, step));
    planned.check();
    CHECK(planned.live_blocks() == 0);
    CHECK(kept.all().live + used.all().peak == gr::summarize(trace).peak_bytes);
  }
  CHECK(kept.all().allocations == before);
}

}  // namespace

TEST_CASE("an evaluation of a BERT takes the memory that was planned") {
  check_evaluation<odd>();
  check_evaluation<pairs>();
}
TEST_CASE("a step of a BERT in fp32 takes the memory that was planned") { check<gr::fp32>(); }
TEST_CASE("a step of a BERT in bf16 products takes the memory that was planned") { check<gr::bf16_mixed>(); }
TEST_CASE("a step of a BERT with a loss scale, by Adafactor, takes the memory that was planned") {
  check<gr::fp16_mixed, gr::adafactor>();
}
TEST_CASE("a step of a BERT in bf16, by an 8-bit optimizer, takes the memory that was planned") {
  check<gr::bf16_pure, gr::adamw_8bit>();
}
TEST_CASE("a step of an ALBERT that learns sentence embeddings takes the memory that was planned") {
  check<gr::fp32, gr::adamw, pairs>();
  check<gr::bf16_mixed, gr::adamw, pairs>();
}
