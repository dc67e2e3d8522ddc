#include <doctest/doctest.h>

#include <gradus/memory/trace_writer.hpp>

using namespace gradus;

TEST_CASE("a block that several operations keep is saved by the first of them") {
  step_trace trace;
  trace_writer writer;
  writer.start(trace, {});
  const std::size_t block = writer.asked({.bytes = 8});
  writer.saved("first", block);
  writer.saved("second", block);
  writer.ended(block);
  writer.finish();
  REQUIRE(trace.blocks.size() == 1);
  CHECK(trace.blocks[0].saved_by == "first");
}

TEST_CASE("an operation that was begun before the trace ends outside of it") {
  step_trace trace;
  trace_writer writer;
  writer.start(trace, {});
  CHECK(writer.end() == nullptr);
  writer.begin({"op", phase::forward, {}});
  CHECK(writer.end() == &trace.ops[0]);
  CHECK(writer.end() == nullptr);
  writer.finish();
  CHECK_FALSE(writer.writing());
}

TEST_CASE("operations that are running when the trace ends have what came before its end") {
  step_trace trace;
  trace_writer writer;
  writer.start(trace, {});
  writer.begin({"outer", phase::forward, {}});
  writer.begin({"inner", phase::forward, {}});
  writer.ended(writer.asked({.bytes = 8}));
  writer.finish();
  REQUIRE(trace.ops.size() == 2);
  for (const op_span& op : trace.ops) CHECK(op.last_event == 2);
}
