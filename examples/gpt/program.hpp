#pragma once
// What every program here does around its own work: end in one line on stderr and exit status 1 when something is wrong, 2
// when a flag is.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <functional>
#include <sstream>
#include <string>

#include <gradus/core/error.hpp>

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

inline int run_program(const char* name, const std::function<int()>& work) {
  int status = 1;
  std::string problem;
  try {
    return work();
  } catch (const CLI::ParseError& e) {
    problem = e.what();
    status = 2;
  } catch (const bad_flag& e) {
    problem = e.what();
    status = 2;
  } catch (const std::exception& e) { problem = e.what(); }
  std::fprintf(stderr, "%s: %s\n", name, problem.c_str());
  return status;
}

}  // namespace gpt
