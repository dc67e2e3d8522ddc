#pragma once
#include <pthread.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <thread>

namespace gpt {

/// Notices Ctrl-C (and a polite kill) so that a loop can end in its own time; a second one ends the program at once, and so
/// does any before end_in_order().
///
/// There is no signal handler, in which next to nothing is allowed: the signals are blocked in this thread and in all that it
/// starts, and a thread that does nothing else waits for them. Make one before the first parallel loop.
class interrupts {
 public:
  interrupts() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    watcher_ = std::jthread([this, signals](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        const timespec patience{.tv_sec = 0, .tv_nsec = 50'000'000};
        if (sigtimedwait(&signals, nullptr, &patience) < 0) continue;
        if (!in_order_ || noticed_.exchange(true)) std::_Exit(130);
      }
    });
  }
  interrupts(const interrupts&) = delete;
  interrupts& operator=(const interrupts&) = delete;

  /// From here on there is something to lose.
  void end_in_order() { in_order_ = true; }
  bool noticed() const { return noticed_; }

 private:
  std::atomic<bool> in_order_ = false;
  std::atomic<bool> noticed_ = false;
  std::jthread watcher_;
};

}  // namespace gpt
