#pragma once

namespace gpt {

/// While one is there, a program that is asked to end can do so in its own time: Ctrl-C (SIGINT), a polite kill
/// (SIGTERM), a terminal that is closed (SIGHUP), a reader of the output that has gone (SIGPIPE, as in `| head`) and
/// what batch systems send (SIGUSR1, SIGUSR2, SIGXCPU) are noticed and do nothing else. Ctrl-C again, a moment later,
/// ends the program at once. A signal that was ignored before stays so (nohup). Make one where there is something to
/// lose; there can be one at a time.
class interrupts {
 public:
  interrupts();
  interrupts(const interrupts&) = delete;
  interrupts& operator=(const interrupts&) = delete;
  ~interrupts();

  bool noticed() const;
};

}  // namespace gpt
