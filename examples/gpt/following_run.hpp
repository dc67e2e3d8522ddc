#pragma once
// A run as ranks other than 0 see it: they train and validate; files, log and screen are rank 0's.

#include <exception>
#include <functional>
#include <string_view>
#include <utility>

#include "shared_work.hpp"

namespace gpt {

/// Has the functions of `run` that the loop calls.
template <class Trainer, class Memory>
class following_run {
 public:
  run_state state;

  following_run(const options& o, const run_data& data, Memory& memory, Trainer& t, rank_team& team,
                const run_state& from, std::function<bool()> stop)
      : state(from), options_(o), data_(data), memory_(memory), t_(t), team_(team), stop_(std::move(stop)) {
    state.fraction = o.fraction(state.step, state.elapsed);
  }

  double elapsed() const { return 0; }
  void begin_update() {}
  void end_update(const typename Trainer::step_loss&, double, double now) {
    ++state.step;
    state.elapsed = now;
    state.fraction = options_.fraction(state.step, state.elapsed);
  }
  void validate_if_due() {
    if (state.fraction >= 1) validate(last_validation, stop_);
    else if (state.step % options_.eval_every == 0) validate(a_validation, stop_);
  }
  void save_and_show() { serve(); }
  void end_early() {
    t_.abandon();
    serve();
    validate(a_validation, [] { return false; });
    serve();
  }
  void save_after(const std::exception&) {}
  void report_memory(const gr::step_trace&) {}

 private:
  // Does what rank 0 asks for, until it goes on. Rank 0 reports what fails.
  void serve() {
    if (!t_.shares_states()) return;
    for (request what; (what = team_.from_leader(request{})) != request::go_on;) {
      if (what == request::check_values) {
        shared_values_are_finite(t_, memory_.persistent, team_);
        continue;
      }
      if (what == request::write_model) {
        gather_tensors();
        continue;
      }
      try {
        write_shared_checkpoint(t_, memory_.persistent, team_, {}, 1, {});
      } catch (const gr::rank_failed&) { throw; } catch (const gr::error&) {
      }
    }
  }
  void gather_tensors() {
    memory_.use(reading_plan);
    bool more = true;
    gr::for_each_tensor(t_.net, [&](std::string_view, const auto& p) {
      more = more && team_.from_leader(request{}) == request::next_tensor;
      if (more) static_cast<void>(p.value().data());
    });
    if (more) team_.from_leader(request{});
    t_.release_values();
    memory_.use(training_plan);
  }
  void validate(std::size_t tokens, const std::function<bool()>& stop) {
    validation_loss(t_, memory_, data_, team_, tokens, stop);
  }

  const options& options_;
  const run_data& data_;
  Memory& memory_;
  Trainer& t_;
  rank_team& team_;
  std::function<bool()> stop_;
};

}  // namespace gpt
