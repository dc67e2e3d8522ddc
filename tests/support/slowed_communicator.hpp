#pragma once
// A communicator over a slow link, to see what a program hides of it.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <thread>

#include <gradus/core/config.hpp>
#include <gradus/ranks/communicator.hpp>

namespace gradus::testing {

/// What a collective takes: `latency_s`, and the bytes that a rank sends in a ring over `bytes_per_s`: 2 (n - 1) / n of
/// the data in all_reduce, (n - 1) / n in reduce_scatter, all_gather and all_to_all, all in broadcast.
struct link_speed {
  double latency_s = 0;
  double bytes_per_s = std::numeric_limits<double>::infinity();
};

/// Makes the collectives of a communicator end as if they had gone over a slow link, one after another. Takes no
/// processor's time. Results come from the communicator beneath, which outlives it.
class slowed_communicator final : public communicator<cpu> {
  using clock = std::chrono::steady_clock;

 public:
  slowed_communicator(communicator<cpu>& of, const link_speed& link)
      : communicator<cpu>(of.rank(), of.size()), of_(&of), link_(link) {}

  std::uint64_t start(context<cpu>& ctx, const collective& what) override {
    const double takes = seconds_of(what);
    busy_s_ += takes;
    free_ = std::max(free_, clock::now()) +
            std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(takes));
    under_way_.push_back({of_->start(ctx, what), free_});
    return ++started_;
  }
  void finish(context<cpu>& ctx, std::uint64_t number) override {
    const auto begin = clock::now();
    while (!under_way_.empty() && started_ - under_way_.size() < number) {
      const entry first = under_way_.front();
      under_way_.pop_front();
      of_->finish(ctx, first.number);
      std::this_thread::sleep_until(first.end);
    }
    waited_s_ += std::chrono::duration<double>(clock::now() - begin).count();
  }
  void abandon(const std::string& why) noexcept override { of_->abandon(why); }

  /// Seconds that the link was busy, and that the rank waited for it. What they differ by was hidden behind work.
  double busy_s() const { return busy_s_; }
  double waited_s() const { return waited_s_; }

 private:
  struct entry {
    std::uint64_t number;
    clock::time_point end;
  };
  double seconds_of(const collective& what) const {
    const auto n = static_cast<double>(size()), bytes = static_cast<double>(what.count * size_of(what.type));
    const double shares = what.kind == collective_kind::broadcast    ? 1
                          : what.kind == collective_kind::all_reduce ? 2 * (n - 1) / n
                                                                     : (n - 1) / n;
    return link_.latency_s + shares * bytes / link_.bytes_per_s;
  }

  communicator<cpu>* of_;
  link_speed link_;
  std::deque<entry> under_way_;
  clock::time_point free_{};  // when the link is
  std::uint64_t started_ = 0;
  double busy_s_ = 0, waited_s_ = 0;
};

}  // namespace gradus::testing
