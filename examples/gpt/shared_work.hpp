#pragma once
// What all ranks do together around the steps: validation, and saving what they share.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include <gradus/run/run_folder.hpp>
#include <gradus/run/shared_checkpoint.hpp>

#include "ranks.hpp"
#include "run_state.hpp"

namespace gpt {

inline constexpr std::size_t a_validation = 8192, last_validation = 32768;  ///< tokens

/// Mean loss of about `tokens` tokens, in windows spread evenly over the validation data, which ranks divide; nothing
/// if a rank's `stop` says to end.
template <class Trainer, class Memory>
std::optional<double> validation_loss(Trainer& t, Memory& memory, const run_data& data, rank_team& team,
                                      std::size_t tokens, const std::function<bool()>& stop) {
  memory.use(evaluation_plan);
  const std::size_t batches = data.validation_batches(tokens), ranks = static_cast<std::size_t>(team.size());
  double sum = 0;
  std::size_t done = 0;
  for (; done < batches && !team.agree(0, stop()).stop; done += ranks) {
    const std::size_t own = std::min(done + static_cast<std::size_t>(team.rank()), batches - 1);
    const auto batch = data.validation.template spread_batch<batch_size>(own, batches);
    const std::vector<double> losses =
        team.gather(static_cast<double>(t.evaluate(batch.inputs.data(), batch.targets.data())));
    for (std::size_t i = 0; i < ranks && done + i < batches; ++i) sum += losses[i];
  }
  memory.use(training_plan);
  if (done < batches) return std::nullopt;
  return sum / static_cast<double>(batches);
}

/// What rank 0 asks of the others after a step, if the ranks share what it saves.
enum class request : std::uint8_t { go_on, check_values, write_checkpoint, write_model, next_tensor };

/// Whether the parameters that ranks share are finite; every rank calls it.
template <class Trainer>
bool shared_values_are_finite(Trainer& t, gr::context<device>& ctx, rank_team& team) {
  return !team.agree(0, !gr::own_values_are_finite(ctx, t.pieces())).stop;
}

/// Writes a checkpoint of ranks that share optimizer states; every rank calls it. Throws gr::error on all if rank 0
/// cannot write. `folder` and `metadata` are rank 0's.
template <class Trainer>
void write_shared_checkpoint(Trainer& t, gr::context<device>& ctx, rank_team& team, const std::filesystem::path& folder,
                             std::size_t keep, const gr::run_metadata& metadata) {
  gr::write_checkpoint(gr::checkpoint_path(folder), ctx, t.net, t.optimizer, metadata,
                       gr::older_checkpoint_paths(folder, keep), t.pieces(), team.trained());
  if (team.leads()) gr::remove_old_checkpoints(folder, keep);
}

}  // namespace gpt
