#pragma once
// What a run tells: log.jsonl and loss.svg in its folder, and the screen. Not part of gradus.hpp, for it needs nlohmann json.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../core/error.hpp"
#include "../io/atomic_file.hpp"
#include "../io/json.hpp"
#include "curve_svg.hpp"
#include "progress.hpp"
#include "run_log.hpp"

namespace gradus {

/// One step, as it is shown and logged.
struct step_report {
  long long step = 0;
  double fraction = 0;  ///< of the run
  double loss = 0;
  double validation = std::numeric_limits<double>::quiet_NaN();  ///< where it was measured after this step
  double lr = 0;
  double tokens = 0;
  double elapsed = 0;            ///< seconds
  double tokens_per_second = 0;  ///< over all training steps so far
  double flops = 0;              ///< FLOP/s, alike; 0: not counted
};

/// What a reporter calls things.
struct reporter_names {
  std::string program;         ///< what warnings begin with
  std::string title;           ///< of the curves
  std::string unit = "token";  ///< that losses are of, and that are counted
  double machine_flops = 0;    ///< FLOP/s of matrix products, to compare with; 0: not known
};

/// Keeps the run folder up to date and tells the person in front of it. A log or a picture that cannot be written is one warning, and the run
/// goes on.
class run_reporter {
 public:
  /// Appends to the log and the curves of a run that took `steps`; what they hold of later steps is dropped. Throws gradus::error where the
  /// log cannot be opened.
  run_reporter(std::filesystem::path folder, reporter_names names, long long steps = 0)
      : folder_(std::move(folder)),
        names_(std::move(names)),
        log_((read_log(steps), folder_ / "log.jsonl")) {}  // rewritten before it is opened

  void line(std::string_view text) { progress_.line(text); }
  /// Something that went wrong and does not end the run.
  void warn(std::string_view text) {
    progress_.clear();
    std::fprintf(stderr, "%s: warning: %.*s\n", names_.program.c_str(), static_cast<int>(text.size()), text.data());
  }
  /// Calls `write`; where it throws gradus::error, that is a warning, and the run goes on.
  template <class F>
  void attempt(const F& write) {
    bool failed = false;
    attempt(failed, write);
  }
  /// Writes a line to the log, or warns that it cannot.
  void log(std::initializer_list<log_field> fields) {
    attempt(log_failed_, [&] { log_.write(fields); });
  }
  /// Logs a step; shows it, and draws the curves anew, where it was validated.
  void step(const step_report& r) {
    train_.x.push_back(static_cast<double>(r.step));
    train_.y.push_back(r.loss);
    if (std::isnan(r.validation)) {
      log({{"step", r.step}, {"loss", r.loss}, {"lr", r.lr}, {"tokens", r.tokens}, {"seconds", r.elapsed}});
      if (progress_.due()) progress_.update(r.fraction, figures(r));
      return;
    }
    validation_.x.push_back(static_cast<double>(r.step));
    validation_.y.push_back(r.validation);
    log({{"step", r.step},
         {"loss", r.loss},
         {"validation", r.validation},
         {"lr", r.lr},
         {"tokens", r.tokens},
         {"seconds", r.elapsed},
         {"tokens_per_second", r.tokens_per_second},
         {"tflops", r.flops / 1e12},
         {"share_of_gemm", r.flops / names_.machine_flops}});
    progress_.line(figures(r));
    attempt(picture_failed_, [&] { draw(); });
  }

 private:
  // One warning when a file cannot be written, and another only after it could be again.
  template <class F>
  void attempt(bool& failed, const F& write) {
    try {
      write();
      failed = false;
    } catch (const error& e) {
      if (!failed) warn(std::string(e.what()) + "; the run goes on");
      failed = true;
    }
  }

  void read_log(long long steps) {
    if (steps == 0) return;
    std::ifstream log(folder_ / "log.jsonl");
    std::string kept;
    long long last = -1;
    for (std::string line; std::getline(log, line);) {
      const auto entry = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (!entry.is_object()) continue;  // a line that a kill cut short
      if (entry.contains("step") && entry["step"].is_number_integer()) {
        const auto step = entry["step"].get<long long>();
        if (step > steps || step == last) continue;  // a run that was told to end said once more how good it was
        last = step;
        for (const auto& [name, c] : {std::pair{"loss", &train_}, std::pair{"validation", &validation_}})
          if (entry.contains(name) && entry[name].is_number()) {
            c->x.push_back(static_cast<double>(step));
            c->y.push_back(entry[name].get<double>());
          }
      }
      kept += line + "\n";
    }
    if (log.is_open()) {
      log.close();
      write_file_atomically(folder_ / "log.jsonl", kept);
    }
  }

  // A long run has more steps than the chart has pixels, and single steps are noisy: means of runs of steps.
  static curve thinned(const curve& c, std::size_t most) {
    const std::size_t group = (c.x.size() + most - 1) / most;
    if (group <= 1) return c;
    curve out{c.name, c.color, {}, {}};
    for (std::size_t begin = 0; begin < c.x.size(); begin += group) {
      const std::size_t end = std::min(begin + group, c.x.size());
      double x = 0, y = 0;
      for (std::size_t i = begin; i < end; ++i) x += c.x[i], y += c.y[i];
      out.x.push_back(x / static_cast<double>(end - begin));
      out.y.push_back(y / static_cast<double>(end - begin));
    }
    return out;
  }
  void draw() const {
    const std::vector<curve> curves{thinned(train_, 300), validation_};
    write_file_atomically(folder_ / "loss.svg", curve_svg({names_.title + ": " + folder_.filename().string(), "step",
                                                           "loss (nats a " + names_.unit + ")"},
                                                          curves));
  }
  std::string figures(const step_report& r) const {
    char text[256];
    std::snprintf(text, sizeof text, "step %5lld  loss %.4f", r.step, r.loss);
    std::string all = text;
    if (!std::isnan(r.validation)) {
      std::snprintf(text, sizeof text, "  validation %.4f", r.validation);
      all += text;
    }
    std::snprintf(text, sizeof text, "  lr %.2e  %.2fM %ss  %.0f s  %.0f %ss/s", r.lr, r.tokens / 1e6,
                  names_.unit.c_str(), r.elapsed, r.tokens_per_second, names_.unit.c_str());
    all += text;
    if (r.flops == 0) return all;
    std::snprintf(text, sizeof text, "  %.3f TFLOP/s", r.flops / 1e12);
    all += text;
    if (names_.machine_flops == 0) return all;
    std::snprintf(text, sizeof text, " (%.0f %% of GEMM)", 100 * r.flops / names_.machine_flops);
    return all + text;
  }

  std::filesystem::path folder_;
  reporter_names names_;
  curve train_{"train", "#1f77b4", {}, {}};
  curve validation_{"validation", "#d62728", {}, {}};
  run_log log_;
  progress progress_;
  bool log_failed_ = false, picture_failed_ = false;
};

}  // namespace gradus
