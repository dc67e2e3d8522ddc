#pragma once
// What communicators of the CPU share that exchange data by a thread: a queue of collectives and the thread that makes
// them.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "../core/config.hpp"
#include "../core/floating_mode.hpp"
#include "communicator.hpp"

namespace gradus {

/// A communicator with a queue of collectives. Its progress thread runs them in order while the rank computes. A rank
/// that waits for a collective which has not begun runs it itself, which saves the change of threads. Either way it
/// runs in the floating-point mode of start().
///
/// A model derives from it and implements run(). A failure is reported by the finish() of the collective that failed,
/// and by each start() and finish() after it.
class queued_communicator : public communicator<cpu> {
 public:
  std::uint64_t start(context<cpu>& ctx, const collective& what) final;
  void finish(context<cpu>& ctx, std::uint64_t number) final;

 protected:
  queued_communicator(index_t rank, index_t size) : communicator<cpu>(rank, size) {}
  ~queued_communicator() override { stop(); }

  /// Runs one collective together with the other ranks, and throws rank_failed if that cannot be. Called for one
  /// collective at a time, in their order, from the progress thread or the rank's own.
  virtual void run(const collective& what) = 0;

  /// Ends the progress thread. The destructor of a model calls it before its members go; a run() that is under way must
  /// come to an end by itself. Collectives that have not begun are dropped.
  void stop() noexcept;

 private:
  // The rank may wait for a collective at once, and then runs it itself. So the progress thread begins a collective
  // only after this time. While collectives keep coming it looks once in this time, rather than be woken by each of
  // them.
  static constexpr std::chrono::microseconds grace{100};

  struct entry {
    collective what;
    platform::floating_mode mode;
  };

  void serve();
  // Runs the first collective of the queue, without the lock.
  void run_next(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable work_;  // for the progress thread: there may be something to run, or `stopping_`
  std::condition_variable done_;  // for the rank: a collective has ended
  std::deque<entry> queue_;       // those that have not ended; the first one may be running
  std::uint64_t started_ = 0, ended_ = 0, failed_ = 0;  // numbers of collectives, from 1
  bool running_ = false, stopping_ = false;
  bool sleeps_ = false;  // the progress thread, until it is notified
  std::exception_ptr failure_;
  std::thread progress_;  // from the first start() on
};

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "queued_communicator.ipp"
#endif
