#pragma once
// Other programs: run, become one, or be one of several that mpirun or srun has started.

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace command {

/// Which process of a job this one is, where mpirun or srun has started it.
struct launched_job {
  int ranks = 0;  ///< processes; 0: nobody has started several
  int rank = 0;

  bool leads() const { return rank == 0; }  ///< whether this process prints
};
/// Reads what mpirun or srun says in the environment. Throws gr::bad_flag for a job whose processes know nothing of
/// each other.
launched_job find_job();

/// Runs a program with its output in a file, and calls seen(line) for each line of it. Returns its exit status, 127 if
/// it cannot be started. Variables of the environment that change what CMake and Ninja do are not passed on.
int run(const std::vector<std::string>& words, const std::filesystem::path& log,
        const std::function<void(std::string_view)>& seen = {});

/// Runs a program in place of this one. Throws gr::error if it cannot be started.
[[noreturn]] void become(const std::vector<std::string>& words);

/// The words of GRADUS_CUDA_LAUNCHER, a command that is put before programs with GPU code; none without it.
std::vector<std::string> gpu_launcher();

/// Whether a program of this name is on the PATH.
bool is_on_path(const std::string& name);

}  // namespace command
