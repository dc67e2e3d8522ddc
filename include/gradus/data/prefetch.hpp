#pragma once
#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "../core/error.hpp"

namespace gradus {

/// How a prefetcher works.
struct prefetch_options {
  std::uint64_t first = 0;  ///< number of the first batch; a resumed run begins where it was
  std::size_t workers = 1;  ///< threads; 0: each batch is made by the reader, when it is asked for
  std::size_t ahead = 2;    ///< most batches that are made, or being made, before they are asked for; 1 at least
};

/// Makes batches on threads of its own while the reader does other things. Batch number k is what `make(k)` returns,
/// whichever thread made it, so the reader gets the same batches in the same order with any number of workers.
///
/// `make` is called by several threads at once, where there are several workers, and must be a function of its
/// argument, as token_windows::shuffled_batch is; what it refers to must outlive the prefetcher. A thread that the
/// system refuses is done without.
/// @tparam Make std::uint64_t -> batch, callable as const
template <class Make>
class prefetcher {
 public:
  using batch_type = std::invoke_result_t<const Make&, std::uint64_t>;

  /// Throws gradus::error for `ahead` of 0.
  explicit prefetcher(Make make, const prefetch_options& o = {})
      : make_(std::move(make)), slots_(o.ahead), next_(o.first), claimed_(o.first) {
    if (o.ahead == 0) throw error("prefetcher: ahead is 0; it must be 1 or more");
    threads_.reserve(std::min(o.workers, o.ahead));  // more could never work at once
    try {
      while (threads_.size() < threads_.capacity()) threads_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {}
  }
  prefetcher(const prefetcher&) = delete;
  prefetcher& operator=(const prefetcher&) = delete;
  /// Waits for the batches that are being made, and drops those that were not read.
  ~prefetcher() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    room_.notify_all();
    for (std::thread& t : threads_) t.join();
  }

  /// The next batch, in the order of numbers; waits until it is made. What `make` threw for it is thrown here, and
  /// again by every further call: no batch is left out. One thread at a time may call this.
  batch_type next() {
    if (threads_.empty()) {
      batch_type batch = make_(next_);
      ++next_;
      return batch;
    }
    std::unique_lock lock(mutex_);
    slot& from = slots_[next_ % slots_.size()];
    made_.wait(lock, [&] { return from.batch || from.problem; });
    if (from.problem) std::rethrow_exception(from.problem);
    batch_type batch = std::move(*from.batch);
    from.batch.reset();
    ++next_;
    lock.unlock();
    room_.notify_one();
    return batch;
  }
  /// Number of the batch that next() gives: what a run has to know to be resumed.
  std::uint64_t position() const { return next_; }  // the reader alone changes it
  /// Threads that make batches.
  std::size_t workers() const { return threads_.size(); }

 private:
  struct slot {  // of batch k: slots_[k % size]
    std::optional<batch_type> batch;
    std::exception_ptr problem;
  };

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      room_.wait(lock, [&] { return ended_ || claimed_ - next_ < slots_.size(); });
      if (ended_) return;
      const std::uint64_t number = claimed_++;
      lock.unlock();
      slot made;
      try {
        made.batch.emplace(make_(number));
      } catch (...) { made.problem = std::current_exception(); }
      lock.lock();
      slots_[number % slots_.size()] = std::move(made);
      if (number == next_) made_.notify_one();
    }
  }

  const Make make_;
  std::vector<slot> slots_;
  std::uint64_t next_;     // that the reader gets
  std::uint64_t claimed_;  // that a worker makes
  bool ended_ = false;
  std::mutex mutex_;
  std::condition_variable room_, made_;
  std::vector<std::thread> threads_;
};

}  // namespace gradus
