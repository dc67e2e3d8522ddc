// The memory of a run: steps in planned memory or in a pool, and what a trace of one measures.
#include <doctest/doctest.h>

#include <gradus/gradus.hpp>
#include <gradus/planning.hpp>
#include <gradus/run/run_memory.hpp>
#include <vector>

namespace gr = gradus;

namespace {

// One linear layer in training, as it is planned and as it runs.
template <class D>
struct small_training {
  using device = D;
  gr::nn::linear<gr::on<D>, 8, 8> net;
  gr::adamw<float, D, float> optimizer{net, {}};
  gr::context<D>&persistent, &transient;
  gr::tape<D> tape{transient};

  small_training(gr::context<D>& p, gr::context<D>& t, int = 0) : persistent(p), transient(t) {
    gr::init(net, persistent, gr::normal_init{.seed = 1});
  }
  void step() {
    auto x = gr::ones<float, gr::shape<4, 8>>(transient);
    gr::backward(gr::sum(net(tape.watch(x))));
    optimizer.step(persistent);
  }
};

struct counting_observer final : gr::observer {
  int begun = 0;
  void begin(const gr::activity&) override { ++begun; }
  void end(const gr::activity&) override {}
};

}  // namespace

TEST_CASE("a traced step in planned memory measures what its plan says, to the byte") {
  const gr::step_trace planned = gr::trace_step<small_training<gr::meta>>(0);
  gr::stream stream;
  gr::host_resource heap;
  gr::run_memory<gr::cpu> memory(stream, heap, {gr::make_plan(planned)}, true);
  small_training<gr::cpu> t(memory.persistent, memory.transient);
  t.step();
  counting_observer also;
  memory.start_trace(&also);
  t.step();
  const gr::step_trace& measured = memory.finish_trace();
  CHECK(gr::summarize(measured).peak_bytes == gr::summarize(planned).peak_bytes);
  CHECK(measured.blocks.size() == planned.blocks.size());
  const int begun = also.begun;
  CHECK(begun > 0);
  t.step();  // no longer observed
  CHECK(also.begun == begun);
}

TEST_CASE("without a plan the steps of a run come from a pool, and may be of any kind") {
  gr::stream stream;
  gr::host_resource heap;
  gr::run_memory<gr::cpu> memory(stream, heap);
  small_training<gr::cpu> t(memory.persistent, memory.transient);
  memory.use(1);  // nothing to choose
  for (int i = 0; i < 3; ++i) t.step();
  CHECK(gr::item(gr::sum(gr::ones<float, gr::shape<1000>>(memory.transient))) == 1000);
}

TEST_CASE("a run's observer is notified of what both contexts run, until it is taken away") {
  gr::stream stream;
  gr::host_resource heap;
  gr::run_memory<gr::cpu> memory(stream, heap);
  counting_observer seen;
  memory.observe(&seen);
  const auto x = gr::ones<float, gr::shape<4>>(memory.persistent);
  const auto y = gr::ones<float, gr::shape<4>>(memory.transient);
  const int before = seen.begun;
  static_cast<void>(x + x);
  CHECK(seen.begun == before + 1);
  static_cast<void>(y + y);
  CHECK(seen.begun == before + 2);
  memory.observe(nullptr);
  static_cast<void>(y + y);
  CHECK(seen.begun == before + 2);
}
