#pragma once
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "../core/error.hpp"
#include "stopwatch.hpp"

namespace gradus {

/// Saves a run as it goes, so that little is lost whatever ends it.
class run_saver {
 public:
  /// `check` throws if there is nothing worth saving, `write` saves and throws gradus::error where it cannot, `warn` is told of that. Told
  /// to save at the end, it goes on trying for `patience` seconds.
  run_saver(std::function<void()> check, std::function<void()> write, std::function<void(const std::string&)> warn,
            double patience)
      : check_(std::move(check)), write_(std::move(write)), warn_(std::move(warn)), patience_(patience) {}
  run_saver(const run_saver&) = delete;
  run_saver& operator=(const run_saver&) = delete;
  /// Waits for what is being written.
  ~run_saver() {
    if (writing_.joinable()) writing_.join();
  }
  /// Saves every so many seconds and every so many steps; 0: not by that.
  void set_pace(double seconds, long long steps) { seconds_ = seconds, steps_ = steps; }
  /// From now on, save_if_due() calls `prepare`, and what that returns writes the file on a thread of its own, while the caller goes on. It may read
  /// what the caller has, so the caller calls finish() before that changes: in a training step, before the optimizer's.
  void write_in_background(std::function<std::function<void()>()> prepare) { prepare_ = std::move(prepare); }

  /// Saves if it is time to after this step. What cannot be written is a warning, and the next try comes within half a minute.
  void save_if_due(long long step) {
    finish();
    const bool by_steps = steps_ > 0 && step % steps_ == 0;
    const bool by_time = seconds_ > 0 && since_.seconds() >= seconds_;
    if (!by_steps && !by_time && !(failed_ && since_.seconds() >= 30)) return;
    check_();
    try {
      if (!prepare_) write_();
      else if (begin(prepare_())) return;
      failed_ = false;
    } catch (const error& e) { tell(e); }
    since_ = {};
  }
  /// Waits until the save that is being written, if there is one, is finished, and warns if it could not be.
  void finish() {
    if (!writing_.joinable()) return;
    writing_.join();
    since_ = {};
    try {
      if (problem_) std::rethrow_exception(std::exchange(problem_, nullptr));
      failed_ = false;
    } catch (const error& e) { tell(e); }
  }

  /// Saves now. What cannot be written is tried again, after 1, 2, 4, ... and then every 30 seconds, until the patience is at its
  /// end. Returns what was wrong then, and nothing where the run is saved. Files of an earlier save stay until there are new ones.
  std::string save() {
    finish();
    check_();
    const stopwatch trying;
    for (double wait = 1;; wait = std::min(2 * wait, 30.0)) {
      std::string problem;
      try {
        write_();
        return {};
      } catch (const error& e) { problem = e.what(); }
      const double left = patience_ - trying.seconds();
      if (left <= 0) return problem;
      wait = std::min(wait, left);
      char text[96];
      std::snprintf(text, sizeof text, "; trying again in %.0f s, and for %.0f s in all", wait, left);
      warn_(problem + text);
      std::this_thread::sleep_for(std::chrono::duration<double>(wait));
    }
  }

 private:
  // True where a thread writes; false where the system has none, and it is written already.
  bool begin(std::function<void()> write) {
    const auto work = [this, write = std::move(write)] {
      try {
        write();
      } catch (...) { problem_ = std::current_exception(); }
    };
    try {
      writing_ = std::thread(work);
      return true;
    } catch (const std::system_error&) {}
    work();
    if (problem_) std::rethrow_exception(std::exchange(problem_, nullptr));
    return false;
  }
  void tell(const error& e) {
    if (!failed_) warn_(std::string(e.what()) + "; the run goes on, and saving is tried again");
    failed_ = true;
  }

  std::function<void()> check_, write_;
  std::function<std::function<void()>()> prepare_;
  std::thread writing_;
  std::exception_ptr problem_;  // of the thread; read when it is joined
  std::function<void(const std::string&)> warn_;
  double seconds_ = 0;
  long long steps_ = 0;
  double patience_;
  bool failed_ = false;
  stopwatch since_;
};

}  // namespace gradus
