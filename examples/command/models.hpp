#pragma once
// Which GPT or Llama is meant: sizes from a preset, a model file, a folder of Hugging Face's or a run.

#include <filesystem>
#include <string>
#include <vector>

#include "../gpt/options.hpp"
#include "build.hpp"

namespace command {

/// A model that flags can name.
struct preset {
  const char* name;
  int layers, heads, width, context, vocabulary, batch;
  const char* lr;                           ///< AdamW's, for a new model
  int sample;                               ///< tokens
  int kv_heads = 0, hidden = 0, tied = -1;  ///< of a llama
};
/// The preset of this name. Throws gr::bad_flag if there is none.
const preset& find_preset(const std::string& name);

/// The names of the flags that are sizes of an architecture, without those of experts.
std::vector<std::string> sizes_of(const std::string& architecture);

/// The model in the folder of a run, as scripts/sample.sh reads it: its last one, or of a run that has not ended the
/// best, or else the checkpoint; empty if there is none.
std::filesystem::path model_of_run(const std::filesystem::path& run);

/// Gives the flags of sizes, and --architecture, the values of the model in a file, or in a folder of Hugging Face's.
/// `named` is what messages begin with, such as "--init". Throws gr::bad_flag for a size that was given otherwise, and
/// for a model that this trainer does not know.
void take_sizes(gpt::command_line& line, const std::filesystem::path& file, const std::string& named);

/// Completes the sizes by the preset, or by what follows from others. Throws gr::bad_flag for sizes that do not fit
/// each other.
void complete_sizes(gpt::command_line& line, const preset* from);

/// The build of the trainer for these options.
trainer_build gpt_build(const std::filesystem::path& project, const gpt::options& o, const launched_job& job);

}  // namespace command
