// The totals of a trace, on traces written by hand.
#include <doctest/doctest.h>

#include <cstddef>
#include <gradus/meta/plan.hpp>
#include <string>
#include <string_view>
#include <vector>

using namespace gradus;

namespace {

struct hand_written {
  step_trace trace;
  std::size_t begin(std::size_t bytes, std::string_view saved_by = {}, gradus::phase when = phase::forward,
                    std::string_view source = "op") {
    trace.blocks.push_back(
        {bytes, category::activation, source, when, trace.events.size(), static_cast<std::size_t>(-1), 0, saved_by});
    trace.events.push_back({trace.blocks.size() - 1, true});
    return trace.blocks.size() - 1;
  }
  void end(std::size_t block) {
    trace.blocks[block].until = trace.events.size();
    trace.events.push_back({block, false});
  }
};

std::size_t saved_by(const step_plan& plan, std::string_view name) {
  for (std::size_t i = 0; i < plan.op_count; ++i)
    if (plan.ops[i].name == name) return plan.ops[i].saved_bytes;
  return 0;
}

}  // namespace

TEST_CASE("what is kept for backward is the most at once, and not the sum over the batches of a step") {
  hand_written step;
  for (int batch = 0; batch < 10; ++batch) {
    const std::size_t a = step.begin(100, "matmul");
    const std::size_t temporary = step.begin(1000);
    const std::size_t b = step.begin(20, "gelu");
    step.end(temporary);
    const std::size_t again = step.begin(500, "matmul", phase::recompute);  // waits for no backward
    step.end(again);
    step.end(b);
    step.end(a);
    const std::size_t alone = step.begin(110, "tanh");  // not with the others
    step.end(alone);
  }
  const step_plan plan = summarize(step.trace);
  CHECK(plan.saved_bytes == 120);
  CHECK(saved_by(plan, "matmul") == 100);
  CHECK(saved_by(plan, "gelu") == 20);
  CHECK(saved_by(plan, "tanh") == 0);
  CHECK(plan.saved_bytes <= plan.peak_bytes);
}

TEST_CASE("a block that lives on past the step counts as kept to its end") {
  hand_written step;
  step.begin(64, "op");
  CHECK(summarize(step.trace).saved_bytes == 64);
}

TEST_CASE("the peak is the first moment that reaches it") {
  hand_written step;
  step.end(step.begin(100, {}, phase::forward, "first"));
  step.end(step.begin(100, {}, phase::backward, "second"));
  const step_plan plan = summarize(step.trace);
  CHECK(plan.peak_bytes == 100);
  CHECK(plan.peak_request == 0);
  CHECK(plan.peak_op == "first");
  CHECK(plan.peak_phase == phase::forward);
}

TEST_CASE("operations beyond those that a plan has room for are in its last one, and in the sums") {
  hand_written step;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < step_plan::max_ops + 5; ++i) names.push_back("op " + std::to_string(i));
  for (const std::string& name : names) {
    const activity what{name, phase::forward, {10, 2, 1}};
    step.trace.ops.push_back({what, 0, 0});
    step.trace.ops.push_back({what, 0, 0});
    step.begin(8, name);
  }
  const step_plan plan = summarize(step.trace);
  CHECK(plan.op_count == step_plan::max_ops);
  for (std::size_t i = 0; i + 1 < step_plan::max_ops; ++i) {
    CHECK(plan.ops[i].name == names[i]);
    CHECK(plan.ops[i].in(phase::forward).runs == 2);
    CHECK(plan.ops[i].saved_bytes == 8);
  }
  constexpr std::size_t last = step_plan::max_ops - 1;
  CHECK(plan.ops[last].name == names[last]);
  CHECK(plan.ops[last].in(phase::forward).runs == 12);
  CHECK(plan.ops[last].in(phase::forward).work.flops == 120);
  CHECK(plan.ops[last].saved_bytes == 6 * 8);
  CHECK(plan.in(phase::forward).runs == 2 * names.size());
  CHECK(plan.saved_bytes == 8 * names.size());
}
