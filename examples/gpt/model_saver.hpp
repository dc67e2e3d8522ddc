#pragma once
// Keeps the file of a model that is being trained up to date, so that little is lost whatever ends the run.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "model_file.hpp"
#include "report.hpp"
#include "speed.hpp"

namespace gpt {

class model_saver {
 public:
  /// Saves every `minutes` (0: only when told), and goes on trying for `patience` seconds when told to save at the end.
  model_saver(std::filesystem::path path, reporter& report, double minutes, double patience)
      : path_(std::move(path)), report_(report), seconds_(60 * minutes), patience_(patience) {}

  /// Saves if it is time to. What cannot be written is a warning, and the next try comes within half a minute.
  void save_if_due(const network& net) {
    if (seconds_ == 0 || since_.seconds() < (failed_ ? std::min(seconds_, 30.0) : seconds_)) return;
    check(net);
    try {
      save_model(net, path_);
      failed_ = false;
    } catch (const gr::error& e) {
      if (!failed_) report_.warn(std::string(e.what()) + "; the run goes on, and saving is tried again");
      failed_ = true;
    }
    since_ = {};
  }

  /// Saves now. What cannot be written is tried again, after 1, 2, 4, ... and then every 30 seconds, until the patience is at its
  /// end. Returns what was wrong then, and nothing where the model is saved. The file of an earlier save stays until there is a
  /// new one.
  std::string save(const network& net) {
    check(net);
    const stopwatch trying;
    for (double wait = 1;; wait = std::min(2 * wait, 30.0)) {
      std::string problem;
      try {
        save_model(net, path_);
        return {};
      } catch (const gr::error& e) { problem = e.what(); }
      const double left = patience_ - trying.seconds();
      if (left <= 0) return problem;
      wait = std::min(wait, left);
      char text[96];
      std::snprintf(text, sizeof text, "; trying again in %.0f s, and for %.0f s in all", wait, left);
      report_.warn(problem + text);
      std::this_thread::sleep_for(std::chrono::duration<double>(wait));
    }
  }

 private:
  // A model that the last update spoilt must not replace a good one.
  void check(const network& net) const {
    gr::for_each_param(net, [&](std::string_view name, const auto& p) {
      for (const auto value : p.value().values())
        if (!std::isfinite(static_cast<float>(value)))
          throw gr::error("not saved: the parameter " + std::string(name) + " is no longer finite; try a lower --lr");
    });
  }

  std::filesystem::path path_;
  reporter& report_;
  double seconds_;
  double patience_;
  bool failed_ = false;
  stopwatch since_;
};

}  // namespace gpt
