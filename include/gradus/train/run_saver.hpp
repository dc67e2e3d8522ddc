#pragma once
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
/// until `patience` seconds have passed. Each new reason is a warning. Returns the last reason, or an empty string once
/// `write` has succeeded.
std::string retry(const std::function<void()>& write, const std::function<void(const std::string&)>& warn,
                  double patience);

/// Saves a run as it goes, so that little is lost whatever ends it.
class run_saver {
 public:
  /// `check` throws if there is nothing worth saving, `write` saves and throws gradus::error if it cannot, `warn` gets
  /// the warnings. The final save() retries for `patience` seconds.
  run_saver(std::function<void()> check, std::function<void()> write, std::function<void(const std::string&)> warn,
            double patience);
  run_saver(const run_saver&) = delete;
  run_saver& operator=(const run_saver&) = delete;
  /// Waits for what is being written.
  ~run_saver();
  /// Saves every so many seconds and every so many steps; 0: not by that.
  void set_pace(double seconds, long long steps) { seconds_ = seconds, steps_ = steps; }
  /// From now on, save_if_due() calls `prepare`, and what that returns writes the file on a thread of its own, while
  /// the caller goes on. It may read what the caller has, so the caller calls finish() before that changes: in a
  /// training step, before the optimizer's.
  void write_in_background(std::function<std::function<void()>()> prepare) { prepare_ = std::move(prepare); }

  /// Has the next save_if_due() save, whatever the pace.
  void hurry() { hurried_ = true; }
  /// Saves if it is time to after this step. What cannot be written is a warning, and the next try comes within half a
  /// minute.
  void save_if_due(long long step);
  /// Waits until the save that is being written, if there is one, is finished, and warns if it could not be.
  void finish();

  /// Saves now, by retry(). Returns the reason if the run could not be saved. Files of an earlier save stay until there
  /// are new ones.
  std::string save();

 private:
  bool begin(std::function<void()> write);
  void tell(const error& e);

  std::function<void()> check_, write_;
  std::function<std::function<void()>()> prepare_;
  std::thread writing_;
  std::exception_ptr problem_;  // of the thread; read when it is joined
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
