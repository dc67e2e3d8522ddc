#pragma once
// Ranks that are threads of one process.

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "../core/config.hpp"
#include "../core/watched_word.hpp"
#include "cpu/reduce.hpp"
#include "queued_communicator.hpp"

namespace gradus {

/// What the ranks of a process share. Outlives their thread_communicators.
class thread_group {
 public:
  /// Throws error unless there are 1 to 64 ranks.
  explicit thread_group(index_t ranks);
  thread_group(const thread_group&) = delete;
  thread_group& operator=(const thread_group&) = delete;
  index_t size() const { return calls_.size(); }

 private:
  friend class thread_communicator;
  friend void run_ranks(index_t, const std::function<void(communicator<cpu>&)>&, rank_reduction);

  // How often a rank polls before it sleeps, about 2 microseconds, where each rank has a processor: long enough
  // for a rank that comes at the same time, and short if the other one waits for this one's processor.
  static constexpr int patience = 60;

  // Waits until all ranks have arrived. Throws rank_failed if one of them never will.
  void arrive() { wait_for_all(true); }
  // arrive() between two points that each rank reaches without waiting for another. A failure is no reason to leave:
  // another rank may be using the caller's memory.
  void leave() { wait_for_all(false); }
  void wait_for_all(bool may_fail);
  // Wakes the ranks that wait in arrive(), now and later. The first reason counts.
  void fail(const std::string& why) noexcept;

  std::vector<collective> calls_;  // of each rank, between arrive() and leave()
  std::mutex mutex_;
  std::string why_;
  bool spins_ = false;                           // there is a processor for each rank
  alignas(64) platform::watched_word phase_{0};  // number of times that all have met; bit 0: a rank has failed
  alignas(64) std::atomic<std::uint32_t> arrived_{0};
};

/// A rank that is a thread. Data move directly between the ranks' buffers: each rank reduces its share of the elements
/// and writes the result to all.
///
/// A rank that ends destroys its communicator. Ranks that wait for it then, or later, throw rank_failed.
class thread_communicator final : public queued_communicator {
 public:
  /// @param reduce the kernel of the caller's build
  thread_communicator(thread_group& group, index_t rank, rank_reduction reduce = &cpu_kit::reduce_parts<>);
  ~thread_communicator() override;
  void abandon(const std::string& why) noexcept override;

 private:
  void run(const collective& what) override;
  void broadcast(const collective& what);
  void all_reduce(const collective& what);
  void reduce_scatter(const collective& what);
  void all_gather(const collective& what);
  void all_to_all(const collective& what);
  void exchange(const collective& what);

  thread_group* group_;
  rank_reduction reduce_;
};

/// Runs f(communicator) on `ranks` threads, one a rank, and returns when all have ended. Rethrows the first exception
/// of a rank; rank_failed, which follows from another rank's failure, only if no rank threw anything else. The threads
/// begin in the caller's floating-point mode.
void run_ranks(index_t ranks, const std::function<void(communicator<cpu>&)>& f,
               rank_reduction reduce = &cpu_kit::reduce_parts<>);

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "thread_communicator.ipp"
#endif
