#pragma once
// The thread pool of a stream: runs parallel loops and owns their scratch. It needs no runtime such as OpenMP.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "../core/config.hpp"
#include "../core/extent.hpp"
#include "../core/floating_mode.hpp"
#include "../core/platform.hpp"
#include "../core/watched_word.hpp"
#include "../memory/context.hpp"

namespace gradus::cpu_kit {  // shared by all builds

/// OMP_NUM_THREADS, or else the number of processors that the process may use.
int default_thread_count();

/// The body of a loop: runs task number `task`.
class task_runner {
 public:
  template <class F>
  explicit task_runner(const F& f)
      : f_(&f), call_([](const void* g, index_t task) { (*static_cast<const F*>(g))(task); }) {}
  void operator()(index_t task) const { call_(f_, task); }

 private:
  const void* f_;
  void (*call_)(const void* f, index_t task);
};

/// Runs parallel loops instead of the threads, for measurements.
class loop_observer {
 public:
  /// Calls run(task) for task = 0 .. tasks-1.
  virtual void loop(index_t tasks, const task_runner& run) = 0;

 protected:
  ~loop_observer() = default;
};

/// The waiting threads of a stream, with scratch for each. The thread that uses the stream takes part in the work.
///
/// A loop does not wait for late threads: each thread starts with its own share of the tasks and then steals from the
/// others, and the loop ends when all started tasks have ended. A processor that runs another program costs its share
/// of the speed; a barrier would cost a time slice of the scheduler per loop.
///
/// All threads compute in the floating-point mode of the thread that runs the loop.
class [[gnu::visibility("default")]] workers {
 public:
  explicit workers(const stream&) : wanted_(default_thread_count()) {}
  workers(const workers&) = delete;
  workers& operator=(const workers&) = delete;
  ~workers();

  /// Runs f(task, memory) for task = 0 .. tasks-1; `memory` is `bytes` of scratch, aligned to 64 bytes, exclusive to
  /// the running task. Later loops reuse it, so the steady state does not allocate. Rethrows a task's exception after
  /// all have ended. A task may start a loop on the same stream, which runs on that task's thread.
  template <class F>  // hidden: f is of a build
  [[gnu::visibility("hidden")]] void run(index_t tasks, std::size_t bytes, const F& f) {
    run(work{&f, [](const void* g, index_t task, void* memory) { (*static_cast<const F*>(g))(task, memory); }}, tasks,
        bytes);
  }

  /// The most threads that a loop uses, including the caller.
  int count() const { return wanted_; }
  void set_count(int threads) { wanted_ = std::max(1, threads); }

  /// Whether a loop is running: a task's loops then run on its thread.
  bool busy() const { return busy_.load(std::memory_order_relaxed); }
  /// `bytes` of scratch for all tasks of the next loops, aligned to 64 bytes, until the next call; not while busy().
  void* shared(std::size_t bytes) {
    shared_.hold(bytes);
    return shared_.data.get();
  }

  /// Lets `who` run all later loops, on the calling thread; null ends that.
  void observe(loop_observer* who) { observer_ = who; }

 private:
  struct work {
    const void* f;
    void (*call)(const void* f, index_t task, void* memory);
  };
  // The first share of tasks of a thread, in a cache line of its own.
  struct alignas(64) share {
    std::atomic<index_t> next{0};
    index_t end = 0;
  };
  struct block {
    struct deleter {
      void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{64}); }
    };
    std::unique_ptr<std::byte[], deleter> data;
    std::size_t bytes = 0;

    void hold(std::size_t wanted) {
      if (wanted <= bytes) return;
      data.reset();
      bytes = 0;
      data.reset(static_cast<std::byte*>(::operator new[](wanted, std::align_val_t{64})));
      bytes = wanted;
    }
  };

  static constexpr std::uint32_t open = std::uint32_t{1} << 31;
  // How often a thread polls before it sleeps, about 50 microseconds: longer than the gap between two loops of a step.
  static constexpr int patience = 1500;

  void run(const work& w, index_t tasks, std::size_t bytes);

  // Provides threads, shares and scratch for `count` threads, or fewer if the system creates no more.
  index_t prepare(index_t count, std::size_t bytes);

  // Runs tasks until none is left to start.
  void take_part(index_t self);

  // Arguments of a new thread.
  struct first_words {
    workers* of;
    index_t self;
    std::uint32_t seen;
  };
  static void* start(void* words);
  // The main function of a thread. Reads the loop's data inside the gate; they change while it is closed and empty.
  void serve(index_t self, std::uint32_t seen);
  void announce();
  void wait_for_those_inside();
  // Polls for a while, then sleeps.
  static void wait_while(const platform::watched_word& value, std::uint32_t old);

  int wanted_;
  loop_observer* observer_ = nullptr;
  std::vector<platform::thread> threads_;
  std::vector<block> memory_;
  block shared_;
  std::unique_ptr<share[]> shares_;
  work work_{};
  platform::floating_mode mode_;  // of the loop's caller
  index_t sharing_ = 0;
  std::exception_ptr error_;
  std::atomic<bool> busy_{false}, failed_{false}, stopping_{false};
  alignas(64) platform::watched_word news_{0};  // number of loops, polled by the threads
  alignas(64) platform::watched_word gate_{0};  // number of threads inside, and whether the gate is open
};

}  // namespace gradus::cpu_kit

namespace gradus {

/// The most threads that parallel loops on this stream use: set_thread_count(), or else OMP_NUM_THREADS, or else the
/// processors that the process may use by its affinity and its container's limits.
inline int thread_count(stream& on) { return on.get<cpu_kit::workers>().count(); }
/// Sets the most threads that parallel loops on this stream use; 1 or more.
inline void set_thread_count(stream& on, int threads) { on.get<cpu_kit::workers>().set_count(threads); }

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "workers.ipp"
#endif
