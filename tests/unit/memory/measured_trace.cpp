#include <doctest/doctest.h>

#include <cstddef>
#include <gradus/memory/measured_trace.hpp>
#include <gradus/planning.hpp>
#include <gradus/testing/failing_resource.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gr = gradus;

namespace {

template <class P>
struct small_net {
  gr::param<P, 6, 5> w1;
  gr::param<P, 5> b1;
  gr::param<P, 5, 3> w2;
  gr::param<P, 3> b2;
  GRADUS_MEMBERS(w1, b1, w2, b2)
  constexpr auto operator()(auto x) const {
    return gr::linear(gr::dropout(gr::gelu(gr::linear(x, w1, b1)), 0.25), w2, b2);
  }
};

// The same for the accounting device and the processor, with a region that recomputes.
template <class D>
struct training {
  gr::context<D>& persistent;
  gr::context<D>& transient;
  small_net<gr::on<D>> net;
  gr::adamw<float, D> opt;
  gr::tape<D> tape;
  bool checkpointed;

  constexpr training(gr::context<D>& r, gr::context<D>& p, bool c)
      : persistent(r), transient(p), opt(net), tape(p), checkpointed(c) {
    gr::init(net, r, gr::normal_init{.seed = 1, .stddev = 0.02});
  }
  constexpr void step() {
    auto x = tape.watch(gr::full<float, gr::shape<7, 6>>(transient, 0.5f, gr::category::input));
    const auto left = gr::full<float, gr::shape<1, 7>>(transient, 1.0f);
    const auto right = gr::full<float, gr::shape<3, 1>>(transient, 1.0f);
    auto y =
        checkpointed ? gr::checkpoint([this](auto v) { return net(std::move(v)); }, std::move(x)) : net(std::move(x));
    gr::backward(gr::matmul(gr::matmul(left, std::move(y)), right));
    opt.clip(transient, 1.0);
    opt.step(persistent);
  }
};

void check_same_counts(const gr::step_trace& a, const gr::step_trace& b) {
  CHECK(a.live_before == b.live_before);
  for (std::size_t c = 0; c < gr::category_count; ++c) CHECK(a.live_before_by[c] == b.live_before_by[c]);
}

void check_same(const gr::step_trace& planned, const gr::step_trace& measured) {
  check_same_counts(planned, measured);
  REQUIRE(planned.blocks.size() == measured.blocks.size());
  for (std::size_t i = 0; i < planned.blocks.size(); ++i) {
    CAPTURE(i);
    const gr::block_life& p = planned.blocks[i];
    const gr::block_life& m = measured.blocks[i];
    CHECK(p.bytes == m.bytes);
    CHECK(p.what == m.what);
    CHECK(p.source == m.source);
    CHECK(p.phase == m.phase);
    CHECK(p.from == m.from);
    CHECK(p.until == m.until);
    CHECK(p.op == m.op);
    CHECK(p.saved_by == m.saved_by);
  }
  REQUIRE(planned.events.size() == measured.events.size());
  for (std::size_t i = 0; i < planned.events.size(); ++i) {
    CHECK(planned.events[i].block == measured.events[i].block);
    CHECK(planned.events[i].begins == measured.events[i].begins);
  }
  REQUIRE(planned.ops.size() == measured.ops.size());
  for (std::size_t i = 0; i < planned.ops.size(); ++i) {
    CAPTURE(i);
    CHECK(planned.ops[i].what.name == measured.ops[i].what.name);
    CHECK(planned.ops[i].what.phase == measured.ops[i].what.phase);
    CHECK(planned.ops[i].what.work.flops == measured.ops[i].what.work.flops);
    CHECK(planned.ops[i].first_event == measured.ops[i].first_event);
    CHECK(planned.ops[i].last_event == measured.ops[i].last_event);
  }
}

// The first and the second step of a training, as measured.
std::vector<gr::step_trace> measure(bool checkpointed) {
  gr::stream s;
  gr::host_resource heap;
  gr::trace_resource traced(heap);
  gr::context persistent{s, traced};
  gr::context transient{s, traced};
  std::vector<gr::step_trace> traces(2);
  training<gr::cpu> t(persistent, transient, checkpointed);
  persistent.observe(&traced);
  transient.observe(&traced);
  for (gr::step_trace& trace : traces) {
    traced.start(trace);
    t.step();
    traced.finish();
  }
  return traces;
}

}  // namespace

TEST_CASE("a step on the processor makes the trace that it made on the accounting device") {
  for (const bool checkpointed : {false, true}) {
    CAPTURE(checkpointed);
    const gr::step_trace planned = gr::trace_step<training<gr::meta>>(checkpointed);
    const std::vector<gr::step_trace> measured = measure(checkpointed);
    REQUIRE(planned.blocks.size() > 10);
    check_same(planned, measured[0]);
    bool saved = false;
    for (const gr::block_life& b : measured[0].blocks) saved |= !b.saved_by.empty();
    CHECK(saved);
    // The second step finds the optimizer's state there, and does the same but for making it.
    check_same(planned, measured[1]);
  }
}

TEST_CASE("measured times rise from event to event, and operations lie within those that they are part of") {
  const gr::step_trace trace = measure(true)[1];
  REQUIRE(trace.event_us.size() == trace.events.size());
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    CHECK(trace.event_us[i] >= (i == 0 ? 0 : trace.event_us[i - 1]));
  }
  std::vector<double> ends;
  double last = 0;
  for (const gr::op_span& op : trace.ops) {
    CHECK(op.begin_us >= last);
    last = op.begin_us;
    CHECK(op.end_us >= op.begin_us);
    while (!ends.empty() && ends.back() <= op.begin_us) ends.pop_back();
    if (!ends.empty()) CHECK(op.end_us <= ends.back());
    ends.push_back(op.end_us);
    for (std::size_t e = op.first_event; e < op.last_event; ++e) {
      CHECK(trace.event_us[e] >= op.begin_us);
      CHECK(trace.event_us[e] <= op.end_us);
    }
  }
}

TEST_CASE("what was there before a trace counts as there, and leaves without a trace") {
  gr::stream s;
  gr::host_resource heap;
  gr::trace_resource traced(heap);
  gr::context ctx{s, traced};
  ctx.observe(&traced);
  auto before = std::make_unique<gr::buffer<gr::cpu>>(ctx, 96, gr::category::gradient);
  gr::step_trace trace;
  traced.start(trace);
  {
    const gr::buffer<gr::cpu> transient(ctx, 40, gr::category::temporary);
    before.reset();
  }
  const gr::buffer<gr::cpu> stays(ctx, 24, gr::category::optimizer_state);
  traced.finish();
  CHECK(trace.live_before == 96 + 24);
  CHECK(trace.live_before_by[static_cast<std::size_t>(gr::category::gradient)] == 96);
  CHECK(trace.live_before_by[static_cast<std::size_t>(gr::category::optimizer_state)] == 24);
  REQUIRE(trace.blocks.size() == 1);
  CHECK(trace.blocks[0].bytes == 40);
  CHECK(trace.blocks[0].op == trace.ops.size());
  CHECK(trace.events.size() == 2);
  CHECK(trace.event_us.size() == 2);
  CHECK(traced.live_bytes(gr::category::gradient) == 0);
  CHECK(traced.live_bytes(gr::category::optimizer_state) == 24);

  // Nothing is written between traces, and a block of an earlier trace is one that was there before.
  { const gr::buffer<gr::cpu> unseen(ctx, 8, gr::category::temporary); }
  gr::step_trace later;
  traced.start(later);
  traced.finish();
  CHECK(later.live_before == 24);
  CHECK(later.events.empty());
  CHECK(trace.events.size() == 2);
}

TEST_CASE("what is kept of memory from before a trace is no block of the trace") {
  gr::stream s;
  gr::host_resource heap;
  gr::trace_resource traced(heap);
  gr::context ctx{s, traced};
  const gr::buffer<gr::cpu> before(ctx, 256, gr::category::parameter);
  gr::step_trace trace;
  traced.start(trace);
  { const gr::buffer<gr::cpu> gone(ctx, 40, gr::category::temporary); }
  const gr::buffer<gr::cpu> part = before.part(0, 64);  // its request lies where that of `gone` lay
  traced.saved("op", before.request());
  traced.saved("op", part.request());
  traced.finish();
  REQUIRE(trace.blocks.size() == 1);
  CHECK(trace.blocks[0].saved_by.empty());
}

TEST_CASE("a trace of more blocks than were made room for is whole") {
  gr::stream s;
  gr::host_resource heap;
  gr::trace_resource traced(heap);
  gr::context ctx{s, traced};
  gr::step_trace trace;
  traced.start(trace);
  {
    std::vector<gr::buffer<gr::cpu>> all;
    for (std::size_t i = 1; i <= 3001; ++i) all.emplace_back(ctx, i, gr::category::activation);
  }
  traced.finish();
  CHECK(trace.events.size() == 6002);
  CHECK(trace.event_us.size() == 6002);
  CHECK(gr::summarize(trace).peak_bytes == 3001u * 3002 / 2);
}

TEST_CASE("a request that fails is in no trace and in no count") {
  gr::stream s;
  gr::host_resource heap;
  gr::testing::failing_resource faults(heap);
  gr::trace_resource traced(faults);
  gr::context ctx{s, traced};
  gr::step_trace trace;
  traced.start(trace);
  faults.fail_at(1);
  { const gr::buffer<gr::cpu> served(ctx, 16, gr::category::temporary); }
  CHECK_THROWS_AS(gr::buffer<gr::cpu>(ctx, 32, gr::category::temporary), gr::out_of_memory);
  traced.finish();
  CHECK(trace.blocks.size() == 1);
  CHECK(trace.events.size() == 2);
  CHECK(traced.live_bytes(gr::category::temporary) == 0);
}

TEST_CASE("finish() without start() says so, also for the second time") {
  gr::host_resource heap;
  gr::trace_resource traced(heap);
  CHECK_THROWS_WITH_AS(traced.finish(), doctest::Contains("finish(): no trace is being written; call start(trace)"),
                       gr::error);
  gr::step_trace trace;
  traced.start(trace);
  traced.finish();
  CHECK_THROWS_AS(traced.finish(), gr::error);
}
