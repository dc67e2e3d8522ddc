#pragma once
// How long a step takes on several ranks. The trainer's own code runs on the meta device, and what a rank computes,
// exchanges and waits for is noted in its order. A machine says how long each of these takes.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <gpt/training.hpp>
#include <gradus/planning.hpp>

namespace bench {

namespace gr = gradus;

/// What is measured and predicted.
inline constexpr std::pair<gr::sharding, const char*> shardings[] = {{gr::sharding::nothing, "nothing"},
                                                                     {gr::sharding::states, "states"},
                                                                     {gr::sharding::gradients, "gradients"},
                                                                     {gr::sharding::parameters, "parameters"}};
inline constexpr std::pair<gr::sum_order, const char*> orders[] = {{gr::sum_order::tree, "tree"},
                                                                   {gr::sum_order::fastest, "fastest"}};

/// What one rank does in a step.
struct rank_step {
  /// A collective that the rank starts, or waits for.
  struct event {
    gr::index_t operations;  ///< begun before it
    bool waits;
    std::uint64_t number;  ///< of the collective
    gr::collective what;   ///< if it starts
  };
  gr::step_trace trace;
  std::vector<event> events;
};

/// Notes collectives in a rank_step.
template <class D>
class noting_communicator final : public gr::communicator<D> {
 public:
  noting_communicator(gr::index_t rank, gr::index_t size, rank_step& to) : gr::communicator<D>(rank, size), to_(&to) {}
  std::uint64_t start(gr::context<D>&, const gr::collective& what) override {
    to_->events.push_back({to_->trace.ops.size(), false, ++started_, what});
    return started_;
  }
  void finish(gr::context<D>&, std::uint64_t number) override {
    to_->events.push_back({to_->trace.ops.size(), true, number, {}});
  }

 private:
  rank_step* to_;
  std::uint64_t started_ = 0;
};

/// The step that `Training` takes on rank o.rank of o.ranks.
template <class Training>
rank_step note_step(const gr::training_options& o) {
  using D = typename Training::device;
  rank_step step;
  noting_communicator<D> ranks(static_cast<gr::index_t>(o.rank), static_cast<gr::index_t>(o.ranks), step);
  gr::meta_stream stream;
  gr::accounting account;
  gr::context<D> persistent{stream, account}, transient{stream, account};
  {
    Training t(persistent, transient, o, &ranks);
    t.step();  // the first one differs: ranks that share parameters find the order of their groups
    persistent.observe(&account);
    transient.observe(&account);
    step.events.clear();
    account.start(step.trace);
    t.step();
    account.finish();
  }
  step.trace.alignment = D::alignment;
  return step;
}

/// Bytes that the rank's plan needs: those that live as long as the model, and the step's workspace.
inline std::size_t planned_bytes(const rank_step& s) { return s.trace.live_before + gr::place(s.trace).bytes; }

/// What messages cost in the LogGP model (Alexandrov et al. 1995).
struct link {
  double latency;    ///< seconds until a message arrives
  double overhead;   ///< seconds from one message of a rank to its next
  double bandwidth;  ///< bytes a second that a rank sends, while it receives as many
};

/// What runs ranks: nodes of processors or GPUs.
struct machine {
  double flops;         ///< of a rank's forward and backward
  double memory;        ///< bytes a second of the optimizer's step, and of sums
  gr::index_t node;     ///< ranks of a node
  link within, among;   ///< the links within a node, and among nodes
  double processors;    ///< of a node, which compute and exchange; 0: a rank has its own, and exchanges beside it
  double together = 1;  ///< by how much processors are slower that all work

  /// Seconds of an operation of the step.
  double seconds(const gr::activity& a) const {
    const double bytes = static_cast<double>(a.work.bytes());
    return a.phase == gr::phase::update ? bytes / memory : static_cast<double>(a.work.flops) / flops;
  }
  /// Seconds of a collective of `ranks` ranks.
  double seconds(const gr::collective& c, gr::index_t ranks) const {
    if (ranks == 1) return 0;
    const double bytes = static_cast<double>(c.count * size_of(c.type));
    const bool tree = c.options.order == gr::sum_order::tree;
    switch (c.kind) {
      case gr::collective_kind::all_reduce:
        return tree ? direct(bytes, ranks) + bytes / memory + ring(bytes, ranks) + one_for_each(ranks)
                    : 2 * ring(bytes, ranks) + messages(2 * std::log2(static_cast<double>(ranks)), 0, ranks);
      case gr::collective_kind::reduce_scatter:
        return tree ? direct(bytes, ranks) + bytes / memory : ring(bytes, ranks) + one_for_each(ranks);
      case gr::collective_kind::all_to_all:
        return direct(bytes, ranks);
      default:
        return ring(bytes, ranks) + one_for_each(ranks);
    }
  }
  /// How many times as long everything takes where ranks share processors.
  double crowding(gr::index_t ranks) const {
    if (processors == 0 || ranks == 1) return 1;
    return together * std::max(1.0, static_cast<double>(std::min(ranks, node)) / processors);
  }
  bool overlaps(gr::index_t ranks) const { return processors == 0 || static_cast<double>(ranks) < processors; }

 private:
  // Seconds of messages of which some wait for each other, and some others only follow each other.
  double messages(double in_turn, double others, gr::index_t ranks) const {
    const link& l = ranks > node ? among : within;
    return in_turn * l.latency + others * l.overhead;
  }
  double one_for_each(gr::index_t ranks) const { return messages(1, static_cast<double>(ranks - 2), ranks); }
  // Every rank sends a share to every other one.
  double direct(double bytes, gr::index_t ranks) const {
    const double share = bytes / static_cast<double>(ranks);
    const gr::index_t near = std::min(ranks, node);
    return std::max(share * static_cast<double>(near - 1) / within.bandwidth,
                    share * static_cast<double>(ranks - near) / among.bandwidth) +
           one_for_each(ranks);
  }
  // All but one share pass every rank; of those, a node's ranks divide what crosses its border.
  double ring(double bytes, gr::index_t ranks) const {
    const auto n = static_cast<double>(ranks), nodes = std::max(1.0, n / static_cast<double>(node));
    return std::max(bytes * (n - 1) / n / within.bandwidth,
                    bytes * (nodes - 1) / nodes / (static_cast<double>(node) * among.bandwidth));
  }
};

/// Times of a step, in seconds.
struct step_time {
  double all = 0;
  double computed = 0;   ///< forward, backward and update
  double exchanged = 0;  ///< collectives
  /// The part of the collectives that computation hides.
  double hidden() const { return exchanged > 0 ? (computed + exchanged - all) / exchanged : 0; }
};

/// The times of a step on `ranks` ranks: collectives run one after another, from when they are started; a rank computes
/// on until it waits for one.
inline step_time predict(const rank_step& s, const machine& m, gr::index_t ranks) {
  step_time t;
  double now = 0, idle_from = 0;  // of the rank, and of its link
  std::map<std::uint64_t, double> ends;
  auto event = s.events.begin();
  for (gr::index_t op = 0; op <= s.trace.ops.size(); ++op) {
    for (; event != s.events.end() && event->operations == op; ++event) {
      if (event->waits) {
        now = std::max(now, ends[event->number]);
        continue;
      }
      const double took = m.crowding(ranks) * m.seconds(event->what, ranks);
      t.exchanged += took;
      idle_from = std::max(now, idle_from) + took;
      ends[event->number] = idle_from;
      if (!m.overlaps(ranks)) now = idle_from;
    }
    if (op == s.trace.ops.size()) break;
    if (s.trace.ops[op].depth > 0) continue;
    const double took = m.crowding(ranks) * m.seconds(s.trace.ops[op].what);
    t.computed += took;
    now += took;
  }
  t.all = now;
  return t;
}

}  // namespace bench
