#pragma once
// Which GPT or Llama is meant: sizes from a preset, a model file, a folder of Hugging Face's or a run.

#include <filesystem>
#include <string>
#include <vector>

#include "../gpt/options.hpp"
#include "build.hpp"

namespace command {

/// What --model NAME stands for: words FLAG=VALUE. Its rate is AdamW's.
std::string preset_of(const std::string& model);

/// The flags that are sizes of an architecture, without experts.
std::vector<std::string> sizes_of(const std::string& architecture);

/// Throws gr::bad_flag, which begins with `named`, unless a folder of Hugging Face's has its tensors as safetensors.
void check_tensors(const std::string& folder, const std::string& named, const char* auto_class);

/// Throws gr::bad_flag for a precision that the device has not, or the optimizer cannot use.
void check_numbers(const std::string& device, const std::string& precision, const std::string& optimizer);

/// Gives a flag a value that a file says of its model. Throws gr::bad_flag if the flag was given another one, or cannot
/// have it.
void take(gpt::flag_table& flags, const std::string& name, const std::string& value, const std::string& named,
          const std::filesystem::path& file);

/// Gives the flags of sizes, and --architecture, the values of the model in a file of gpt_train or a GGUF file, or in a
/// config.json of Hugging Face's. `named` is what messages begin with, such as "--init". Throws gr::bad_flag.
void take_sizes(gpt::command_line& line, const std::filesystem::path& file, const std::string& named);

/// Completes the sizes by those that follow from others. Throws gr::bad_flag for sizes that do not fit each other.
void complete_sizes(gpt::command_line& line);

/// Throws gr::bad_flag for a --memory-budget below the parameters alone.
void check_budget(const gpt::command_line& line);

/// The build of the trainer for these options.
trainer_build gpt_build(const std::filesystem::path& project, const gpt::command_line& line, const launched_job& job);

}  // namespace command
