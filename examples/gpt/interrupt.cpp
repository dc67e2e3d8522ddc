#include "interrupt.hpp"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <ctime>

namespace gpt {

namespace {

// A handler may run in any thread, and may touch nothing but atomics that are lock-free.
std::atomic<long long> noticed_at = 0;  // seconds; 0: not yet
static_assert(std::atomic<long long>::is_always_lock_free);

constexpr int watched[] = {
    SIGINT,  SIGTERM,
#ifdef SIGHUP
    SIGHUP,
#endif
#ifdef SIGPIPE
    SIGPIPE,
#endif
#ifdef SIGUSR1  // of batch systems, before they take the machine away; their limit on processor time is SIGXCPU
    SIGUSR1, SIGUSR2,
#endif
#ifdef SIGXCPU
    SIGXCPU,
#endif
};

extern "C" void notice(int signal) {
  std::signal(signal, notice);  // some systems forget the handler when they call it
  const auto now = static_cast<long long>(std::time(nullptr));
  long long first = 0;
  // Some senders signal a program and then its group, so that it comes twice: that is one request, not an impatient
  // second.
  if (!noticed_at.compare_exchange_strong(first, now) && signal == SIGINT && now - first >= 2) std::_Exit(128 + SIGINT);
}

}  // namespace

interrupts::interrupts() {
  noticed_at = 0;
  for (const int signal : watched)
    if (std::signal(signal, notice) == SIG_IGN) std::signal(signal, SIG_IGN);
}

interrupts::~interrupts() {
  for (const int signal : watched)
    if (std::signal(signal, SIG_DFL) == SIG_IGN) std::signal(signal, SIG_IGN);
}

bool interrupts::noticed() const { return noticed_at != 0; }

}  // namespace gpt
