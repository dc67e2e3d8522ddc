#pragma once
// Ranks with a GPU each, over NCCL.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "../core/error.hpp"
#include "../gpu/access.hpp"
#include "../gpu/launch.hpp"
#include "../gpu/resource.hpp"
#include "../gpu/stream.hpp"
#include "../memory/buffer.hpp"
#include "communicator.hpp"
#include "cuda/tree_sum.hpp"
#include "nccl_link.hpp"

namespace gradus {

/// Settings of an nccl_communicator, the same on all ranks.
struct nccl_options {
  std::size_t staging_bytes = std::size_t{32} << 20;  ///< of memory, from the context's resource, for what arrives
};

/// A rank among ranks connected by NCCL: processes, or threads of one process, with a GPU each. Its collectives run
/// on a stream of their own, beside the context's; neither start() nor finish() waits on the host, but a barrier does.
///
/// Sums of floating-point numbers in the order of the tree, and least and greatest ones, go by ncclSend and ncclRecv of
/// shares, which the rank's own kernel reduces, and ncclAllGather: the traffic of a ring. Sums of integers, whose order
/// shows in no bit, and `fastest` ones are ncclAllReduce and ncclReduceScatter.
///
/// If a rank fails, collectives that run end within some 100 ms of NCCL's notice, with results that mean nothing, and
/// the next call throws rank_failed. Before a step is captured as a graph, wait for what runs.
class nccl_communicator final : public communicator<cuda> {
 public:
  /// Rank `rank` of `size`, on the GPU of the context. Returns when all ranks have called it. Throws error if NCCL
  /// refuses, as it does for two ranks on one GPU.
  nccl_communicator(context<cuda>& ctx, const nccl_id& id, index_t rank, index_t size, const nccl_options& o = {})
      : communicator<cuda>(rank, size),
        stream_(ctx.stream().device()),
        on_(stream_, ctx.resource()),
        part_bytes_(o.staging_bytes / size / part_alignment * part_alignment),
        staging_(on_, checked(part_bytes_) * size, category::temporary),
        link_(stream_.device(), id, rank, size) {
    device_access<cuda>::zero(on_, staging_.data(), staging_.bytes());  // a barrier adds up what is there
  }
  /// Connects the ranks of an existing host communicator, on the GPU of the context. A collective.
  nccl_communicator(context<cuda>& ctx, communicator<cpu>& ranks, context<cpu>& ctx_of_ranks,
                    const nccl_options& o = {})
      : nccl_communicator(ctx, nccl_id::shared_by(ranks, ctx_of_ranks), ranks.rank(), ranks.size(), o) {}
  /// Waits for what runs; with an exception under way, it abandons the other ranks instead.
  ~nccl_communicator() override {
    if (std::uncaught_exceptions() > exceptions_) abandon("of an exception");
    try {
      wait_on_host();
    } catch (const error&) {}
  }

  std::uint64_t start(context<cuda>& ctx, const collective& c) override {
    link_.check();
    const cuda_kit::device_guard guard(stream_.device());
    ctx.stream().record(begin_);
    stream_.wait(begin_);
    submit(c);
    stream_.record(done_[++started_ % done_.size()]);
    if (c.kind == collective_kind::barrier) wait_on_host();
    return started_;
  }
  void finish(context<cuda>& ctx, std::uint64_t number) override {
    ctx.stream().wait(done_[number % done_.size()]);  // also after a failure: the buffers may be freed next
    link_.check();
  }
  void abandon(const std::string& why) noexcept override { link_.abandon(why); }

 private:
  static constexpr std::size_t part_alignment = 256;

  static std::size_t checked(std::size_t part_bytes) {
    if (part_bytes == 0)
      throw error("nccl_communicator: staging_bytes must be " + std::to_string(part_alignment) + " or more a rank");
    return part_bytes;
  }
  static std::optional<ncclDataType_t> type_of(element_type type) {
    switch (type) {
      case element_type::f64:
        return ncclFloat64;
      case element_type::f32:
        return ncclFloat32;
      case element_type::bf16:
        return ncclBfloat16;
      case element_type::f16:
        return ncclFloat16;
      case element_type::i64:
        return ncclInt64;
      case element_type::i32:
        return ncclInt32;
      case element_type::u8:
        return ncclUint8;
      default:
        return std::nullopt;  // NCCL has none of 16 bits
    }
  }
  static ncclRedOp_t operation_of(reduce_by by) {
    return by == reduce_by::sum ? ncclSum : by == reduce_by::minimum ? ncclMin : ncclMax;
  }
  static bool all_equal(const std::vector<index_t>& counts) {
    return std::all_of(counts.begin(), counts.end(), [&](index_t n) { return n == counts[0]; });
  }
  static std::vector<index_t> begins_of(const std::vector<index_t>& counts) {
    std::vector<index_t> begins(1, 0);
    for (const index_t n : counts) begins.push_back(begins.back() + n);
    return begins;
  }
  // Whether NCCL's own reduction gives what is asked for. NCCL does not say what the least of some numbers is if one is
  // NaN.
  static bool reduces_by_library(const collective& c) {
    if (!type_of(c.type)) return false;
    return with_element_type(c.type, [&]<class T>(T) {
      return std::is_integral_v<T> || (c.options.order == sum_order::fastest && c.options.by == reduce_by::sum);
    });
  }

  void submit(const collective& c) {
    const std::size_t size = size_of(c.type);
    switch (c.kind) {
      case collective_kind::barrier:
        return submit_barrier();
      case collective_kind::broadcast:
        if (c.count == 0) return;
        return link_.group(stream_.handle(), [&](const auto& call) {
          call("ncclBroadcast", &ncclBroadcast, c.from, c.to, c.count * size, ncclUint8, c.root);
        });
      case collective_kind::all_gather:
        return gather(c.from, c.to, c.counts, size);
      case collective_kind::all_to_all:
        return c.from == c.to && c.from != nullptr
                   ? exchange_in_place(static_cast<std::byte*>(c.to), c.counts, size)
                   : exchange(static_cast<const std::byte*>(c.from), static_cast<std::byte*>(c.to), c, size);
      default:
        if (c.count == 0) return;
        return reduces_by_library(c) ? reduce_by_library(c) : reduce_in_order(c);
    }
  }
  // One element that all ranks reduce.
  void submit_barrier() {
    link_.group(stream_.handle(), [&](const auto& call) {
      call("ncclAllReduce", &ncclAllReduce, staging_.data(), staging_.data(), std::size_t{1}, ncclUint8, ncclSum);
    });
  }
  void gather(const void* from, void* to, const std::vector<index_t>& counts, std::size_t size) {
    const auto begins = begins_of(counts);
    if (begins.back() == 0) return;
    link_.group(stream_.handle(), [&](const auto& call) {
      if (all_equal(counts)) return call("ncclAllGather", &ncclAllGather, from, to, counts[0] * size, ncclUint8);
      for (index_t r = 0; r < this->size(); ++r) {
        void* const share = static_cast<std::byte*>(to) + begins[r] * size;
        if (counts[r] > 0)
          call("ncclBroadcast", &ncclBroadcast, r == rank() ? from : share, share, counts[r] * size, ncclUint8,
               static_cast<int>(r));
      }
    });
  }
  void exchange(const std::byte* from, std::byte* to, const collective& c, std::size_t size) {
    link_.group(stream_.handle(), [&](const auto& call) {
      for (index_t r = 0; r < this->size(); ++r) {
        const int peer = static_cast<int>(r);
        if (c.counts[r] > 0) call("ncclSend", &ncclSend, from, c.counts[r] * size, ncclUint8, peer);
        if (c.received[r] > 0) call("ncclRecv", &ncclRecv, to, c.received[r] * size, ncclUint8, peer);
        from += c.counts[r] * size;
        to += c.received[r] * size;
      }
    });
  }
  // By way of the staging memory, in chunks that it holds.
  void exchange_in_place(std::byte* data, const std::vector<index_t>& counts, std::size_t size) {
    const std::size_t each = counts[0] * size;
    if (!all_equal(counts)) throw error("communicator.all_to_all: in place, all counts must be equal");
    for (std::size_t done = 0; done < each; done += part_bytes_) {
      const std::size_t bytes = std::min(part_bytes_, each - done);
      link_.group(stream_.handle(), [&](const auto& call) {
        for (index_t r = 0; r < this->size(); ++r) {
          call("ncclSend", &ncclSend, data + r * each + done, bytes, ncclUint8, static_cast<int>(r));
          call("ncclRecv", &ncclRecv, part(r), bytes, ncclUint8, static_cast<int>(r));
        }
      });
      cuda_kit::check(cudaMemcpy2DAsync(data + done, each, staging_.data(), part_bytes_, bytes, this->size(),
                                        cudaMemcpyDeviceToDevice, stream_.handle()),
                      "cudaMemcpy2DAsync");
    }
  }

  void reduce_by_library(const collective& c) {
    const ncclDataType_t type = *type_of(c.type);
    const ncclRedOp_t by = operation_of(c.options.by);
    const auto begins = begins_of(c.counts);
    const std::size_t size = size_of(c.type);
    link_.group(stream_.handle(), [&](const auto& call) {
      if (c.kind == collective_kind::all_reduce)
        return call("ncclAllReduce", &ncclAllReduce, c.from, c.to, c.count, type, by);
      if (all_equal(c.counts))
        return call("ncclReduceScatter", &ncclReduceScatter, c.from, c.to, c.counts[0], type, by);
      for (index_t r = 0; r < this->size(); ++r) {
        const void* const share = static_cast<const std::byte*>(c.from) + begins[r] * size;
        if (c.counts[r] > 0) call("ncclReduce", &ncclReduce, share, c.to, c.counts[r], type, by, static_cast<int>(r));
      }
    });
  }
  void reduce_in_order(const collective& c) {
    with_element_type(c.type, [&]<class T>(T) {
      const T* const from = static_cast<const T*>(c.from);
      T* const to = static_cast<T*>(c.to);
      switch (c.options.by) {
        case reduce_by::sum:
          return reduce<cuda_kit::sum_of_two>(from, to, c);
        case reduce_by::minimum:
          return reduce<cuda_kit::smaller_of_two>(from, to, c);
        default:
          return reduce<cuda_kit::larger_of_two>(from, to, c);
      }
    });
  }
  template <class By, class T>
  void reduce(const T* from, T* to, const collective& c) {
    if (c.kind == collective_kind::reduce_scatter) return reduce_shares<By>(from, to, c.counts);
    const index_t most = elements_of_part<T>() * size();
    for (index_t done = 0; done < c.count; done += most) {
      const auto counts = shares(std::min(most, c.count - done));
      T* const share = to + done + begins_of(counts)[rank()];
      reduce_shares<By>(from + done, share, counts);
      gather(share, to + done, counts, sizeof(T));
    }
  }
  /// The rank's share of the reduction of all ranks' `from`.
  template <class By, class T>
  void reduce_shares(const T* from, T* to, const std::vector<index_t>& counts) {
    constexpr index_t width = static_cast<index_t>(cuda_kit::vector_width<T>);
    const index_t room = elements_of_part<T>(), longest = *std::max_element(counts.begin(), counts.end());
    const auto begins = begins_of(counts);
    const bool stage_own = size() > cuda_kit::part_table<T>::capacity;               // parts at equal distances
    const index_t shift = reinterpret_cast<std::uintptr_t>(to) / sizeof(T) % width;  // aligned as `to` is
    std::vector<const T*> parts(size());
    for (index_t done = 0; done < longest; done += room) {
      const auto left = [&](index_t r) { return done < counts[r] ? std::min(room, counts[r] - done) : 0; };
      const index_t mine = left(rank());
      link_.group(stream_.handle(), [&](const auto& call) {
        for (index_t r = 0; r < size(); ++r) {
          const T* const share = from + begins[r] + done;
          T* const arrived = reinterpret_cast<T*>(part(r)) + shift;
          const bool here = r == rank() && !stage_own;
          parts[r] = here ? share : arrived;
          if (here) continue;
          if (left(r) > 0) call("ncclSend", &ncclSend, share, left(r) * sizeof(T), ncclUint8, static_cast<int>(r));
          if (mine > 0) call("ncclRecv", &ncclRecv, arrived, mine * sizeof(T), ncclUint8, static_cast<int>(r));
        }
      });
      cuda_kit::reduce_parts<By>(on_, to + done, parts, mine);
    }
  }

  /// Where what comes from a rank arrives, and how many elements that are shifted to any alignment it holds.
  std::byte* part(index_t of) const { return static_cast<std::byte*>(staging_.data()) + of * part_bytes_; }
  template <class T>
  index_t elements_of_part() const {
    return (part_bytes_ - 16) / 16 * 16 / sizeof(T);
  }
  void wait_on_host() {
    while (!done_[started_ % done_.size()].done()) {
      link_.check();
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    link_.check();
  }

  cuda_stream stream_;
  context<cuda> on_;
  std::size_t part_bytes_;
  buffer<cuda> staging_;
  cuda_event begin_;
  std::array<cuda_event, 64> done_;  // of the latest collectives; one that is overwritten is done later than was asked
  std::uint64_t started_ = 0;
  int exceptions_ = std::uncaught_exceptions();
  cuda_kit::nccl_link link_;
};

}  // namespace gradus
