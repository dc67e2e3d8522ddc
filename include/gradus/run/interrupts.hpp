#pragma once
// Requests to end the program (Ctrl-C, a polite kill), noticed by a loop in its own time.

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <ctime>

namespace gradus {

/// While one lives, a request to end the program only sets `NoticedAt`, which the training loop reads by noticed():
/// Ctrl-C (SIGINT), kill (SIGTERM), a closed terminal (SIGHUP), a closed pipe (SIGPIPE, as in `| head`), and the
/// signals of batch systems (SIGUSR1, SIGUSR2, SIGXCPU). A second Ctrl-C, 2 seconds later or more, ends the program at
/// once with status 130. A signal that was ignored before stays ignored (nohup).
///
/// A signal handler reaches static objects only, so the program owns `NoticedAt`: the time of the first request in
/// seconds; 0: none:
///
///     std::atomic<long long> interrupted_at = 0;  // at namespace scope
///     ...
///     const gradus::interrupts<interrupted_at> stop;
///     while (!stop.noticed()) ...
///
/// One object can live at a time.
template <std::atomic<long long>& NoticedAt>
class interrupts {
  static_assert(std::atomic<long long>::is_always_lock_free, "a signal handler may only touch lock-free atomics");

  static constexpr std::array watched = {
      SIGINT,   SIGTERM,
#ifdef SIGBREAK  // Windows: Ctrl-Break, and a closed console
      SIGBREAK,
#endif
#ifdef SIGHUP
      SIGHUP,
#endif
#ifdef SIGPIPE
      SIGPIPE,
#endif
#ifdef SIGUSR1
      SIGUSR1,  SIGUSR2,
#endif
#ifdef SIGXCPU
      SIGXCPU,
#endif
  };

  static void notice(int signal) {
    std::signal(signal, notice);  // some systems reset the handler before they call it
    const auto now = static_cast<long long>(std::time(nullptr));
    long long first = 0;
    // `timeout` and others signal a program and then its group: two signals at once are one request.
    if (!NoticedAt.compare_exchange_strong(first, now) && signal == SIGINT && now - first >= 2)
      std::_Exit(128 + SIGINT);
  }

 public:
  interrupts() {
    NoticedAt = 0;
    for (const int signal : watched)
      if (std::signal(signal, notice) == SIG_IGN) std::signal(signal, SIG_IGN);
  }
  interrupts(const interrupts&) = delete;
  interrupts& operator=(const interrupts&) = delete;
  ~interrupts() {
    for (const int signal : watched)
      if (std::signal(signal, SIG_DFL) == SIG_IGN) std::signal(signal, SIG_IGN);
  }

  bool noticed() const { return NoticedAt != 0; }
};

}  // namespace gradus
