#include "interrupt.hpp"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <ctime>

namespace gpt {

namespace {

// A handler may run in any thread, and may touch nothing but atomics that are lock-free.
std::atomic<bool> was_noticed = false;
std::atomic<long long> noticed_at = 0;  // seconds
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<long long>::is_always_lock_free);

constexpr int watched[] = {
    SIGINT,
    SIGTERM,
#ifdef SIGHUP
    SIGHUP,
#endif
#ifdef SIGPIPE
    SIGPIPE,
#endif
};

extern "C" void notice(int signal) {
  std::signal(signal, notice);  // some systems forget the handler when they call it
  const auto now = static_cast<long long>(std::time(nullptr));
  if (!was_noticed.exchange(true)) noticed_at = now;
  // Some senders signal a program and then its group, so that it comes twice: that is one request, not an impatient second.
  else if (signal == SIGINT && now - noticed_at >= 2) std::_Exit(128 + SIGINT);
}

}  // namespace

interrupts::interrupts() {
  was_noticed = false;
  for (const int signal : watched)
    if (std::signal(signal, notice) == SIG_IGN) std::signal(signal, SIG_IGN);
}

interrupts::~interrupts() {
  for (const int signal : watched)
    if (std::signal(signal, SIG_DFL) == SIG_IGN) std::signal(signal, SIG_IGN);
}

bool interrupts::noticed() const { return was_noticed; }

}  // namespace gpt
