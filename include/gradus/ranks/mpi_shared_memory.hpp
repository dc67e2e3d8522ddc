#pragma once
// Ranks of MPI on one machine that exchange bytes through memory that they share.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

#include "../core/platform.hpp"
#include "mpi_exchange.hpp"

namespace gradus::mpi_kit {

/// Through memory that the ranks share, all processes of one machine. A rank publishes a chunk by copying it into its
/// own part of that memory, from where the others read it.
class shared_memory final : public exchange {
 public:
  /// `comm` has the ranks of one machine.
  shared_memory(mpi_session& session, MPI_Comm comm, index_t rank, index_t size)
      : exchange(session, rank, size), chunk_(chunk_within(slot_bytes)), parts_(size) {
    void* begin = nullptr;
    session.call([&] {
      return MPI_Win_allocate_shared(sizeof(part) + alignof(part), 1, MPI_INFO_NULL, comm, static_cast<void*>(&begin),
                                     &window_);
    });
    for (index_t r = 0; r < size; ++r) {
      MPI_Aint bytes = 0;
      int unit = 0;
      session.call([&] {
        return MPI_Win_shared_query(window_, static_cast<int>(r), &bytes, &unit, static_cast<void*>(&begin));
      });
      // A multiple of 64 in one process is one in all: the memory begins with a page.
      std::size_t room = sizeof(part) + alignof(part);
      parts_[r] = static_cast<part*>(std::align(alignof(part), sizeof(part), begin, room));
    }
    new (parts_[rank]) part;
    session.call([&] { return MPI_Barrier(comm); });
  }
  ~shared_memory() override {
    session_.end([&] { MPI_Win_free(&window_); });
  }

  /// Whether this machine has shared memory for that many ranks. Containers have little unless they are given more, and
  /// a process that uses more than there is ends by SIGBUS.
  static bool has_room(index_t ranks) { return platform::free_shared_memory() >= 2 * ranks * sizeof(part); }

  std::vector<statement> agree(statement& mine) override {
    // What is overwritten was read: all ranks have made the next statement since.
    own().statements[agreed_ % 2] = mine;
    own().stated.store(agreed_ + 1, std::memory_order_release);
    std::uint64_t balance = 0, largest = 0;
    bool same = true;
    for (const part* p : parts_) {
      wait_until(p->stated, agreed_ + 1);
      const statement& s = p->statements[agreed_ % 2];
      same = same && s.words == mine.words;
      balance += s.balance;
      largest = std::max(largest, s.largest);
    }
    std::vector<statement> all;
    if (!same || balance != 0)
      for (const part* p : parts_) all.push_back(p->statements[agreed_ % 2]);
    mine.largest = largest;
    ++agreed_;
    return all;
  }

  void all_to_all(const std::byte* from, const std::vector<byte_range>& sent, const std::vector<index_t>& received,
                  index_t largest, const consumer& take) override {
    std::vector<const std::byte*> parts(size_);
    in_chunks(
        chunks_of(largest, chunk_),
        [&](index_t c, std::byte* slot) {
          for (index_t r = 0; r < size_; ++r)
            if (const index_t bytes = bytes_of_chunk(sent[r].size, c, chunk_); r != rank_ && bytes > 0)
              std::memcpy(slot + r * chunk_, from + sent[r].begin + c * chunk_, bytes);
        },
        [&](index_t c, index_t slot) {
          index_t most = 0;
          for (index_t r = 0; r < size_; ++r) {
            most = std::max(most, bytes_of_chunk(received[r], c, chunk_));
            parts[r] = r == rank_ ? from + sent[r].begin + c * chunk_ : parts_[r]->ring[slot] + rank_ * chunk_;
          }
          if (most > 0) take(c * chunk_, chunk_, parts.data());
        });
  }

  void all_gather(std::byte* data, const std::vector<byte_range>& ranges) override {
    index_t largest = 0;
    for (const byte_range& r : ranges) largest = std::max(largest, r.size);
    in_chunks(
        chunks_of(largest, slot_bytes),
        [&](index_t c, std::byte* slot) {
          if (const index_t bytes = bytes_of_chunk(ranges[rank_].size, c, slot_bytes); bytes > 0)
            std::memcpy(slot, data + ranges[rank_].begin + c * slot_bytes, bytes);
        },
        [&](index_t c, index_t slot) {
          for (index_t step = 1; step < size_; ++step) {
            const index_t r = (rank_ + step) % size_;
            if (const index_t bytes = bytes_of_chunk(ranges[r].size, c, slot_bytes); bytes > 0)
              std::memcpy(data + ranges[r].begin + c * slot_bytes, parts_[r]->ring[slot], bytes);
          }
        });
  }

  void broadcast(std::byte* data, index_t bytes, index_t root) override {
    std::vector<byte_range> ranges(size_);
    ranges[root] = {0, bytes};
    all_gather(data, ranges);
  }

 private:
  static constexpr index_t slot_bytes = index_t{512} << 10;  // a chunk stays in the cache
  static constexpr index_t slot_count = 8;

  // A rank's part of the shared memory. It alone writes there.
  struct part {
    alignas(64) std::atomic<std::uint64_t> stated{0};     // number of statements
    alignas(64) std::atomic<std::uint64_t> published{0};  // number of chunks
    alignas(64) std::atomic<std::uint64_t> consumed{0};   // number of chunks of all ranks
    alignas(64) statement statements[2];
    alignas(64) std::byte ring[slot_count][slot_bytes];
  };

  part& own() { return *parts_[rank_]; }

  // Fills slots and reads the other ranks' slots, a chunk after another. A rank that would wait for others to publish
  // writes ahead, as far as there are slots: where processors are busy, a wait costs a time slice of the scheduler.
  template <class Write, class Read>
  void in_chunks(index_t chunks, const Write& write, const Read& read) {
    index_t written = 0;
    const auto may_write = [&] {
      const std::uint64_t number = done_ + written;
      return written < chunks && (number < slot_count || all_reach(&part::consumed, number + 1 - slot_count));
    };
    const auto publish = [&] {
      const std::uint64_t number = done_ + written++;
      write(written - 1, own().ring[number % slot_count]);
      own().published.store(number + 1, std::memory_order_release);
    };
    for (index_t c = 0; c < chunks; ++c) {
      const std::uint64_t number = done_ + c;
      for (backoff wait; written <= c || !all_reach(&part::published, number + 1);) {
        if (may_write()) publish();
        else wait();
      }
      if (written == c + 1 && may_write()) publish();  // the others read it while this rank reads theirs
      read(c, number % slot_count);
      own().consumed.store(number + 1, std::memory_order_release);
    }
    done_ += chunks;
  }
  bool all_reach(std::atomic<std::uint64_t> part::*count, std::uint64_t least) const {
    return std::all_of(parts_.begin(), parts_.end(),
                       [&](const part* p) { return (p->*count).load(std::memory_order_acquire) >= least; });
  }
  static void wait_until(const std::atomic<std::uint64_t>& value, std::uint64_t least) {
    for (backoff wait; value.load(std::memory_order_acquire) < least;) wait();
  }

  index_t chunk_;
  std::vector<part*> parts_;
  MPI_Win window_ = MPI_WIN_NULL;
  std::uint64_t agreed_ = 0, done_ = 0;
};

}  // namespace gradus::mpi_kit
