#pragma once
// What a call says on stderr before it aborts, seen from outside: it runs in a child process.
#if !defined(_WIN32)
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <string>

#include "../../support/system.hpp"

/// The stderr of a child that calls f, or "did not abort" and how it ended.
template <class F>
std::string last_words(const F& f) {
#if defined(_WIN32)
  static_cast<void>(f);
  return "no fork";
#else
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) return "no pipe";
  std::fflush(nullptr);  // or the child may print it, too
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    std::signal(SIGABRT, SIG_DFL);  // doctest's handler would report a failed test
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    f();
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string text;
  std::array<char, 512> part{};
  for (ssize_t n; (n = ::read(ends[0], part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<std::size_t>(n));
  ::close(ends[0]);
  text.resize(std::min(text.size(), text.find("qemu: uncaught target signal")));  // what an emulator adds
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) return text;
  return "did not abort: status " + std::to_string(status) + ", " + text;
#endif
}
