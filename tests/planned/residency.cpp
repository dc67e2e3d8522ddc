// Steps of a small GPT of which two groups of parameters are resident, in planned memory: exact to the byte.
#include "../gpt/residency.hpp"

#include <vector>

#include "planned_step.hpp"

namespace gr = gradus;

namespace {

using planned_step::batch;
using planned_step::data;
using planned_step::odd;
using bf16_copies = gr::precision_with<gr::bf16_mixed, gr::keep_copies>;

// Forward and backward of a step; its gradients are dropped.
template <class D, class P>
struct resident : gpt::training<D, odd, batch, std::uint8_t, P> {
  using base = gpt::training<D, odd, batch, std::uint8_t, P>;
  using device = D;
  gr::no_store<float> none;
  gr::parameter_residency<float, D> residency;

  resident(gr::context<D>& kept, gr::context<D>& freed, const gr::training_options& o,
           const std::vector<std::size_t>& order)
      : resident(kept, freed, o, order, none) {}
  resident(gr::context<D>& kept, gr::context<D>& freed, const gr::training_options& o,
           const std::vector<std::size_t>& order, gr::group_store<float>& store)
      : base(kept, freed, o), residency(freed, gr::param_groups<float, D>(this->net), store) {
    residency.follow(order);
  }
  void step() {
    for (int i = 0; i < this->options_.accumulate; ++i) this->backward(i);
    gr::clear_gradients(this->net);
    residency.invalidate();
  }
};

template <class P>
void check() {
  std::size_t number = 0;
  for (const gr::training_options& o : planned_step::kinds()) {
    CAPTURE(number++);
    using on_meta = resident<gr::meta, P>;
    std::vector<std::size_t> order;
    gr::meta_stream of_plan;
    gr::accounting account;
    gr::context<gr::meta> planning{of_plan, account};
    {
      on_meta t(planning, planning, o, order);
      t.step();
      order = t.residency.order();
    }
    CHECK(order.size() > odd.layers);
    const gr::step_trace trace = gr::trace_step<on_meta>(o, order);
    const gr::step_summary plan = gr::summarize(trace);

    gr::stream stream;
    gr::host_resource heap;
    gr::stats_resource kept(heap), outside(heap);
    gr::planned_resource planned(gr::make_plan(trace), heap, stream);
    gr::stats_resource used(planned);
    gr::context persistent{stream, kept}, transient{stream, used}, elsewhere{stream, outside};
    gpt::model<gr::on<gr::cpu, P>, odd> values;
    gr::init(values, elsewhere, gr::normal_init{.seed = o.seed, .stddev = 0.02});
    gradus_test::copying_store<float> store(values);
    resident<gr::cpu, P> t(persistent, transient, o, order, store);
    for (std::uint32_t step = 0; step < 3; ++step) {
      used.reset_peak();
      const std::size_t before = used.all().allocations;
      const data d(step);
      for (int i = 0; i < o.accumulate; ++i) t.load(i, d.inputs.data(), d.targets.data());
      t.step();
      CHECK(t.send_loss().value() < 5);
      planned.check();
      CHECK(planned.live_blocks() == 0);
      CHECK(kept.all().live == plan.persistent_bytes);
      CHECK(kept.all().live + used.all().peak == plan.peak_bytes);
      CHECK(used.all().allocations - before == plan.requests);
    }
  }
}

}  // namespace

TEST_CASE("a step with two groups of parameters resident takes the memory that was planned: fp32") {
  check<gr::fp32>();
}
TEST_CASE("a step with two groups of parameters resident takes the memory that was planned: bf16 products") {
  check<gr::bf16_mixed>();
}
TEST_CASE("a step with two groups of parameters resident takes the memory that was planned: copies in bf16") {
  check<bf16_copies>();
}
