#pragma once
// How the ranks of MPI exchange bytes: by messages, or through memory that the processes of one machine share.

#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "mpi_session.hpp"

namespace gradus::mpi_kit {

/// Waits for another process: polls, then yields the processor, then sleeps longer and longer, up to a millisecond.
/// Ranks that wait leave the processors to those that compute, also where there are more ranks than processors.
class backoff {
 public:
  void operator()() {
    looks_ = std::min(looks_ + 1, 400);
    if (looks_ <= 200) {
#if defined(__x86_64__) || defined(__i386__)
      __builtin_ia32_pause();
#endif
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
  std::array<std::uint64_t, 8> words = {};  ///< the same on all ranks
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

/// By messages. Large ones are cut into chunks that MPI can count, and what is reduced arrives in staging memory of a
/// fixed size, one half of it while the other is consumed.
class messages final : public exchange {
 public:
  messages(mpi_session& session, MPI_Comm comm, index_t rank, index_t size)
      : exchange(session, rank, size), comm_(comm), chunk_(chunk_within(stage_bytes)) {
    for (auto& stage : stages_) stage = std::make_unique_for_overwrite<std::byte[]>(size * chunk_ + 64);
  }

  std::vector<statement> agree(statement& mine) override {
    const std::uint64_t hash = mine.hash();
    const std::array<std::uint64_t, 2> own = {hash, mine.balance};
    std::array<std::uint64_t, 2> sums = {};
    wait_for(
        [&](MPI_Request* r) { return MPI_Iallreduce(own.data(), sums.data(), 2, MPI_UINT64_T, MPI_SUM, comm_, r); });
    // Every rank compares: hashes that differ do so from the mean on all of them.
    if (sums[0] == hash * size_ && sums[1] == 0) return {};
    std::vector<statement> all(size_);
    wait_for([&](MPI_Request* r) {
      return MPI_Iallgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, comm_, r);
    });
    return all;
  }

  void all_to_all(const std::byte* from, const std::vector<byte_range>& sent, const std::vector<index_t>& received,
                  index_t, const consumer& take) override {
    index_t most = 0;
    for (index_t r = 0; r < size_; ++r) most = std::max({most, sent[r].size, received[r]});
    const index_t chunks = chunks_of(most, chunk_);
    std::vector<const std::byte*> parts(size_);
    const auto post = [&](index_t c) {
      for (index_t step = 1; step < size_; ++step) {
        const index_t to = (rank_ + step) % size_, source = (rank_ + size_ - step) % size_;
        receive(stage(c) + source * chunk_, bytes_of_chunk(received[source], c, chunk_), source, requests_[c % 2]);
        send(from + sent[to].begin + c * chunk_, bytes_of_chunk(sent[to].size, c, chunk_), to, requests_[c % 2]);
      }
    };
    if (chunks > 0) post(0);
    for (index_t c = 0; c < chunks; ++c) {
      if (c + 1 < chunks) post(c + 1);
      wait_for(requests_[c % 2]);
      for (index_t r = 0; r < size_; ++r)
        parts[r] = r == rank_ ? from + sent[r].begin + c * chunk_ : stage(c) + r * chunk_;
      take(c * chunk_, chunk_, parts.data());
    }
  }

  void all_gather(std::byte* data, const std::vector<byte_range>& ranges) override {
    for (index_t step = 1; step < size_; ++step) {
      const index_t to = (rank_ + step) % size_, source = (rank_ + size_ - step) % size_;
      in_messages(ranges[source], [&](byte_range m) { receive(data + m.begin, m.size, source, requests_[0]); });
      in_messages(ranges[rank_], [&](byte_range m) { send(data + m.begin, m.size, to, requests_[0]); });
    }
    wait_for(requests_[0]);
  }

  void broadcast(std::byte* data, index_t bytes, index_t root) override {
    in_messages({0, bytes}, [&](byte_range m) {
      wait_for([&](MPI_Request* r) {
        return MPI_Ibcast(data + m.begin, static_cast<int>(m.size), MPI_BYTE, static_cast<int>(root), comm_, r);
      });
    });
  }

  bool sum(element_type type, const std::byte* from, std::byte* to, index_t n) override {
    const MPI_Datatype of_mpi = type_of_mpi(type);
    if (of_mpi == MPI_DATATYPE_NULL) return false;
    const index_t most = message_bytes / sizeof(double);
    for (index_t done = 0; done < n; done += most) {
      const index_t offset = done * size_of(type);
      wait_for([&](MPI_Request* r) {
        return MPI_Iallreduce(from == to ? MPI_IN_PLACE : from + offset, to + offset,
                              static_cast<int>(std::min(most, n - done)), of_mpi, MPI_SUM, comm_, r);
      });
    }
    return true;
  }

 private:
  static constexpr index_t stage_bytes = index_t{4} << 20;
  static constexpr index_t message_bytes = index_t{1} << 30;

  // Integers are unsigned: their sums wrap around. Of 8 and 16 bits they do not in Open MPI 4.1, whose AVX instructions
  // saturate.
  static MPI_Datatype type_of_mpi(element_type type) {
    switch (type) {
      case element_type::f64:
        return MPI_DOUBLE;
      case element_type::f32:
        return MPI_FLOAT;
      case element_type::i64:
        return MPI_UINT64_T;
      case element_type::i32:
        return MPI_UINT32_T;
      default:
        return MPI_DATATYPE_NULL;
    }
  }
  // Starts what start(&request) starts, and waits for it.
  template <class F>
  void wait_for(const F& start) {
    std::vector<MPI_Request> one(1, MPI_REQUEST_NULL);
    session_.call([&] { return start(one.data()); });
    wait_for(one);
  }

  std::byte* stage(index_t c) const {
    const auto address = reinterpret_cast<std::uintptr_t>(stages_[c % 2].get());
    return stages_[c % 2].get() + (64 - address % 64) % 64;
  }
  template <class F>
  static void in_messages(byte_range all, const F& f) {
    for (index_t done = 0; done < all.size; done += message_bytes)
      f(byte_range{all.begin + done, std::min(message_bytes, all.size - done)});
  }
  void send(const std::byte* data, index_t bytes, index_t to, std::vector<MPI_Request>& requests) {
    if (bytes == 0) return;
    requests.push_back(MPI_REQUEST_NULL);
    session_.call([&] {
      return MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, static_cast<int>(to), 0, comm_, &requests.back());
    });
  }
  void receive(std::byte* data, index_t bytes, index_t source, std::vector<MPI_Request>& requests) {
    if (bytes == 0) return;
    requests.push_back(MPI_REQUEST_NULL);
    session_.call([&] {
      return MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, static_cast<int>(source), 0, comm_, &requests.back());
    });
  }
  void wait_for(std::vector<MPI_Request>& requests) {
    int done = 0;
    for (backoff wait;; wait()) {
      session_.call(
          [&] { return MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE); });
      if (done != 0) break;
    }
    requests.clear();
  }

  MPI_Comm comm_;
  index_t chunk_;
  std::array<std::unique_ptr<std::byte[]>, 2> stages_;
  std::array<std::vector<MPI_Request>, 2> requests_;
};

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
  static bool has_room(index_t ranks) {
    struct statvfs shared;
    if (statvfs("/dev/shm", &shared) != 0) return true;  // MPI has it elsewhere
    return shared.f_bavail * shared.f_frsize >= 2 * ranks * sizeof(part);
  }

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
            parts[r] = r == rank_ ? from + sent[r].begin + c * chunk_ : parts_[r]->slots[slot] + rank_ * chunk_;
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
              std::memcpy(data + ranges[r].begin + c * slot_bytes, parts_[r]->slots[slot], bytes);
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
    alignas(64) std::byte slots[slot_count][slot_bytes];
  };

  part& own() { return *parts_[rank_]; }

  // Fills slots and reads those of the other ranks, a chunk after another. A rank that would wait for others to publish
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
      write(written - 1, own().slots[number % slot_count]);
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
