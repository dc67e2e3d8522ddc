// Plans of a GPT's step are exact to the byte under policies of mixed and low precision, too.
#include <doctest/doctest.h>

#include "planned_step.hpp"

namespace gr = gradus;

TEST_CASE("the plan of a step in bf16_mixed is exact to the byte") { planned_step::check<gr::bf16_mixed>(); }
TEST_CASE("the plan of a step in bf16_stream is exact to the byte") { planned_step::check<gr::bf16_stream>(); }
TEST_CASE("the plan of a step in bf16_pure is exact to the byte") { planned_step::check<gr::bf16_pure>(); }
TEST_CASE("the plan of a step in fp16_mixed is exact to the byte") { planned_step::check<gr::fp16_mixed>(); }
