// Finds the batch that training is to be compiled for: from the tokens of an update, and from the memory that there is. scripts/train.sh asks it.

#include <cstdio>
#include <limits>
#include <string>

#include <gradus/core/byte_size.hpp>
#include <gradus/plan.hpp>
#include <gradus/train/token_budget.hpp>

#include "config.hpp"
#include "flags.hpp"
#include "options.hpp"

namespace gr = gradus;

namespace {

/// What a step of so many sequences takes, parameters and optimizer state included, with nothing computed again.
template <gr::index Batch>
std::size_t bytes_of_a_step() {
  using planned = gpt::training<gr::meta, gpt::sizes, Batch, gpt::token, gpt::precision, gpt::optimizer>;
  const gr::step_trace step = gr::trace_step<planned>(gpt::step_options{});
  return gr::summarize(step).persistent_bytes + gr::make_plan(step).bytes;
}

}  // namespace

int main(int argc, char** argv) {
  return gpt::run_program("gpt_batch", [&] {
    std::size_t tokens = 0;
    std::string memory;
    CLI::App app{"Prints the largest batch for a number of tokens an update that fits into memory."};
    gpt::add_whole_number(app, "--batch-tokens", tokens, 1, gpt::most_batch_tokens, "tokens an update")->required();
    app.add_option("--memory-budget", memory, "most memory for parameters, optimizer state and steps")->required();
    if (!gpt::read_flags(app, argc, argv)) return 0;
    std::size_t budget = 0;
    try {
      budget = gr::parse_bytes(memory);
    } catch (const gr::error& e) { throw gpt::bad_flag(std::string("--memory-budget: ") + e.what()); }

    const std::size_t two = bytes_of_a_step<2>(), three = bytes_of_a_step<3>();
    const std::size_t largest = gr::bytes_by_batch{2, two, three - two}.largest_within(budget);
    std::printf("%zu\n", gr::split_tokens(tokens, gpt::sizes.context, largest).batch);
    return 0;
  });
}
