// Steps of a small Llama in planned memory: planned_step.hpp has what is counted.
#include <doctest/doctest.h>

#include "llama/model.hpp"
#include "planned_step.hpp"

namespace gr = gradus;
using planned_step::odd;

namespace {

constexpr llama::config tied{.layers = odd.layers,
                             .heads = 4,
                             .width = 40,
                             .context = odd.context,
                             .vocabulary = odd.vocabulary,
                             .kv_heads = 2,
                             .hidden = 51};
constexpr llama::config untied = [] {
  llama::config c = tied;
  c.tied = 0;
  return c;
}();

}  // namespace

TEST_CASE("a Llama's steps take the planned memory to the byte, in fp32 and in bf16_mixed") {
  planned_step::check<gr::fp32, gr::adamw, tied>();
  planned_step::check<gr::bf16_mixed, gr::adamw, untied>();
}
