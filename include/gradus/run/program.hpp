#pragma once
// The frame of a command-line program: an error ends it in one line on stderr and an exit status.

#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <new>
#include <sstream>
#include <string>

#include "../core/error.hpp"
#include "../core/platform.hpp"
#include "../core/printable.hpp"

namespace gradus {

/// A command-line flag has a value that it cannot take.
struct bad_flag : error {
  using error::error;
};

/// Throws bad_flag with `NAME must be WHAT, not VALUE` unless `fine`.
template <class T>
void check_flag(bool fine, const std::string& name, const std::string& what, const T& value) {
  if (fine) return;
  std::ostringstream text;
  text << name << " must be " << what << ", not " << value;
  throw bad_flag(text.str());
}

namespace detail {

// Makes a limit on the size of files (ulimit -f) an error of the write, like a full disk, instead of a signal.
inline void ignore_file_limits() {
#ifdef SIGXFSZ
  std::signal(SIGXFSZ, SIG_IGN);
#endif
}

// A smaller stack would end the program by a signal.
inline void check_stack_limit() {
  constexpr std::size_t least = 256 * 1024;
  if (const std::size_t limit = platform::stack_limit(); limit < least)
    throw error("the stack is limited to " + std::to_string(limit / 1024) + " KiB, and " +
                std::to_string(least / 1024) + " are needed; raise the limit: ulimit -s 8192");
}

}  // namespace detail

/// Runs `work` and returns the exit status of the program: what `work` returned, 2 for bad_flag, and 1 for any other
/// exception and for output that cannot be written. The message goes to stderr as one line that begins with `name`;
/// `out_of_memory_advice` is added to messages about memory.
inline int run_program(const char* name, const std::function<int()>& work, const char* out_of_memory_advice = nullptr) {
  int status = 1;
  std::string problem;
  const std::string advice = out_of_memory_advice == nullptr ? "" : std::string("; ") + out_of_memory_advice;
  platform::reserve_standard_streams();
  detail::ignore_file_limits();
  try {
    detail::check_stack_limit();
    status = work();
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
    status = 1;
    problem = "the output could not be written: was it closed, or is the disk full?";
  } catch (const std::bad_alloc&) { problem = "out of memory" + advice; } catch (const out_of_memory& e) {
    problem = e.what() + advice;
  } catch (const bad_flag& e) {
    problem = e.what();
    status = 2;
  } catch (const std::filesystem::filesystem_error& e) {
    problem = e.path1().string() + (e.path1().empty() ? "" : ": ") + e.code().message();
  } catch (const std::exception& e) { problem = e.what(); }
  std::fprintf(stderr, "%s: %s\n", name, printable(problem).c_str());
  return status;
}

}  // namespace gradus
