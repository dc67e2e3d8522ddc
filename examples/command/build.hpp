#pragma once
// Compiles a trainer and its tools for the sizes of a model.

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "../flags/flags.hpp"
#include "../gpt/model_folder.hpp"
#include "process.hpp"

namespace command {

using gpt::is_folder, gpt::is_there;

/// The folder of the project that a program was built in, or PREFIX/share/gradus for one that is installed as
/// PREFIX/bin/gradus. Throws gr::error if there is neither.
std::filesystem::path project_folder(const char* program);

/// Where programs are compiled: build/ of a checkout; for an installed project the user's cache, gradus/ in
/// XDG_CACHE_HOME or else in ~/.cache. Throws gr::error if the environment names neither.
std::filesystem::path build_folder(const std::filesystem::path& project);

/// What is compiled where.
struct trainer_build {
  std::filesystem::path project, folder;
  std::vector<std::pair<std::string, std::string>> definitions;  ///< of CMake

  /// A program whose types have the values of these flags: the definitions are their names behind a prefix, and the
  /// folder has the values for its name.
  trainer_build(std::filesystem::path project, const std::string& prefix, const gpt::flag_table& flags,
                const std::vector<std::string>& names);
  std::filesystem::path program(const std::string& name) const { return folder / "examples" / name; }
  /// The words that start a program, which stands for this one: under GRADUS_CUDA_LAUNCHER, if it has GPU code.
  std::vector<std::string> start(const std::string& name) const;
};

/// Compiles programs, whose names are targets of CMake; where they are compiled already, that takes a moment. One
/// process at a time compiles in a folder. Says how far it is and how long it takes. Throws gr::error, after the
/// compiler's first complaints, if they cannot be compiled.
void compile(const trainer_build& what, const std::vector<std::string>& targets, const launched_job& job);

/// Throws gr::bad_flag unless there are a compiler for GPUs and, unless it is only planned, a GPU.
void check_device(const std::string& device, int gpu, bool only_planned);

/// Throws gr::bad_flag, which begins with the flag, for a file that is missing, a folder, unreadable or empty.
void check_file(const std::string& flag, const std::string& file);

}  // namespace command
