#pragma once
// The ranks that train one model together, as one of them sees them: threads of a process, or one alone. Processes of
// an MPI job are in mpi_team.hpp.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "../cpu/access.hpp"
#include "../cpu/processors.hpp"
#include "../cpu/workers.hpp"
#include "../io/config_file.hpp"
#include "../memory/context.hpp"
#include "../memory/host_resource.hpp"
#include "../ranks/communicator.hpp"
#include "../ranks/thread_communicator.hpp"
#include "program.hpp"

namespace gradus {

/// Ends a rank where rank 0 has failed, and says why.
struct leader_failed {};

/// The ranks of a run, as one of them sees them. Rank 0 leads: files, log and screen are its own. All functions but the
/// first eight are collectives: every rank calls them in the same order.
class team {
 public:
  /// A rank alone.
  team() : team(alone_, 0, 1) {}
  /// @param host    exchanges what the host knows; must outlive this
  /// @param on_node the rank's number on its machine, of `ranks_on_node`
  /// @param process_per_rank whether ranks are processes rather than threads of one
  team(communicator<cpu>& host, index_t on_node, index_t ranks_on_node, bool process_per_rank = false)
      : host_(host),
        on_node_(static_cast<int>(on_node)),
        ranks_on_node_(static_cast<int>(ranks_on_node)),
        process_per_rank_(process_per_rank) {}
  team(const team&) = delete;
  team& operator=(const team&) = delete;

  int rank() const { return static_cast<int>(host_.rank()); }
  int size() const { return static_cast<int>(host_.size()); }
  bool leads() const { return host_.rank() == 0; }
  /// Of several ranks in one process, one takes its signals.
  bool is_first_of_process() const { return process_per_rank_ || leads(); }
  /// The rank's number among the ranks of its machine.
  int on_node() const { return on_node_; }
  /// Threads of a rank whose number was not given (0): ranks divide the machine's.
  int threads_of_rank(int given) const {
    if (given > 0 || ranks_on_node_ == 1) return given;
    if (!process_per_rank_) return std::max(cpu_kit::default_thread_count() / ranks_on_node_, 1);
    if (std::getenv("OMP_NUM_THREADS") != nullptr) return given;  // of each process
    return cpu_kit::processors_of_each(ranks_on_node_);
  }
  communicator<cpu>& host() const { return host_; }
  context<cpu>& host_context() { return ctx_; }

  /// Rank 0's value, on every rank.
  template <class T>
  T from_leader(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (size() > 1) host_.broadcast(ctx_, reinterpret_cast<std::uint8_t*>(&value), sizeof value).wait();
    return value;
  }
  std::string from_leader(std::string text) { return text_of(0, std::move(text)); }
  /// Ends the run unless all ranks have the entries of rank 0: rank 0 throws bad_flag, which names what differs.
  void check_same(const config_entries& own) {
    const std::string text = config_text(own), first = from_leader(text);
    const std::vector<double> differ = gather(text == first ? 0 : 1);
    const auto odd = std::find(differ.begin(), differ.end(), 1);
    if (odd == differ.end()) return;
    const auto other_rank = static_cast<index_t>(odd - differ.begin());
    const std::string theirs = text_of(other_rank, text);
    if (!leads()) throw leader_failed{};
    const auto [mine, other] = std::mismatch(text.begin(), text.end(), theirs.begin(), theirs.end());
    const auto line = [](const std::string& of, std::string::const_iterator at) {
      const auto begin = std::find(std::make_reverse_iterator(at), of.rend(), '\n').base();
      return std::string(begin, std::find(at, of.end(), '\n'));
    };
    throw bad_flag("the ranks were started differently: rank " + std::to_string(other_rank) + " has '" +
                   line(theirs, other) + "', and rank 0 has '" + line(text, mine) + "'");
  }
  /// Calls f() on rank 0. If that throws gradus::error, the others end, too, by leader_failed.
  template <class F>
  void on_leader(const F& f) {
    std::exception_ptr problem;
    if (leads()) try {
        f();
      } catch (const error&) { problem = std::current_exception(); }
    if (!from_leader(problem != nullptr)) return;
    if (problem) std::rethrow_exception(problem);
    throw leader_failed{};
  }
  /// Rank 0 calls lead(), which calls begin_round() any number of times; the others call join() after each. What join()
  /// throws, rank 0 has thrown as well. Returns what lead() returns; on the others an empty text.
  template <class Lead, class Join>
  std::string rounds(const Lead& lead, Join join) {
    if (leads()) {
      std::string result = lead();
      end_rounds();
      return result;
    }
    while (joins_round()) try {
        join();
      } catch (const rank_failed&) { throw; } catch (const error&) {
      }
    return {};
  }
  void begin_round() { from_leader(true); }
  void end_rounds() { from_leader(false); }
  bool joins_round() { return from_leader(false); }

  /// Rank 0's clock, and whether any rank was asked to end.
  struct moment {
    double elapsed = 0;
    bool stop = false;
  };
  moment agree(double elapsed, bool stop) {
    std::array<double, 2> both{leads() ? elapsed : 0, stop ? 1.0 : 0.0};
    if (size() > 1) host_.all_reduce(ctx_, both.data(), both.data(), both.size(), {reduce_by::maximum}).wait();
    return {both[0], both[1] != 0};
  }
  /// A number of every rank, in their order.
  std::vector<double> gather(double own) {
    std::vector<double> all(host_.size(), own);
    if (size() > 1) host_.all_gather(ctx_, &own, all.data(), std::vector<index_t>(host_.size(), 1)).wait();
    return all;
  }

 private:
  // The text of one rank, on every rank.
  std::string text_of(index_t rank, std::string text) {
    if (size() == 1) return text;
    auto bytes = static_cast<std::int64_t>(text.size());
    host_.broadcast(ctx_, &bytes, 1, rank).wait();
    text.resize(static_cast<std::size_t>(bytes));
    host_.broadcast(ctx_, reinterpret_cast<std::uint8_t*>(text.data()), text.size(), rank).wait();
    return text;
  }

  stream stream_;
  host_resource heap_;
  context<cpu> ctx_{stream_, heap_};
  single_communicator<cpu> alone_;
  communicator<cpu>& host_;
  int on_node_, ranks_on_node_;
  bool process_per_rank_;
};

namespace detail {

// f(team) on one rank. An exception ends the other ranks as well.
template <class F>
void call_rank(team& ranks, const F& f) {
  try {
    f(ranks);
  } catch (const bad_flag&) { throw; } catch (const leader_failed&) {
    throw;
  } catch (const std::exception& e) {
    ranks.host().abandon(e.what());
    throw;
  }
}

}  // namespace detail

/// Calls f(team&) on each of `count` ranks, threads of this process, and waits for all. Throws what the first rank
/// throws, and bad_flag for more than 64.
template <class F>
void on_ranks(int count, const F& f) {
  check_flag(count <= 64, "--ranks", "at most 64: they are threads of this process", count);
  if (count <= 1) {
    team alone;
    return detail::call_rank(alone, f);
  }
  run_ranks(static_cast<index_t>(count), [&](communicator<cpu>& host) {
    team ranks(host, host.rank(), host.size());
    try {
      detail::call_rank(ranks, f);
    } catch (const leader_failed&) {}
  });
}

}  // namespace gradus
