#pragma once
// A communicator of the processes of an MPI job.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "cpu/reduce.hpp"
#include "describe.hpp"
#include "mpi_exchange.hpp"
#include "mpi_messages.hpp"
#include "mpi_session.hpp"
#include "mpi_shared_memory.hpp"
#include "queued_communicator.hpp"

namespace gradus {

/// How mpi_communicator exchanges data.
struct mpi_options {
  /// Through memory that the ranks share, if all are on one machine and it has room; otherwise by messages.
  bool shared_memory = true;
};

/// The ranks are the processes of an MPI job, which mpirun or srun starts. All ranks construct, use and destroy it
/// together.
///
/// A sum by the tree has the traffic of a ring: each rank sums its share of the elements and sends the sums to the
/// others. With sum_order::fastest MPI sums what is sent by messages and of a type that MPI has; other sums are by the
/// tree, too. Scratch memory is of a fixed size, at most 9 MiB a rank.
///
/// Before each collective the ranks compare what they call; if that differs, all of them throw rank_failed. If a rank's
/// process ends, mpirun or srun ends the others. If an exception destroys the communicator, the rank ends all. Errors
/// that MPI reports are thrown as rank_failed.
class mpi_communicator final : public queued_communicator {
 public:
  /// @param reduce the kernel of the caller's build
  explicit mpi_communicator(mpi_session& session, const mpi_options& o = {},
                            rank_reduction reduce = &cpu_kit::reduce_parts<>)
      : queued_communicator(session.rank(), session.size()), session_(session), comm_(session), reduce_(reduce) {
    int shared = o.shared_memory && session.node_size() == size() && mpi_kit::shared_memory::has_room(size()) ? 1 : 0;
    session.call([&] { return MPI_Bcast(&shared, 1, MPI_INT, 0, comm_.handle); });  // what rank 0 finds
    if (shared != 0) exchange_ = std::make_unique<mpi_kit::shared_memory>(session, comm_.handle, rank(), size());
    else exchange_ = std::make_unique<mpi_kit::messages>(session, comm_.handle, rank(), size());
  }
  ~mpi_communicator() override {
    if (!disagreed_ && std::uncaught_exceptions() > exceptions_) abandon("ended by an exception");
    stop();
    if (disagreed_) return;  // all ranks know
    if (!failure_.empty()) abandon(failure_);
    try {
      agree({}, end_of_rank);  // a rank that goes on to call something fails
    } catch (const error&) {}
  }

  /// Prints "rank R: why" on stderr and ends the processes of all ranks.
  [[noreturn]] void abandon(const std::string& why) noexcept override { session_.abandon(why); }

 protected:
  void run(const collective& c) override {
    try {
      agree(c, static_cast<std::uint64_t>(c.kind));
      run_agreed(c);
    } catch (const std::exception& e) {
      failure_ = e.what();
      throw;
    }
  }

 private:
  using range = mpi_kit::byte_range;

  static constexpr std::uint64_t end_of_rank = 255;  // in place of a kind
  // Of fewer bytes, every rank sums all elements, which takes one exchange in place of two.
  static constexpr index_t few_bytes = 4096;

  // A communicator of MPI, whose errors are reported to the caller.
  struct own_comm {
    explicit own_comm(mpi_session& session) : of(session) {
      session.call([&] { return MPI_Comm_dup(MPI_COMM_WORLD, &handle); });
      session.call([&] { return MPI_Comm_set_errhandler(handle, MPI_ERRORS_RETURN); });
    }
    own_comm(const own_comm&) = delete;
    own_comm& operator=(const own_comm&) = delete;
    ~own_comm() {
      of.end([&] { MPI_Comm_free(&handle); });
    }
    mpi_session& of;
    MPI_Comm handle = MPI_COMM_NULL;
  };

  // ---- agreement ----

  void agree(const collective& c, std::uint64_t kind) {
    using mpi_kit::statement;
    statement mine;
    const bool each_its_own = c.kind == collective_kind::all_to_all;  // counts
    std::uint64_t counts = 0;
    for (index_t r = 0; each_its_own && r < size(); ++r) {
      mine.balance += of_pair(rank(), r, c.counts[r]) - of_pair(r, rank(), c.received[r]);
      mine.largest = std::max({mine.largest, bytes(c, c.counts[r]), bytes(c, c.received[r])});
    }
    for (index_t r = 0; !each_its_own && r < c.counts.size(); ++r) counts = statement::mixed(counts ^ c.counts[r]);
    mine.words = {++number_,
                  kind,
                  static_cast<std::uint64_t>(c.type),
                  static_cast<std::uint64_t>(c.options.by),
                  static_cast<std::uint64_t>(c.options.order),
                  static_cast<std::uint64_t>(c.root),
                  each_its_own ? 0 : c.count,
                  counts,
                  c.tag};
    const std::vector<statement> all = exchange_->agree(mine);
    largest_ = mine.largest;
    if (all.empty()) return;
    disagreed_ = true;
    throw rank_failed(disagreement(all));
  }
  std::uint64_t of_pair(index_t from, index_t to, index_t count) const {
    return mpi_kit::statement::mixed(mpi_kit::statement::mixed(from * size() + to) ^ count);
  }
  // The first rank whose statement most others do not share, and what it and another one call.
  static std::string disagreement(const std::vector<mpi_kit::statement>& all) {
    const auto agreeing = [&](index_t r) {
      return std::count_if(all.begin(), all.end(), [&](const auto& s) { return s.words == all[r].words; });
    };
    index_t odd = 0, usual = 0;
    for (index_t r = 1; r < all.size(); ++r) {
      if (agreeing(r) > agreeing(usual)) usual = r;
      if (agreeing(r) <= agreeing(odd)) odd = r;
    }
    if (all[odd].words == all[usual].words)
      return "all_to_all: what a rank sends is not what another one expects to receive";
    return "rank " + std::to_string(odd) + " calls " + text_of(all[odd]) + ", but rank " + std::to_string(usual) +
           " calls " + text_of(all[usual]);
  }
  static std::string text_of(const mpi_kit::statement& s) {
    if (s.words[1] == end_of_rank) return "nothing more";
    collective c;
    c.kind = static_cast<collective_kind>(s.words[1]);
    c.type = static_cast<element_type>(s.words[2]);
    c.options = {static_cast<reduce_by>(s.words[3]), static_cast<sum_order>(s.words[4])};
    c.root = static_cast<int>(s.words[5]);
    c.count = s.words[6];
    c.tag = s.words[8];
    return describe(c) + " as collective number " + std::to_string(s.words[0]);
  }

  // ---- the collectives ----

  void run_agreed(const collective& c) {
    const auto from = static_cast<const std::byte*>(c.from);
    const auto to = static_cast<std::byte*>(c.to);
    switch (c.kind) {
      case collective_kind::barrier:
        return;
      case collective_kind::broadcast:
        return exchange_->broadcast(to, bytes(c, c.count), static_cast<index_t>(c.root));
      case collective_kind::all_reduce:
        return run_all_reduce(c, from, to);
      case collective_kind::reduce_scatter:
        return reduce_ranges(c, from, to, ranges_of(c, c.counts));
      case collective_kind::all_gather: {
        const auto ranges = ranges_of(c, c.counts);
        put(to + ranges[rank()].begin, from, ranges[rank()].size);
        return exchange_->all_gather(to, ranges);
      }
      case collective_kind::all_to_all:
        return run_all_to_all(c, from, to);
    }
  }

  void run_all_reduce(const collective& c, const std::byte* from, std::byte* to) {
    const bool may_be_any = c.options.order == sum_order::fastest && c.options.by == reduce_by::sum;
    if (may_be_any && exchange_->sum(c.type, from, to, c.count)) return;
    const range all{0, bytes(c, c.count)};
    if (all.size <= few_bytes) return reduce_ranges(c, from, to, std::vector(size(), all));
    std::vector<index_t> counts(size());
    for (index_t r = 0; r < size(); ++r)
      counts[r] = share_begin(c.count, r + 1, size()) - share_begin(c.count, r, size());
    const std::vector<range> shares = ranges_of(c, counts);
    reduce_ranges(c, from, to + shares[rank()].begin, shares);
    exchange_->all_gather(to, shares);
  }

  // Reduces this rank's range of all ranks' elements.
  void reduce_ranges(const collective& c, const std::byte* from, std::byte* to, const std::vector<range>& ranges) {
    index_t largest = 0;
    for (const range& r : ranges) largest = std::max(largest, r.size);
    const index_t own = ranges[rank()].size;
    const std::vector<index_t> received(size(), own);
    exchange_->all_to_all(from, ranges, received, largest,
                          [&](index_t begin, index_t chunk, const std::byte* const* parts) {
                            if (begin >= own) return;
                            std::vector<const void*> of_ranks(parts, parts + size());
                            void* const sums = to + begin;
                            reduce_(c.type, c.options.by, &sums, 1, of_ranks.data(), size(), 0,
                                    std::min(chunk, own - begin) / size_of(c.type));
                          });
  }

  void run_all_to_all(const collective& c, const std::byte* from, std::byte* to) {
    const std::vector<range> sent = ranges_of(c, c.counts), received = ranges_of(c, c.received);
    std::vector<index_t> sizes;
    for (const range& r : received) sizes.push_back(r.size);
    exchange_->all_to_all(from, sent, sizes, largest_,
                          [&](index_t begin, index_t chunk, const std::byte* const* parts) {
                            for (index_t r = 0; r < size(); ++r)
                              if (begin < sizes[r])
                                put(to + received[r].begin + begin, parts[r], std::min(chunk, sizes[r] - begin));
                          });
  }

  static index_t bytes(const collective& c, index_t count) { return count * size_of(c.type); }
  static std::vector<range> ranges_of(const collective& c, const std::vector<index_t>& counts) {
    std::vector<range> all;
    index_t end = 0;
    for (const index_t n : counts) {
      all.push_back({end, bytes(c, n)});
      end += bytes(c, n);
    }
    return all;
  }
  static void put(std::byte* to, const std::byte* from, index_t n) {
    if (n > 0 && to != from) std::memmove(to, from, n);
  }

  mpi_session& session_;
  own_comm comm_;
  rank_reduction reduce_;
  std::unique_ptr<mpi_kit::exchange> exchange_;
  std::uint64_t number_ = 0;            // of the last collective
  index_t largest_ = 0;                 // bytes, of the current all_to_all
  std::atomic<bool> disagreed_{false};  // and all ranks have learned it
  std::string failure_;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace gradus
