#pragma once
// What every program here does around its own work: end in one line on stderr and exit status 1 when something is
// wrong, 2 when a flag is.

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <limits>
#include <new>
#include <sstream>
#include <string>

#if defined(__unix__) || defined(__APPLE__)
#include <fcntl.h>
#include <unistd.h>
#endif

#include <gradus/core/error.hpp>
#include <gradus/core/printable.hpp>

namespace gpt {

/// A flag that was given a value it cannot take.
struct bad_flag : gradus::error {
  using error::error;
};

/// Throws bad_flag with `--name needs to be <what>, not <value>` unless `fine`.
template <class T>
void check_flag(bool fine, const std::string& name, const std::string& what, const T& value) {
  if (fine) return;
  std::ostringstream text;
  text << name << " must be " << what << ", not " << value;
  throw bad_flag(text.str());
}

inline constexpr std::uint64_t most_seed = std::numeric_limits<std::uint64_t>::max();
inline constexpr int most_threads = 4096;
inline constexpr int most_bytes = std::numeric_limits<int>::max();  ///< written in one go

/// Makes sure that no file that is opened later takes the place of a standard stream that the program was started
/// without, and gets what is meant for the screen: such a stream becomes one that cannot be written.
inline void reserve_standard_streams() {
#if defined(__unix__) || defined(__APPLE__)
  for (int stream = 0; stream <= 2; ++stream)
    if (fcntl(stream, F_GETFD) < 0 && open("/dev/null", stream == 0 ? O_WRONLY : O_RDONLY) < 0) return;
#endif
}

/// A limit on the size of files (ulimit -f) becomes what a full disk is: an error of the file that cannot be written,
/// and no signal.
inline void ignore_file_limits() {
#ifdef SIGXFSZ
  std::signal(SIGXFSZ, SIG_IGN);
#endif
}

/// Runs `work` and gives the exit status; `when_memory_is_short` says what to try then.
inline int run_program(const char* name, const std::function<int()>& work, const char* when_memory_is_short = nullptr) {
  int status = 1;
  std::string problem;
  const std::string advice = when_memory_is_short == nullptr ? "" : std::string("; ") + when_memory_is_short;
  reserve_standard_streams();
  ignore_file_limits();
  try {
    status = work();
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
    status = 1;
    problem = "the output could not be written: was it closed, or is the disk full?";
  } catch (const std::bad_alloc&) { problem = "out of memory" + advice; } catch (const gradus::out_of_memory& e) {
    problem = e.what() + advice;
  } catch (const bad_flag& e) {
    problem = e.what();
    status = 2;
  } catch (const std::exception& e) { problem = e.what(); }
  std::fprintf(stderr, "%s: %s\n", name, gradus::printable(problem).c_str());
  return status;
}

}  // namespace gpt
