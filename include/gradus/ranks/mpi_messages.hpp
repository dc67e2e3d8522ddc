#pragma once
// Ranks of MPI that exchange bytes by messages.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "mpi_exchange.hpp"

namespace gradus::mpi_kit {

/// Exchanges data by messages. Large ones are cut into chunks that MPI can count, and what is reduced arrives in
/// staging memory of a fixed size, one half of it while the other is consumed.
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

}  // namespace gradus::mpi_kit
