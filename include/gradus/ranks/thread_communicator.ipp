#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <exception>
#include <thread>

#include "../core/floating_mode.hpp"
#include "../core/platform.hpp"
#include "../cpu/processors.hpp"
#include "describe.hpp"
#include "thread_communicator.hpp"

namespace gradus {

namespace detail {
inline constexpr index_t most_rank_threads = 64;

inline std::byte* bytes_at(void* p, std::size_t offset) { return static_cast<std::byte*>(p) + offset; }
inline const std::byte* bytes_at(const void* p, std::size_t offset) {
  return static_cast<const std::byte*>(p) + offset;
}
inline void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}
// Elements of the ranks before `rank`.
inline index_t elements_before(const std::vector<index_t>& counts, index_t rank) {
  index_t n = 0;
  for (index_t r = 0; r < rank; ++r) n += counts[r];
  return n;
}
}  // namespace detail

// ---- the meeting of ranks -------------------------------------------------------------------------------------------

GRADUS_IMPL thread_group::thread_group(index_t ranks) {
  if (ranks == 0 || ranks > detail::most_rank_threads)
    throw error("thread_group: " + std::to_string(ranks) + " ranks; there may be 1 to " +
                std::to_string(detail::most_rank_threads));
  calls_.resize(ranks);
  spins_ = static_cast<index_t>(cpu_kit::usable_processors()) >= ranks;
}

GRADUS_IMPL void thread_group::wait_for_all(bool may_fail) {
  constexpr std::uint32_t failed = 1;
  const auto check = [&](std::uint32_t phase) {
    if (!may_fail || (phase & failed) == 0) return;
    const std::lock_guard lock(mutex_);
    throw rank_failed(why_);
  };
  std::uint32_t phase = phase_.load(std::memory_order_acquire);
  check(phase);
  const std::uint32_t before = phase & ~failed;
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size()) {
    arrived_.store(0, std::memory_order_relaxed);
    // No phase begins after a failure: ranks that have thrown may have freed their buffers.
    while (!phase_.compare_exchange_weak(phase, phase + 2, std::memory_order_acq_rel, std::memory_order_acquire))
      check(phase);
    phase_.notify_all();
    return;
  }
  for (int looks = spins_ ? 0 : patience;; ++looks) {
    phase = phase_.load(std::memory_order_acquire);
    if ((phase & ~failed) != before) return;
    check(phase);
    if (looks >= patience) phase_.wait(phase, std::memory_order_acquire);
    else platform::relax();
  }
}

GRADUS_IMPL void thread_group::fail(const std::string& why) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if ((phase_.load(std::memory_order_relaxed) & 1) != 0) return;
    why_ = why;
    phase_.fetch_or(1, std::memory_order_release);
  }
  phase_.notify_all();
}

// ---- a rank ---------------------------------------------------------------------------------------------------------

GRADUS_IMPL thread_communicator::thread_communicator(thread_group& group, index_t rank, rank_reduction reduce)
    : queued_communicator(rank, group.size()), group_(&group), reduce_(reduce) {}

GRADUS_IMPL thread_communicator::~thread_communicator() {
  group_->fail("communicator: rank " + std::to_string(rank()) + " of " + std::to_string(size()) + " has ended");
  stop();
}

GRADUS_IMPL void thread_communicator::abandon(const std::string& why) noexcept {
  group_->fail("communicator: rank " + std::to_string(rank()) + " of " + std::to_string(size()) + " has ended: " + why);
}

GRADUS_IMPL void thread_communicator::run(const collective& what) {
  group_->calls_[rank()] = what;
  group_->arrive();
  const std::string wrong = disagreement(group_->calls_);  // all ranks see the same calls
  if (wrong.empty()) switch (what.kind) {
      case collective_kind::barrier:
        break;
      case collective_kind::broadcast:
        broadcast(what);
        break;
      case collective_kind::all_reduce:
        all_reduce(what);
        break;
      case collective_kind::reduce_scatter:
        reduce_scatter(what);
        break;
      case collective_kind::all_gather:
        all_gather(what);
        break;
      case collective_kind::all_to_all:
        all_to_all(what);
        break;
    }
  group_->leave();
  if (wrong.empty()) return;
  group_->fail(wrong);
  throw rank_failed(wrong);
}

GRADUS_IMPL void thread_communicator::broadcast(const collective& what) {
  const collective& root = group_->calls_[static_cast<index_t>(what.root)];
  detail::copy_bytes(what.to, root.from, what.count * size_of(what.type));
}

GRADUS_IMPL void thread_communicator::all_reduce(const collective& what) {
  constexpr index_t unit = 1024;  // elements that are not divided: ranks do not write to one cache line
  const index_t units = (what.count + unit - 1) / unit;
  const index_t begin = share_begin(units, rank(), size()) * unit;
  const index_t end = std::min(what.count, share_begin(units, rank() + 1, size()) * unit);
  std::array<void*, detail::most_rank_threads> to;
  std::array<const void*, detail::most_rank_threads> from;
  for (index_t r = 0; r < size(); ++r) {
    from[r] = group_->calls_[r].from;
    to[r] = group_->calls_[r].to;
  }
  std::swap(to[0], to[rank()]);  // its own first
  if (begin < end) reduce_(what.type, what.options.by, to.data(), size(), from.data(), size(), begin, end);
}

GRADUS_IMPL void thread_communicator::reduce_scatter(const collective& what) {
  const std::size_t first = detail::elements_before(what.counts, rank()) * size_of(what.type);
  std::array<const void*, detail::most_rank_threads> from;
  for (index_t r = 0; r < size(); ++r) from[r] = detail::bytes_at(group_->calls_[r].from, first);
  if (what.counts[rank()] > 0)
    reduce_(what.type, what.options.by, &what.to, 1, from.data(), size(), 0, what.counts[rank()]);
}

GRADUS_IMPL void thread_communicator::all_gather(const collective& what) {
  std::size_t offset = 0;
  for (index_t r = 0; r < size(); ++r) {
    const std::size_t bytes = what.counts[r] * size_of(what.type);
    detail::copy_bytes(detail::bytes_at(what.to, offset), group_->calls_[r].from, bytes);
    offset += bytes;
  }
}

GRADUS_IMPL void thread_communicator::all_to_all(const collective& what) {
  for (const collective& call : group_->calls_)
    if (call.from == call.to && call.from != nullptr) return exchange(what);
  const std::size_t element = size_of(what.type);
  std::size_t offset = 0;
  for (index_t r = 0; r < size(); ++r) {
    const collective& sender = group_->calls_[r];
    const std::size_t bytes = what.received[r] * element;
    detail::copy_bytes(detail::bytes_at(what.to, offset),
                       detail::bytes_at(sender.from, detail::elements_before(sender.counts, rank()) * element), bytes);
    offset += bytes;
  }
}

// all_to_all of equal counts, where ranks may receive in place: two ranks exchange their blocks, each one half of them.
GRADUS_IMPL void thread_communicator::exchange(const collective& what) {
  const std::size_t block = what.counts[0] * size_of(what.type);
  const collective& mine = group_->calls_[rank()];
  std::array<std::byte, 16384> kept;
  for (index_t r = 0; r < size(); ++r) {
    const collective& other = group_->calls_[r];
    const std::size_t begin = r >= rank() ? 0 : block / 2, end = r <= rank() ? block : block / 2;
    for (std::size_t i = begin; i < end; i += kept.size()) {
      const std::size_t bytes = std::min(kept.size(), end - i);
      const std::size_t here = rank() * block + i, there = r * block + i;
      std::memcpy(kept.data(), detail::bytes_at(mine.from, there), bytes);
      detail::copy_bytes(detail::bytes_at(mine.to, there), detail::bytes_at(other.from, here), bytes);
      std::memcpy(detail::bytes_at(other.to, here), kept.data(), bytes);
    }
  }
}

// ---- all ranks ------------------------------------------------------------------------------------------------------

GRADUS_IMPL void run_ranks(index_t ranks, const std::function<void(communicator<cpu>&)>& f, rank_reduction reduce) {
  thread_group group(ranks);
  std::mutex mutex;
  std::exception_ptr first, consequent;
  const auto note = [&](std::exception_ptr& where) {
    const std::lock_guard lock(mutex);
    if (!where) where = std::current_exception();
  };
  const platform::floating_mode mode;
  const auto rank_main = [&](index_t rank) {
    mode.apply();
    thread_communicator comm(group, rank, reduce);
    try {
      f(comm);
    } catch (const rank_failed& e) {
      comm.abandon(e.what());
      note(consequent);
    } catch (const std::exception& e) {
      comm.abandon(e.what());
      note(first);
    } catch (...) {
      comm.abandon("it has thrown an exception");
      note(first);
    }
  };
  std::vector<std::thread> threads;
  try {
    for (index_t r = 0; r < ranks; ++r) threads.emplace_back(rank_main, r);
  } catch (const std::exception& e) {
    group.fail("run_ranks: the thread of rank " + std::to_string(threads.size()) + " cannot start: " + e.what());
    note(first);
  }
  for (std::thread& t : threads) t.join();
  if (first) std::rethrow_exception(first);
  if (consequent) std::rethrow_exception(consequent);
}

}  // namespace gradus
