#pragma once
// Computes batches ahead of their use, on other threads.

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
#include "../core/floating_mode.hpp"

namespace gradus {

/// Options of a prefetcher.
struct prefetch_options {
  std::uint64_t first = 0;  ///< number of the first batch; for a resumed run, the next one
  std::size_t workers = 1;  ///< threads; 0: next() computes each batch itself
  std::size_t ahead = 2;    ///< the most batches computed, or being computed, before next(); 1 or more
};

/// Computes batches on its own threads. Batch number k is `make(k)`, in order, for any number of workers.
///
/// Several workers call `make` concurrently: it must be a pure function of its argument, like
/// token_windows::shuffled_batch; what it refers to must outlive the prefetcher. Works with fewer threads if the system
/// creates no more. `make` runs in the floating-point mode in which the prefetcher was constructed.
/// @tparam Make std::uint64_t -> batch, callable as const
template <class Make>
class prefetcher {
 public:
  using batch_type = std::invoke_result_t<const Make&, std::uint64_t>;

  /// Throws gradus::error if `ahead` is 0.
  explicit prefetcher(Make make, const prefetch_options& o = {})
      : make_(std::move(make)), slots_(o.ahead), next_(o.first), claimed_(o.first) {
    if (o.ahead == 0) throw error("prefetcher: ahead is 0; it must be 1 or more");
    threads_.reserve(std::min(o.workers, o.ahead));  // more could never work concurrently
    try {
      while (threads_.size() < threads_.capacity()) threads_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {}
  }
  prefetcher(const prefetcher&) = delete;
  prefetcher& operator=(const prefetcher&) = delete;
  /// Waits for the batches in progress, and drops those not read.
  ~prefetcher() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    room_.notify_all();
    for (std::thread& t : threads_) t.join();
  }

  /// The next batch, by number; waits until it is computed. Rethrows the exception of its `make`, also in later calls.
  batch_type next() {
    if (threads_.empty()) {
      const platform::floating_mode_scope same(mode_);
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
  /// Number of the batch that next() returns; a run saves it to resume.
  std::uint64_t position() const { return next_; }  // changed only by the reader
  /// Threads that compute batches.
  std::size_t workers() const { return threads_.size(); }

 private:
  struct slot {  // batch k is in slots_[k % size]
    std::optional<batch_type> batch;
    std::exception_ptr problem;
  };

  void work() {
    mode_.apply();
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
  const platform::floating_mode mode_;
  std::vector<slot> slots_;
  std::uint64_t next_;     // next batch of the reader
  std::uint64_t claimed_;  // next batch of a worker
  bool ended_ = false;
  std::mutex mutex_;
  std::condition_variable room_, made_;
  std::vector<std::thread> threads_;
};

}  // namespace gradus
