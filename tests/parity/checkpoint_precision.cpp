// Nor does checkpointing change a bit where products are computed in 16 bits.
#include <doctest/doctest.h>

#include "checkpoint.hpp"

namespace gr = gradus;

TEST_CASE_TEMPLATE("under every schedule, mixed precision and bf16 alone train to the same bits", P, gr::bf16_mixed,
                   gr::bf16_stream, gr::fp16_mixed, gr::bf16_pure) {
  gradus_test::check_all<gpt::config{3, 3, 39, 13, 61}, 3, P>();
}
