#pragma once
// The ranks that train one model: processes that mpirun started, threads of this one, or one alone.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradus/cpu/processors.hpp>
#include <gradus/cpu/workers.hpp>
#include <gradus/ranks/communicator.hpp>
#include <gradus/ranks/thread_communicator.hpp>
#ifdef GPT_MPI
#include <gradus/ranks/mpi_communicator.hpp>
#endif
#ifdef GPT_NCCL
#include <gradus/ranks/nccl_communicator.hpp>
#endif

#include <gradus/io/config_file.hpp>
#include <gradus/run/program.hpp>

#include "config.hpp"

namespace gpt {

#ifdef GPT_MPI
inline constexpr bool process_per_rank = true;
#else
inline constexpr bool process_per_rank = false;
#endif

/// The run ends, and rank 0 says why.
struct leader_failed {};

/// The ranks of a run, as one of them sees them. Rank 0 leads: files, log and screen are its own.
class rank_team {
 public:
  /// @param host    exchanges what the host knows; on the CPU, gradients and parameters as well
  /// @param on_node the rank's number on its machine, of `ranks_on_node`
  rank_team(gr::communicator<gr::cpu>& host, gr::index_t on_node, gr::index_t ranks_on_node)
      : host_(host), on_node_(static_cast<int>(on_node)), ranks_on_node_(static_cast<int>(ranks_on_node)) {}
  rank_team(const rank_team&) = delete;
  rank_team& operator=(const rank_team&) = delete;

  int rank() const { return static_cast<int>(host_.rank()); }
  int size() const { return static_cast<int>(host_.size()); }
  bool leads() const { return host_.rank() == 0; }
  /// Of several ranks in one process, one takes its signals.
  bool is_first_of_process() const { return process_per_rank || leads(); }
  /// The GPU of this rank, if there are several ranks, each with one.
  int gpu() const { return on_node_; }
  /// Threads of a rank whose number was not given (0): ranks divide the machine's.
  int threads_of_rank(int given) const {
    if (given > 0 || ranks_on_node_ == 1) return given;
    if (!process_per_rank) return std::max(gr::cpu_kit::default_thread_count() / ranks_on_node_, 1);
    if (std::getenv("OMP_NUM_THREADS") != nullptr) return given;  // of each process
    return gr::cpu_kit::processors_of_each(ranks_on_node_);
  }

  /// Makes the communicator of gradients and parameters, which trained() returns. The result owns it, and must end
  /// before `ctx`.
  template <class D>
  auto connect([[maybe_unused]] gr::context<D>& ctx) {
    std::unique_ptr<gr::communicator<D>> made;
    if constexpr (std::is_same_v<D, gr::cpu>) {
      gr::communicator<D>* const host = &host_;  // which a GPU's trainer, where this is left out, need not convert
      trained_ = host;
    } else {
      if (size() == 1) made = std::make_unique<gr::single_communicator<D>>();
#ifdef GPT_NCCL
      else made = std::make_unique<gr::nccl_communicator>(ctx, host_, ctx_);
#else
      else
        throw gr::bad_flag("--ranks: several GPUs are connected by NCCL, which was not found when this was compiled");
#endif
      trained_ = made.get();
    }
    return made;
  }
  /// See connect().
  gr::communicator<device>& trained() const { return *trained_; }

  /// Rank 0's value, on every rank.
  template <class T>
  T from_leader(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (size() > 1) host_.broadcast(ctx_, reinterpret_cast<std::uint8_t*>(&value), sizeof value).wait();
    return value;
  }
  std::string from_leader(std::string text) { return text_of(0, std::move(text)); }
  /// Ends the run unless all ranks have the entries of rank 0: rank 0 throws gr::bad_flag, which names what differs.
  void check_same(const gr::config_entries& own) {
    const std::string text = gr::config_text(own), first = from_leader(text);
    const std::vector<double> differ = gather(text == first ? 0 : 1);
    const auto odd = std::find(differ.begin(), differ.end(), 1);
    if (odd == differ.end()) return;
    const auto rank = static_cast<gr::index_t>(odd - differ.begin());
    const std::string theirs = text_of(rank, text);
    if (!leads()) throw leader_failed{};
    const auto [mine, other] = std::mismatch(text.begin(), text.end(), theirs.begin(), theirs.end());
    const auto line = [](const std::string& of, std::string::const_iterator at) {
      const auto begin = std::find(std::make_reverse_iterator(at), of.rend(), '\n').base();
      return std::string(begin, std::find(at, of.end(), '\n'));
    };
    throw gr::bad_flag("the ranks were started differently: rank " + std::to_string(rank) + " has '" +
                       line(theirs, other) + "', and rank 0 has '" + line(text, mine) + "'");
  }
  /// Calls f() on rank 0. If that throws gr::error, the others end, too, by leader_failed.
  template <class F>
  void on_leader(const F& f) {
    std::exception_ptr problem;
    if (leads()) try {
        f();
      } catch (const gr::error&) { problem = std::current_exception(); }
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
      } catch (const gr::rank_failed&) { throw; } catch (const gr::error&) {
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
    if (size() > 1) host_.all_reduce(ctx_, both.data(), both.data(), both.size(), {gr::reduce_by::maximum}).wait();
    return {both[0], both[1] != 0};
  }
  /// A number of every rank, in their order.
  std::vector<double> gather(double own) {
    std::vector<double> all(host_.size(), own);
    if (size() > 1) host_.all_gather(ctx_, &own, all.data(), std::vector<gr::index_t>(host_.size(), 1)).wait();
    return all;
  }

 private:
  // The text of one rank, on every rank.
  std::string text_of(gr::index_t rank, std::string text) {
    if (size() == 1) return text;
    auto bytes = static_cast<std::int64_t>(text.size());
    host_.broadcast(ctx_, &bytes, 1, rank).wait();
    text.resize(static_cast<std::size_t>(bytes));
    host_.broadcast(ctx_, reinterpret_cast<std::uint8_t*>(text.data()), text.size(), rank).wait();
    return text;
  }

  gr::stream stream_;
  gr::host_resource heap_;
  gr::context<gr::cpu> ctx_{stream_, heap_};
  gr::communicator<gr::cpu>& host_;
  gr::communicator<device>* trained_ = nullptr;
  int on_node_, ranks_on_node_;
};

/// Calls f(rank_team&) on every rank: on this process's if it is one of several, else on `count` threads. Returns the
/// exit status; throws what the first rank throws. Of processes, rank 0 says what is wrong with a flag.
template <class F>
int on_ranks([[maybe_unused]] int count, const F& f) {
  int status = 0;
  const auto call = [&](gr::communicator<gr::cpu>& host, gr::index_t on_node, gr::index_t ranks_on_node) {
    rank_team team(host, on_node, ranks_on_node);
    try {
      f(team);
    } catch (const gr::bad_flag& e) {
      if (!process_per_rank) throw;  // each rank throws it
      if (team.leads()) std::fprintf(stderr, "gpt_train: %s\n", e.what());
      status = 2;
    } catch (const leader_failed&) { status = 2; } catch (const std::exception& e) {
      host.abandon(e.what());
      throw;
    }
  };
#ifdef GPT_MPI
  gr::mpi_session session;
  gr::mpi_communicator host(session);
  if (count > 1 && static_cast<gr::index_t>(count) != host.size()) {
    if (host.rank() == 0)
      std::fprintf(stderr, "gpt_train: --ranks: mpirun decides how many there are, %zu\n", host.size());
    return 2;
  }
  call(host, session.node_rank(), session.node_size());
#else
  gr::check_flag(count <= 64, "--ranks", "at most 64: they are threads of this process", count);
  if (count > 1) {
    gr::run_ranks(static_cast<gr::index_t>(count),
                  [&](gr::communicator<gr::cpu>& host) { call(host, host.rank(), host.size()); });
  } else {
    gr::single_communicator<gr::cpu> alone;
    call(alone, 0, 1);
  }
#endif
  return status;
}

}  // namespace gpt
