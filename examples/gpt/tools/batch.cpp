// Prints the batch to compile the trainer for, given the tokens of an update and a memory budget. scripts/train.sh runs
// it.

#include <algorithm>
#include <cstdio>
#include <limits>
#include <string>

#include <gradus/core/byte_size.hpp>
#include <gradus/planning.hpp>

#include "../../flags/flags.hpp"
#include "../config.hpp"
#include "../options.hpp"
#include "../token_budget.hpp"
#include "../training.hpp"

namespace gr = gradus;

namespace {

template <gr::index_t Batch>
using planned = gpt::training<gpt::planned_device, gpt::sizes, Batch, gpt::token, gpt::precision, gpt::optimizer,
                              gpt::adapter_rank, gpt::packed, gpt::base_storage>;

/// What a run asks for, with adapters, if there are any, of all layers.
gr::training_options options_of(int accumulate) {
  gr::training_options o{.accumulate = accumulate};
  const gpt::network net;
  gr::nn::for_each_adapter_slot(net,
                                [&](std::string_view layer, const auto&) { o.adapted_layers.emplace_back(layer); });
  return o;
}
/// Bytes of a token's inputs.
constexpr std::size_t token_bytes = gpt::packed ? 5 * sizeof(std::int32_t) : 2 * sizeof(gpt::token);

/// Bytes of a step with micro-batches of `Batch` sequences, parameters and optimizer state included, without
/// recomputation.
template <gr::index_t Batch>
std::size_t bytes_of_a_step(const gr::training_options& options) {
  const gr::step_trace step = gr::trace_step<planned<Batch>>(options);
  return gr::summarize(step).persistent_bytes + gr::make_plan(step).bytes;
}

/// The largest batch that fits, or 1.
std::size_t largest_batch(std::size_t budget, const gr::training_options& options) {
  const std::size_t two = bytes_of_a_step<2>(options), three = bytes_of_a_step<3>(options);
  return gpt::bytes_by_batch{2, two, three - two}.largest_within(budget);
}

/// The least bytes of training and validation with batches of one sequence, with any recomputation.
std::size_t least_bytes(const gr::training_options& step) {
  const gr::recompute_scheduler<planned<1>, gr::training_options> search(step);
  const auto evaluate = [](planned<1>& t) { t.evaluate(); };
  const std::size_t evaluation = gr::make_plan(gr::trace<planned<1>>(evaluate, step)).bytes;
  return std::max(search.least_budget(), search.worth_having().front().summary.persistent_bytes + evaluation);
}

}  // namespace

int main(int argc, char** argv) {
  return gr::run_program("gpt_batch", [&] {
    std::size_t tokens = 0;
    std::string memory;
    gpt::flag_table flags(
        "Prints the largest batch for a number of tokens an update that fits into memory.",
        {gpt::whole("batch-tokens", tokens, 1, gpt::most_batch_tokens, "tokens an update").required(),
         gpt::size("memory-budget", memory, "most memory for parameters, optimizer state and steps").required()});
    if (!flags.read(argc, argv)) return 0;
    const std::size_t budget = gr::parse_bytes(memory);

    const auto print = [](const gpt::token_split& split) {
      std::printf("%zu\n", split.batch);
      return 0;
    };
    const gpt::token_split whole = gpt::split_tokens(tokens, gpt::sizes.context, largest_batch(budget, options_of(1)));
    if (whole.accumulate == 1 && whole.batch > 1) return print(whole);
    // With several batches, the gradients of the first are live while the second is computed, and the tokens of all.
    const bool several = gpt::batches_for(tokens, 1, gpt::sizes.context) > 1;
    const gr::training_options step = options_of(several ? 2 : 1);
    const std::size_t all_tokens = several ? token_bytes * tokens : 0;
    const std::size_t left = budget > all_tokens ? budget - all_tokens : 0;
    const std::size_t largest = largest_batch(left, step);
    if (largest == 1)
      if (const std::size_t least = least_bytes(step) + all_tokens; budget < least)
        throw gr::bad_flag("--memory-budget: no schedule fits in " + gr::format_bytes(budget) +
                           "; the least that is feasible for this model and a batch of 1 is " +
                           std::to_string((least + (1 << 20) - 1) >> 20) + "MiB");
    return print(gpt::split_tokens(tokens, gpt::sizes.context, largest));
  });
}
