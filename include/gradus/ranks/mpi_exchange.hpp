#pragma once
// What moves bytes between the ranks of MPI, and how they wait and compare their calls.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "../core/platform.hpp"
#include "mpi_session.hpp"

namespace gradus::mpi_kit {

/// Waits for another process: polls, then yields the processor, then sleeps longer and longer, up to a millisecond.
/// Ranks that wait leave the processors to those that compute, also where there are more ranks than processors.
class backoff {
 public:
  void operator()() {
    looks_ = std::min(looks_ + 1, 400);
    if (looks_ <= 200) {
      platform::relax();
    } else if (looks_ <= 300) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(std::min(1000, 10 * (looks_ - 300))));
    }
  }

 private:
  int looks_ = 0;
};

/// Bytes of a buffer.
struct byte_range {
  index_t begin = 0, size = 0;
};

/// What a rank says of a collective before it begins. All ranks must say the same.
struct statement {
  std::array<std::uint64_t, 9> words = {};  ///< the same on all ranks
  std::uint64_t balance = 0;                ///< the sum over all ranks must be 0
  std::uint64_t largest = 0;                ///< most bytes that the rank sends to another one or receives from it

  std::uint64_t hash() const {
    std::uint64_t h = 0;
    for (const std::uint64_t word : words) h = mixed(h ^ word);
    return h;
  }
  /// A number without visible relation to n (the finalizer of MurmurHash3).
  static constexpr std::uint64_t mixed(std::uint64_t n) {
    n += 0x9e3779b97f4a7c15;
    n = (n ^ (n >> 33)) * 0xff51afd7ed558ccd;
    n = (n ^ (n >> 33)) * 0xc4ceb9fe1a85ec53;
    return n ^ (n >> 33);
  }
};

/// Moves bytes between ranks. All ranks call the same functions in the same order.
class exchange {
 public:
  /// Called for one chunk after another, which begins at byte `begin` of what each rank sends here; parts[r] is the
  /// chunk of rank r.
  using consumer = std::function<void(index_t begin, index_t bytes, const std::byte* const* parts)>;

  exchange(mpi_session& session, index_t rank, index_t size) : session_(session), rank_(rank), size_(size) {}
  exchange(const exchange&) = delete;
  exchange& operator=(const exchange&) = delete;
  virtual ~exchange() = default;

  /// Returns when all ranks have called it. If their statements agree it returns nothing, and sets mine.largest to the
  /// largest of all; otherwise it returns the statements of all ranks.
  virtual std::vector<statement> agree(statement& mine) = 0;
  /// Rank r gets from[sent[r]], and sends received[r] bytes, which are consumed in chunks of one size; the last chunk
  /// of a rank may be shorter, and later ones are empty. `largest` is the most bytes that any rank sends another one.
  /// What is sent must not change before its chunk was consumed.
  virtual void all_to_all(const std::byte* from, const std::vector<byte_range>& sent,
                          const std::vector<index_t>& received, index_t largest, const consumer& take) = 0;
  /// data[ranges[r]] of rank r goes to the same place on all ranks.
  virtual void all_gather(std::byte* data, const std::vector<byte_range>& ranges) = 0;
  /// The bytes of `root` go to all ranks.
  virtual void broadcast(std::byte* data, index_t bytes, index_t root) = 0;
  /// Sums n elements of all ranks by a function of MPI; does nothing and returns false where there is none. In place:
  /// from == to.
  virtual bool sum(element_type, const std::byte* /*from*/, std::byte* /*to*/, index_t /*n*/) { return false; }

 protected:
  /// The bytes of chunk number `c` of `bytes` bytes.
  static index_t bytes_of_chunk(index_t bytes, index_t c, index_t chunk) {
    return bytes <= c * chunk ? 0 : std::min(chunk, bytes - c * chunk);
  }
  static index_t chunks_of(index_t bytes, index_t chunk) { return (bytes + chunk - 1) / chunk; }
  /// A chunk of each of size() ranks fits into `bytes`; a multiple of 64.
  index_t chunk_within(index_t bytes) const { return std::max<index_t>(64, bytes / size_ / 64 * 64); }

  mpi_session& session_;
  index_t rank_, size_;
};

}  // namespace gradus::mpi_kit
