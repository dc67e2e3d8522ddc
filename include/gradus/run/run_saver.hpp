#pragma once
// Saves a run at a pace, in the background, and at its end.

#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "stopwatch.hpp"

namespace gradus {

/// Calls `write`, which throws gradus::error if it cannot; then again after 1, 2, 4, ... and then every 30 seconds,
/// until `patience` seconds have passed. It throws rank_failed at once. Each new reason is a warning. Returns the last
/// reason, or an empty string once `write` has succeeded.
std::string retry(const std::function<void()>& write, const std::function<void(const std::string&)>& warn,
                  double patience);

/// Saves a run at a pace, so that little is lost if it ends early.
class run_saver {
 public:
  /// `check` throws if there is nothing worth saving, `write` saves and throws gradus::error if it cannot, `warn` gets
  /// the warnings. The final save() retries for `patience` seconds.
  run_saver(std::function<void()> check, std::function<void()> write, std::function<void(const std::string&)> warn,
            double patience);
  run_saver(const run_saver&) = delete;
  run_saver& operator=(const run_saver&) = delete;
  /// Waits for the background save.
  ~run_saver();
  /// Saves every `seconds` and every `steps`; 0: not by that.
  void set_pace(double seconds, long long steps) { seconds_ = seconds, steps_ = steps; }
  /// Makes save_if_due() save in the background: it calls `prepare`, and runs the function that this returns on another
  /// thread. That function may read parameters and optimizer states, so call finish() before the optimizer's step.
  void write_in_background(std::function<std::function<void()>()> prepare) { prepare_ = std::move(prepare); }

  /// Makes the next save_if_due() save, whatever the pace.
  void hurry() { hurried_ = true; }
  /// Saves after this step if it is due. A failure is a warning, and is retried within half a minute.
  void save_if_due(long long step);
  /// Waits for the background save, if there is one, and warns if it failed.
  void finish();

  /// Saves now, by retry(). Returns the reason if the run could not be saved. Files of an earlier save stay until there
  /// are new ones.
  std::string save();

 private:
  bool begin(std::function<void()> write);
  void warn_once(const error& e);

  std::function<void()> check_, write_;
  std::function<std::function<void()>()> prepare_;
  std::thread writing_;
  std::exception_ptr problem_;  // of the thread, read after joining it
  std::function<void(const std::string&)> warn_;
  double seconds_ = 0;
  long long steps_ = 0;
  double patience_;
  bool failed_ = false, hurried_ = false;
  stopwatch since_;
};

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "run_saver.ipp"
#endif
