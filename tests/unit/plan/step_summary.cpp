// The totals of a trace, on traces written by hand.
#include <doctest/doctest.h>

#include <cstddef>
#include <gradus/plan/step_summary.hpp>
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

std::size_t saved_by(const step_summary& summary, std::string_view name) {
  for (std::size_t i = 0; i < summary.op_count; ++i)
    if (summary.ops[i].name == name) return summary.ops[i].saved_bytes;
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
  const step_summary summary = summarize(step.trace);
  CHECK(summary.saved_bytes == 120);
  CHECK(saved_by(summary, "matmul") == 100);
  CHECK(saved_by(summary, "gelu") == 20);
  CHECK(saved_by(summary, "tanh") == 0);
  CHECK(summary.saved_bytes <= summary.peak_bytes);
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
  const step_summary summary = summarize(step.trace);
  CHECK(summary.peak_bytes == 100);
  CHECK(summary.peak_request == 0);
  CHECK(summary.peak_op == "first");
  CHECK(summary.peak_phase == phase::forward);
}

TEST_CASE("operations beyond those that a summary has room for are in its last one, and in the sums") {
  hand_written step;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < step_summary::max_ops + 5; ++i) names.push_back("op " + std::to_string(i));
  for (const std::string& name : names) {
    const activity what{name, phase::forward, {10, 2, 1}};
    step.trace.ops.push_back({what, 0, 0});
    step.trace.ops.push_back({what, 0, 0});
    step.begin(8, name);
  }
  const step_summary summary = summarize(step.trace);
  CHECK(summary.op_count == step_summary::max_ops);
  for (std::size_t i = 0; i + 1 < step_summary::max_ops; ++i) {
    CHECK(summary.ops[i].name == names[i]);
    CHECK(summary.ops[i].in(phase::forward).runs == 2);
    CHECK(summary.ops[i].saved_bytes == 8);
  }
  constexpr std::size_t last = step_summary::max_ops - 1;
  CHECK(summary.ops[last].name == names[last]);
  CHECK(summary.ops[last].in(phase::forward).runs == 12);
  CHECK(summary.ops[last].in(phase::forward).work.flops == 120);
  CHECK(summary.ops[last].saved_bytes == 6 * 8);
  CHECK(summary.in(phase::forward).runs == 2 * names.size());
  CHECK(summary.saved_bytes == 8 * names.size());
}
