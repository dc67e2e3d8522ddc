#pragma once
// The run folder: log.jsonl, loss.svg, model.safetensors; and what is shown while training.

#include <cstdio>
#include <ctime>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <gradus/io/atomic_file.hpp>
#include <gradus/train/curve_svg.hpp>
#include <gradus/train/progress.hpp>
#include <gradus/train/run_log.hpp>

#include "config.hpp"

namespace gpt {

/// The folder of a run, made if need be. One that holds something is refused, so that no run overwrites another.
inline std::filesystem::path make_run_folder(const std::string& asked) {
  namespace fs = std::filesystem;
  fs::path folder = asked;
  if (asked.empty()) {
    const std::time_t now = std::time(nullptr);
    char text[32];
    std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", std::localtime(&now));
    folder = fs::path("runs") / text;
    for (int again = 2; fs::exists(folder); ++again)
      folder = fs::path("runs") / (std::string(text) + "-" + std::to_string(again));
  }
  std::error_code problem;
  if (fs::exists(folder, problem) && !fs::is_directory(folder, problem))
    throw gr::error(folder.string() + ": is not a folder; name another with --out");
  if (fs::exists(folder, problem) && !fs::is_empty(folder, problem))
    throw gr::error(folder.string() + ": is not empty; name another folder with --out");
  fs::create_directories(folder, problem);
  if (problem) throw gr::error(folder.string() + ": cannot be made: " + problem.message());
  return folder;
}

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
  double flops = 0;              ///< FLOP/s, alike
};

/// Keeps the run folder up to date and tells the person in front of it.
class reporter {
 public:
  reporter(std::filesystem::path folder, double machine_flops)
      : folder_(std::move(folder)), log_(folder_ / "log.jsonl"), machine_flops_(machine_flops) {}

  void line(std::string_view text) { progress_.line(text); }
  /// Something that went wrong and does not end the run.
  void warn(std::string_view text) {
    progress_.clear();
    std::fprintf(stderr, "gpt_train: warning: %.*s\n", static_cast<int>(text.size()), text.data());
  }
  /// Writes a line to the log, or warns that it cannot.
  void log(std::initializer_list<gr::log_field> fields) {
    attempt(log_failed_, [&] { log_.write(fields); });
  }

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
         {"share_of_gemm", r.flops / machine_flops_}});
    progress_.line(figures(r));
    attempt(picture_failed_, [&] { draw(); });
  }

 private:
  // Pictures and logs are not worth a run: one warning when a file cannot be written, and another only after it could be again.
  template <class F>
  void attempt(bool& failed, const F& write) {
    try {
      write();
      failed = false;
    } catch (const gr::error& e) {
      if (!failed) warn(std::string(e.what()) + "; the run goes on");
      failed = true;
    }
  }
  // A long run has more steps than the chart has pixels, and single steps are noisy: means of runs of steps.
  static gr::curve thinned(const gr::curve& c, std::size_t most) {
    const std::size_t group = (c.x.size() + most - 1) / most;
    if (group <= 1) return c;
    gr::curve out{c.name, c.color, {}, {}};
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
    const std::vector<gr::curve> curves{thinned(train_, 300), validation_};
    gr::write_file_atomically(
        folder_ / "loss.svg",
        gr::curve_svg({"Training a GPT: " + folder_.filename().string(), "step", "loss (nats a token)"}, curves));
  }
  std::string figures(const step_report& r) const {
    char text[256];
    const int n = std::snprintf(text, sizeof text, "step %5lld  loss %.4f", r.step, r.loss);
    std::string all(text, static_cast<std::size_t>(n));
    if (!std::isnan(r.validation)) {
      std::snprintf(text, sizeof text, "  validation %.4f", r.validation);
      all += text;
    }
    std::snprintf(text, sizeof text, "  lr %.2e  %.2fM tokens  %.0f s  %.0f tokens/s  %.3f TFLOP/s (%.0f %% of GEMM)",
                  r.lr, r.tokens / 1e6, r.elapsed, r.tokens_per_second, r.flops / 1e12, 100 * r.flops / machine_flops_);
    return all + text;
  }

  std::filesystem::path folder_;
  gr::run_log log_;
  gr::progress progress_;
  double machine_flops_;
  bool log_failed_ = false;
  bool picture_failed_ = false;
  gr::curve train_{"train", "#1f77b4", {}, {}};
  gr::curve validation_{"validation", "#d62728", {}, {}};
};

}  // namespace gpt
