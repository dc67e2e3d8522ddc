#pragma once
// The threads of parallel loops, and the memory that their tasks work in. They belong to a context, as all that the library
// keeps: there is no runtime beside it, and nothing depends on -fopenmp.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif

#include "../core/extent.hpp"
#include "../memory/context.hpp"

namespace gradus {

namespace cpu_kit {  // shared by all builds

/// What set_thread_count() asked for on this thread; 0 before anybody asked. A setting of the thread, as its locale is, and the
/// one thing that belongs to no context.
inline thread_local int wanted_threads = 0;

/// OMP_NUM_THREADS where it is set, or else the processors that the calling thread may run on.
inline int default_thread_count() {
  if (const char* set = std::getenv("OMP_NUM_THREADS"))  // NOLINT(concurrency-mt-unsafe): nothing here changes it
    if (const long n = std::strtol(set, nullptr, 10); n > 0) return static_cast<int>(std::min(n, 1024L));
#if defined(__linux__)
  cpu_set_t usable;
  if (sched_getaffinity(0, sizeof usable, &usable) == 0) return std::max(1, CPU_COUNT(&usable));
#endif
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace cpu_kit

/// Threads that parallel loops started by the calling thread use at most: what set_thread_count() said, or else what
/// OMP_NUM_THREADS says, or else as many as there are processors to run on.
inline int thread_count() {
  if (cpu_kit::wanted_threads == 0) cpu_kit::wanted_threads = cpu_kit::default_thread_count();
  return cpu_kit::wanted_threads;
}
/// Threads that parallel loops started by the calling thread use at most, from now on; 1 or more.
inline void set_thread_count(int threads) { cpu_kit::wanted_threads = std::max(1, threads); }

namespace cpu_kit {  // shared by all builds

/// Runs parallel loops in place of the threads, for measurements.
class loop_observer {
 public:
  /// A loop of what the context names as its current activity. Calls run(task) for task = 0 .. tasks-1.
  virtual void loop(const activity& what, index tasks, const std::function<void(index)>& run) = 0;

 protected:
  ~loop_observer() = default;
};

/// Threads of a context that wait for work, and memory for each. The thread that uses the context works with them.
///
/// A loop does not wait for a thread that has not come: each thread begins with its own share of the tasks and goes on with what
/// is left of the others', and only tasks that have begun are waited for. So a processor that is busy with another program
/// costs its share of the speed and no more, where a barrier would cost a scheduler's time slice for each loop.
class workers {
 public:
  explicit workers(context<cpu>& ctx) : context_(&ctx) {}
  workers(const workers&) = delete;
  workers& operator=(const workers&) = delete;
  ~workers() {
    stopping_.store(true, std::memory_order_relaxed);
    announce();
    for (std::thread& t : threads_) t.join();
  }

  /// Runs f(task, memory) for task = 0 .. tasks-1; `memory` is `bytes` of scratch, aligned to 64 bytes, that no other running
  /// task has. It is kept for later loops, so that a steady state asks the heap for nothing. Rethrows what a task throws, once
  /// all have ended. A task may start a loop on the same context: it runs on the thread of that task.
  template <class F>
  void run(index tasks, std::size_t bytes, const F& f) {
    run(work{&f, [](const void* g, index task, void* memory) { (*static_cast<const F*>(g))(task, memory); }}, tasks,
        bytes);
  }

  /// Has `who` run loops from now on, on the calling thread; null ends that.
  void observe(loop_observer* who) { observer_ = who; }

 private:
  struct work {
    const void* f;
    void (*call)(const void* f, index task, void* memory);
  };
  // The tasks that a thread begins with, in a cache line of its own.
  struct alignas(64) share {
    std::atomic<index> next{0};
    index end = 0;
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
  // A thread looks for work that long before it sleeps: longer than the gap between two loops of a step, and too short to matter
  // to whoever else wants the processor.
  static constexpr std::chrono::microseconds patience{50};

  void run(const work& w, index tasks, std::size_t bytes) {
    if (busy_.exchange(true, std::memory_order_acquire)) {  // within a task
      block own;
      own.hold(bytes);
      for (index t = 0; t < tasks; ++t) w.call(w.f, t, own.data.get());
      return;
    }
    struct busy {
      std::atomic<bool>* flag;
      ~busy() { flag->store(false, std::memory_order_release); }
    } until_the_end{&busy_};
    index count = observer_ != nullptr ? 1 : std::min(tasks, static_cast<index>(thread_count()));
    count = prepare(std::max<index>(1, count), bytes);
    if (observer_ != nullptr)
      return observer_->loop(context_->current(), tasks, [&](index t) { w.call(w.f, t, memory_[0].data.get()); });
    if (count == 1) {
      for (index t = 0; t < tasks; ++t) w.call(w.f, t, memory_[0].data.get());
      return;
    }
    for (index i = 0; i < count; ++i) {
      shares_[i].next.store(tasks * i / count, std::memory_order_relaxed);
      shares_[i].end = tasks * (i + 1) / count;
    }
    work_ = w;
    sharing_ = count;
    gate_.fetch_or(open, std::memory_order_release);
    announce();
    take_part(0);
    wait_for_those_inside();
    if (error_ != nullptr) std::rethrow_exception(std::exchange(error_, nullptr));
  }

  // Threads, shares and memory for `count`; or for fewer, if the system gives no more threads.
  index prepare(index count, std::size_t bytes) {
    if (memory_.size() < count) {
      threads_.reserve(count);
      shares_ = std::make_unique<share[]>(count);
      memory_.resize(count);
    }
    try {
      while (threads_.size() + 1 < count)
        threads_.emplace_back([this, self = threads_.size() + 1, seen = news_.load()] { serve(self, seen); });
    } catch (const std::system_error&) { count = threads_.size() + 1; }
    for (index i = 0; i < count; ++i) memory_[i].hold(bytes);
    return count;
  }

  // Runs tasks until none is left to begin.
  void take_part(index self) {
    void* const memory = memory_[self].data.get();
    for (index k = 0; k < sharing_; ++k) {
      share& s = shares_[(self + k) % sharing_];
      while (s.next.load(std::memory_order_relaxed) < s.end) {
        const index task = s.next.fetch_add(1, std::memory_order_relaxed);
        if (task >= s.end) break;
        try {
          work_.call(work_.f, task, memory);
        } catch (...) {
          if (!failed_.exchange(true, std::memory_order_relaxed)) error_ = std::current_exception();
        }
      }
    }
  }

  // The life of a thread. What a loop is made of is read only inside the gate, and the gate is closed and empty whenever that
  // changes.
  void serve(index self, std::uint32_t seen) {
    for (;;) {
      wait_while(news_, seen);
      seen = news_.load(std::memory_order_acquire);
      if (stopping_.load(std::memory_order_relaxed)) return;
      if ((gate_.fetch_add(1, std::memory_order_acquire) & open) != 0 && self < sharing_) take_part(self);
      if (gate_.fetch_sub(1, std::memory_order_release) == 1) gate_.notify_one();
    }
  }
  void announce() {
    news_.fetch_add(1, std::memory_order_release);
    news_.notify_all();
  }
  void wait_for_those_inside() {
    std::uint32_t inside = gate_.fetch_and(~open, std::memory_order_acq_rel) & ~open;
    while (inside != 0) {
      wait_while(gate_, inside);
      inside = gate_.load(std::memory_order_acquire);
    }
    failed_.store(false, std::memory_order_relaxed);
  }
  // Looks for a while, then sleeps.
  static void wait_while(const std::atomic<std::uint32_t>& value, std::uint32_t old) {
    const auto until = std::chrono::steady_clock::now() + patience;
    while (value.load(std::memory_order_acquire) == old) {
      if (std::chrono::steady_clock::now() >= until) return value.wait(old, std::memory_order_acquire);
#if defined(__x86_64__) || defined(__i386__)
      __builtin_ia32_pause();
#endif
    }
  }

  context<cpu>* context_;
  loop_observer* observer_ = nullptr;
  std::vector<std::thread> threads_;
  std::vector<block> memory_;
  std::unique_ptr<share[]> shares_;
  work work_{};
  index sharing_ = 0;
  std::exception_ptr error_;
  std::atomic<bool> busy_{false}, failed_{false}, stopping_{false};
  alignas(64) std::atomic<std::uint32_t> news_{0};  // counts loops, so that a thread sees a new one
  alignas(64) std::atomic<std::uint32_t> gate_{0};  // threads that look at the loop, and whether it is open
};

}  // namespace cpu_kit
}  // namespace gradus
