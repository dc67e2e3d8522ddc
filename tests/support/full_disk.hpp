// A disk without room: files of this process cannot grow beyond a limit.
#pragma once

#if !defined(_WIN32)
#include <sys/resource.h>
#endif

#include <csignal>

#include "system.hpp"

namespace gradus_test {

#if defined(_WIN32)
struct full_disk {
  explicit full_disk(unsigned = 0) {}
};
#else
struct full_disk {
  explicit full_disk(rlim_t bytes = 0) {
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limited{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limited);
  }
  ~full_disk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  full_disk(const full_disk&) = delete;
  full_disk& operator=(const full_disk&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int) = SIG_DFL;
};
#endif

}  // namespace gradus_test
