#pragma once
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <system_error>

#include "../core/floating_mode.hpp"
#include "../ranks/communicator.hpp"
#include "run_saver.hpp"

namespace gradus {

GRADUS_IMPL std::string retry(const std::function<void()>& write, const std::function<void(const std::string&)>& warn,
                              double patience) {
  const stopwatch trying;
  std::string warned;
  for (double wait = 1;; wait = std::min(2 * wait, 30.0)) {
    std::string problem;
    try {
      write();
      return {};
    } catch (const rank_failed&) {
      throw;  // nothing can be written together any more
    } catch (const error& e) { problem = e.what(); }
    const double left = patience - trying.seconds();
    if (left <= 0) return problem;
    wait = std::min(wait, left);
    if (problem != warned) {
      char text[96];
      std::snprintf(text, sizeof text, "; trying again in %.0f s, and for %.0f s in all", wait, left);
      warn(problem + text);
      warned = problem;
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(wait));
  }
}

GRADUS_IMPL run_saver::run_saver(std::function<void()> check, std::function<void()> write,
                                 std::function<void(const std::string&)> warn, double patience)
    : check_(std::move(check)), write_(std::move(write)), warn_(std::move(warn)), patience_(patience) {}

GRADUS_IMPL run_saver::~run_saver() {
  if (writing_.joinable()) writing_.join();
}

GRADUS_IMPL void run_saver::save_if_due(long long step) {
  finish();
  const bool by_steps = steps_ > 0 && step % steps_ == 0;
  const bool by_time = seconds_ > 0 && since_.seconds() >= seconds_;
  if (!by_steps && !by_time && !hurried_ && !(failed_ && since_.seconds() >= 30)) return;
  hurried_ = false;
  check_();
  try {
    if (!prepare_) write_();
    else if (begin(prepare_())) return;
    failed_ = false;
  } catch (const rank_failed&) { throw; } catch (const error& e) {
    warn_once(e);
  }
  since_ = {};
}

GRADUS_IMPL void run_saver::finish() {
  if (!writing_.joinable()) return;
  writing_.join();
  since_ = {};
  try {
    if (problem_) std::rethrow_exception(std::exchange(problem_, nullptr));
    failed_ = false;
  } catch (const error& e) { warn_once(e); }
}

GRADUS_IMPL std::string run_saver::save() {
  finish();
  check_();
  return retry(write_, warn_, patience_);
}

// True where a thread writes; false where the system has none, and it is written already.
GRADUS_IMPL bool run_saver::begin(std::function<void()> write) {
  const auto work = [this, write = std::move(write), mode = platform::floating_mode()] {
    mode.apply();
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

GRADUS_IMPL void run_saver::warn_once(const error& e) {
  if (!failed_) warn_(std::string(e.what()) + "; the run goes on, and saving is tried again");
  failed_ = true;
}

}  // namespace gradus
