#pragma once
#include <algorithm>
#include <cstdlib>
#include <utility>

#include "processors.hpp"
#include "workers.hpp"

namespace gradus::cpu_kit {  // shared by all builds

GRADUS_IMPL int default_thread_count() {
  if (const char* set = std::getenv("OMP_NUM_THREADS"))  // NOLINT(concurrency-mt-unsafe): nothing here changes it
    if (const long n = std::strtol(set, nullptr, 10); n > 0) return static_cast<int>(std::min(n, 1024L));
  return usable_processors();
}

GRADUS_IMPL workers::~workers() {
  stopping_.store(true, std::memory_order_relaxed);
  announce();
  for (const platform::thread t : threads_) platform::join_thread(t);
}

GRADUS_IMPL void workers::run(const work& w, index_t tasks, std::size_t bytes) {
  if (busy_.exchange(true, std::memory_order_acquire)) {  // within a task
    block own;
    own.hold(bytes);
    for (index_t t = 0; t < tasks; ++t) w.call(w.f, t, own.data.get());
    return;
  }
  struct busy {
    std::atomic<bool>* flag;
    ~busy() { flag->store(false, std::memory_order_release); }
  } until_the_end{&busy_};
  index_t count = observer_ != nullptr ? 1 : std::min(tasks, static_cast<index_t>(wanted_));
  count = prepare(std::max<index_t>(1, count), bytes);
  if (observer_ != nullptr)
    return observer_->loop(tasks, task_runner([&](index_t t) { w.call(w.f, t, memory_[0].data.get()); }));
  if (count == 1) {
    for (index_t t = 0; t < tasks; ++t) w.call(w.f, t, memory_[0].data.get());
    return;
  }
  for (index_t i = 0; i < count; ++i) {
    shares_[i].next.store(tasks * i / count, std::memory_order_relaxed);
    shares_[i].end = tasks * (i + 1) / count;
  }
  work_ = w;
  mode_ = {};
  sharing_ = count;
  gate_.fetch_or(open, std::memory_order_release);
  announce();
  take_part(0);
  wait_for_those_inside();
  if (error_ != nullptr) std::rethrow_exception(std::exchange(error_, nullptr));
}

GRADUS_IMPL index_t workers::prepare(index_t count, std::size_t bytes) {
  if (memory_.size() < count) {
    threads_.reserve(count);
    shares_ = std::make_unique<share[]>(count);
    memory_.resize(count);
  }
  while (threads_.size() + 1 < count) {
    auto begin = std::make_unique<first_words>(first_words{this, threads_.size() + 1, news_.load()});
    platform::thread made{};
    if (!platform::start_thread(made, &start, begin.get())) {
      count = threads_.size() + 1;
      break;
    }
    static_cast<void>(begin.release());
    threads_.push_back(made);
  }
  for (index_t i = 0; i < count; ++i) memory_[i].hold(bytes);
  return count;
}

GRADUS_IMPL void workers::take_part(index_t self) {
  void* const memory = memory_[self].data.get();
  for (index_t k = 0; k < sharing_; ++k) {
    share& s = shares_[(self + k) % sharing_];
    while (s.next.load(std::memory_order_relaxed) < s.end) {
      const index_t task = s.next.fetch_add(1, std::memory_order_relaxed);
      if (task >= s.end) break;
      try {
        work_.call(work_.f, task, memory);
      } catch (...) {
        if (!failed_.exchange(true, std::memory_order_relaxed)) error_ = std::current_exception();
      }
    }
  }
}

GRADUS_IMPL void* workers::start(void* words) {
  const std::unique_ptr<first_words> told(static_cast<first_words*>(words));
  told->of->serve(told->self, told->seen);
  return nullptr;
}

GRADUS_IMPL void workers::serve(index_t self, std::uint32_t seen) {
  for (;;) {
    wait_while(news_, seen);
    seen = news_.load(std::memory_order_acquire);
    if (stopping_.load(std::memory_order_relaxed)) return;
    if ((gate_.fetch_add(1, std::memory_order_acquire) & open) != 0 && self < sharing_) {
      mode_.apply();
      take_part(self);
    }
    if (gate_.fetch_sub(1, std::memory_order_release) == 1) gate_.notify_one();
  }
}

GRADUS_IMPL void workers::announce() {
  news_.fetch_add(1, std::memory_order_release);
  news_.notify_all();
}

GRADUS_IMPL void workers::wait_for_those_inside() {
  std::uint32_t inside = gate_.fetch_and(~open, std::memory_order_acq_rel) & ~open;
  while (inside != 0) {
    wait_while(gate_, inside);
    inside = gate_.load(std::memory_order_acquire);
  }
  failed_.store(false, std::memory_order_relaxed);
}

GRADUS_IMPL void workers::wait_while(const platform::watched_word& value, std::uint32_t old) {
  for (int looks = 0; value.load(std::memory_order_acquire) == old; ++looks) {
    if (looks >= patience) return value.wait(old, std::memory_order_acquire);
    platform::relax();
  }
}

}  // namespace gradus::cpu_kit
