#include <doctest/doctest.h>

#include <gradus/plan/time_table.hpp>
#include <string_view>

using namespace gradus;

namespace {

op_span span(std::string_view name, phase when, cost work, double begin_us, double end_us, std::size_t depth = 0) {
  return {{name, when, work}, 0, 0, depth, begin_us, end_us};
}
constexpr cost small{100, 10, 10};

}  // namespace

TEST_CASE("what was never measured takes the longer of its arithmetic and its memory traffic") {
  const time_table table(100, 10);
  CHECK(table.seconds(activity{"op", phase::forward, {300, 5, 5}}) == doctest::Approx(3));
  CHECK(table.seconds(activity{"op", phase::forward, {300, 30, 20}}) == doctest::Approx(5));
}

TEST_CASE("a measured time is that of the same operation with the same work, forward or backward, and of no other") {
  time_table table(100, 10);
  step_trace measured;
  measured.ops = {span("op", phase::forward, small, 0, 5e6)};
  table.add(measured);
  CHECK(table.seconds(activity{"op", phase::forward, small}) == doctest::Approx(5));
  CHECK(table.seconds(activity{"op", phase::recompute, small}) == doctest::Approx(5));  // the same work again
  for (const activity& other :
       {activity{"op", phase::backward, small}, activity{"another", phase::forward, small},
        activity{"op", phase::forward, {99, 10, 10}}, activity{"op", phase::forward, {100, 10, 9}}}) {
    CAPTURE(other.name);
    CHECK(table.seconds(other) < 3);
  }

  measured.ops = {span("op", phase::backward, small, 0, 9e6)};
  table.add(measured);
  CHECK(table.seconds(activity{"op", phase::backward, small}) == doctest::Approx(9));
  CHECK(table.seconds(activity{"op", phase::forward, small}) == doctest::Approx(5));
}

TEST_CASE("an operation within another is part of the other's time, and has none of its own") {
  time_table table(100, 10);
  step_trace measured;
  measured.ops = {span("outer", phase::forward, small, 0, 8e6), span("inner", phase::forward, small, 1e6, 7e6, 1)};
  table.add(measured);
  CHECK(table.seconds(activity{"outer", phase::forward, small}) == doctest::Approx(8));
  CHECK(table.seconds(activity{"inner", phase::forward, small}) == doctest::Approx(2));  // estimated
  CHECK(table.seconds(measured) == doctest::Approx(8));
}

TEST_CASE("of several measured steps the median counts, and what they spend between operations is part of a step") {
  time_table table(100, 10);
  for (const double seconds : {2.0, 50.0, 3.0}) {
    step_trace measured;
    measured.ops = {span("op", phase::forward, small, 0, seconds * 1e6),
                    span("op", phase::backward, small, seconds * 1e6 + 1e6, seconds * 1e6 + 2e6)};
    table.add(measured);
  }
  step_trace step;
  step.ops = {span("op", phase::forward, small, 0, 0), span("op", phase::forward, small, 0, 0)};
  CHECK(table.seconds(step) == doctest::Approx(3 + 3 + 1));
}
