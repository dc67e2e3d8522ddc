#pragma once
// The threads of parallel loops, and the memory that their tasks work in. They belong to a stream, which is where work
// runs: there is no runtime beside it, and nothing depends on -fopenmp.

#include <pthread.h>

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
#include "../memory/context.hpp"

namespace gradus::cpu_kit {  // shared by all builds

/// OMP_NUM_THREADS where it is set, or else the processors that the process may use.
int default_thread_count();

/// A piece of a loop: runs task number `task`.
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

/// Runs parallel loops in place of the threads, for measurements.
class loop_observer {
 public:
  /// Calls run(task) for task = 0 .. tasks-1.
  virtual void loop(index_t tasks, const task_runner& run) = 0;

 protected:
  ~loop_observer() = default;
};

/// Threads of a stream that wait for work, and memory for each. The thread that uses the stream works with them.
///
/// A loop does not wait for a thread that has not come: each thread begins with its own share of the tasks and goes on
/// with what is left of the others', and only tasks that have begun are waited for. So a processor that is busy with
/// another program costs its share of the speed and no more, where a barrier would cost a scheduler's time slice for
/// each loop.
class workers {
 public:
  explicit workers(const stream&) : wanted_(default_thread_count()) {}
  workers(const workers&) = delete;
  workers& operator=(const workers&) = delete;
  ~workers();

  /// Runs f(task, memory) for task = 0 .. tasks-1; `memory` is `bytes` of scratch, aligned to 64 bytes, that no other
  /// running task has. It is kept for later loops, so that a steady state asks the heap for nothing. Rethrows what a
  /// task throws, once all have ended. A task may start a loop on the same stream: it runs on the thread of that task.
  template <class F>
  void run(index_t tasks, std::size_t bytes, const F& f) {
    run(work{&f, [](const void* g, index_t task, void* memory) { (*static_cast<const F*>(g))(task, memory); }}, tasks,
        bytes);
  }

  /// Threads that a loop uses at most, the calling one among them.
  int count() const { return wanted_; }
  void set_count(int threads) { wanted_ = std::max(1, threads); }

  /// Has `who` run loops from now on, on the calling thread; null ends that.
  void observe(loop_observer* who) { observer_ = who; }

 private:
  struct work {
    const void* f;
    void (*call)(const void* f, index_t task, void* memory);
  };
  // The tasks that a thread begins with, in a cache line of its own.
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
  // A thread looks for work that often before it sleeps, about 50 microseconds: longer than the gap between two loops
  // of a step, and too short to matter to whoever else wants the processor.
  static constexpr int patience = 1500;

  void run(const work& w, index_t tasks, std::size_t bytes);

  // Threads, shares and memory for `count`; or for fewer, if the system gives no more threads.
  index_t prepare(index_t count, std::size_t bytes);

  // Runs tasks until none is left to begin.
  void take_part(index_t self);

  // What a thread is told when it starts.
  struct first_words {
    workers* of;
    index_t self;
    std::uint32_t seen;
  };
  static void* start(void* words);
  // The life of a thread. What a loop is made of is read only inside the gate, and the gate is closed and empty
  // whenever that changes.
  void serve(index_t self, std::uint32_t seen);
  void announce();
  void wait_for_those_inside();
  // Looks for a while, then sleeps.
  static void wait_while(const std::atomic<std::uint32_t>& value, std::uint32_t old);

  int wanted_;
  loop_observer* observer_ = nullptr;
  std::vector<pthread_t> threads_;
  std::vector<block> memory_;
  std::unique_ptr<share[]> shares_;
  work work_{};
  index_t sharing_ = 0;
  std::exception_ptr error_;
  std::atomic<bool> busy_{false}, failed_{false}, stopping_{false};
  alignas(64) std::atomic<std::uint32_t> news_{0};  // counts loops, so that a thread sees a new one
  alignas(64) std::atomic<std::uint32_t> gate_{0};  // threads that look at the loop, and whether it is open
};

}  // namespace gradus::cpu_kit

namespace gradus {

/// Threads that parallel loops on this stream use at most: what set_thread_count() said, or else what OMP_NUM_THREADS
/// says, or else as many as there are processors that the process may use, by its affinity and by the limits of its
/// container.
inline int thread_count(stream& on) { return on.get<cpu_kit::workers>().count(); }
/// Threads that parallel loops on this stream use at most, from now on; 1 or more.
inline void set_thread_count(stream& on, int threads) { on.get<cpu_kit::workers>().set_count(threads); }

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "workers.ipp"
#endif
