// Plans of a GPT's step are exact to the byte with every optimizer. planned/precision.cpp has AdamW under every policy;
// here each optimizer comes with one of them.
#include <doctest/doctest.h>

#include "planned_step.hpp"

namespace gr = gradus;

TEST_CASE("the plan of a step with sgd is exact to the byte") { planned_step::check<gr::bf16_gradients, gr::sgd>(); }
TEST_CASE("the plan of a step with lion is exact to the byte") { planned_step::check<gr::bf16_mixed, gr::lion>(); }
TEST_CASE("the plan of a step with adafactor is exact to the byte") { planned_step::check<gr::fp32, gr::adafactor>(); }
TEST_CASE("the plan of a step with 8-bit AdamW is exact to the byte") {
  planned_step::check<gr::bf16_pure, gr::adamw_8bit>();
}
TEST_CASE("the plan of a step with any-precision AdamW is exact to the byte") {
  planned_step::check<gr::bf16_pure, gr::any_precision_adamw>();
}
TEST_CASE("the plan of a step with Muon is exact to the byte") { planned_step::check<gr::fp16_mixed, gr::muon>(); }
