// What a step takes grows alike with each sequence of its batch, which is what finding a batch for a budget goes by.
#include <doctest/doctest.h>

#include <cstddef>
#include <gpt/training.hpp>
#include <gradus/planning.hpp>

#include "gpt/token_budget.hpp"

namespace {

namespace gr = gradus;

constexpr gpt::config small{.layers = 2, .heads = 2, .width = 32, .context = 48, .vocabulary = 256};

template <gr::index_t Batch>
std::size_t bytes_of_a_step() {
  const gr::step_trace step = gr::trace_step<gpt::training<gr::meta, small, Batch>>(gr::training_options{});
  return gr::summarize(step).persistent_bytes + gr::make_plan(step).bytes;
}

}  // namespace

TEST_CASE("the bytes of a step are known at every batch when they are at two, up to the alignment of blocks") {
  const std::size_t two = bytes_of_a_step<2>(), three = bytes_of_a_step<3>();
  const gpt::bytes_by_batch bytes{2, two, three - two};
  const auto nearly = [](std::size_t n) { return doctest::Approx(static_cast<double>(n)).epsilon(5e-4); };
  CHECK(static_cast<double>(bytes.at(7)) == nearly(bytes_of_a_step<7>()));
  CHECK(static_cast<double>(bytes.at(32)) == nearly(bytes_of_a_step<32>()));
  CHECK(bytes_of_a_step<1>() <= two);
}
