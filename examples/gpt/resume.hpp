#pragma once
// The checkpoint of a run in its folder: what is in it besides the model and the optimizer, and where a run goes on from.

#include <filesystem>
#include <string>

#include <gradus/train/checkpoint.hpp>

#include "options.hpp"
#include "report.hpp"

namespace gpt {

/// How far a run is.
struct run_position {
  long long step = 0;
  double tokens = 0;
  double training_seconds = 0;
  double elapsed = 0;  ///< seconds
  double best_validation = std::numeric_limits<double>::infinity();
  double loss_scale = 1;
  int clean_steps = 0;
};

/// The last checkpoint that can be read.
struct found_checkpoint {
  std::filesystem::path path;  ///< empty: none is asked for
  run_position at;
  std::string warning;  ///< of one that is damaged; empty: none
};

inline std::filesystem::path checkpoint_path(const std::filesystem::path& folder) {
  return folder / "checkpoint.safetensors";
}
inline std::filesystem::path previous_checkpoint_path(const std::filesystem::path& folder) {
  return folder / "checkpoint-previous.safetensors";
}

/// What a checkpoint of this run at this position says besides its tensors. `text_bytes`: of the text that it is trained on.
gr::run_facts facts_of(const options& o, std::size_t text_bytes, const run_position& at);

/// The checkpoint that --resume goes on from. Throws gradus::error where there is none, and where it is of another model, optimizer,
/// text or seed.
found_checkpoint find_checkpoint(const options& o, std::size_t text_bytes);

}  // namespace gpt
