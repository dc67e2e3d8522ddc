#pragma once
#include <algorithm>
#include <utility>

#include "queued_communicator.hpp"

namespace gradus {

GRADUS_IMPL std::uint64_t queued_communicator::start(context<cpu>&, const collective& what) {
  std::uint64_t number = 0;
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    if (!progress_.joinable()) progress_ = std::thread([this] { serve(); });
    queue_.push_back({what, {}});
    number = ++started_;
    wake = std::exchange(sleeps_, false);
  }
  if (wake) work_.notify_one();
  return number;
}

GRADUS_IMPL void queued_communicator::finish(context<cpu>&, std::uint64_t number) {
  std::unique_lock lock(mutex_);
  while (ended_ < number) {
    if (running_) done_.wait(lock);
    else run_next(lock);
  }
  if (failure_ && number >= failed_) std::rethrow_exception(failure_);
}

GRADUS_IMPL void queued_communicator::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_one();
  if (progress_.joinable()) progress_.join();
}

GRADUS_IMPL void queued_communicator::serve() {
  std::unique_lock lock(mutex_);
  std::uint64_t due = 0;  // collectives up to this number have had their time
  while (!stopping_) {
    if (!running_ && ended_ < std::min(due, started_)) {
      run_next(lock);
      due = started_;
    } else if (due != started_) {
      due = started_;
      work_.wait_for(lock, grace);
    } else {
      sleeps_ = true;
      work_.wait(lock);
    }
  }
}

GRADUS_IMPL void queued_communicator::run_next(std::unique_lock<std::mutex>& lock) {
  running_ = true;
  const entry& next = queue_.front();  // start() appends, which moves no element of a deque
  lock.unlock();
  std::exception_ptr problem;
  try {
    const platform::floating_mode_scope same(next.mode);
    run(next.what);
  } catch (...) { problem = std::current_exception(); }
  lock.lock();
  running_ = false;
  queue_.pop_front();
  ++ended_;
  if (problem) {
    failure_ = problem;
    failed_ = ended_;
    queue_.clear();
    ended_ = started_;
  }
  done_.notify_one();
  if (!queue_.empty() && std::exchange(sleeps_, false)) work_.notify_one();
}

}  // namespace gradus
