#include "report.hpp"

#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include <gradus/io/atomic_file.hpp>

namespace gpt {
namespace {

// A long run has more steps than the chart has pixels, and single steps are noisy: means of runs of steps.
gr::curve thinned(const gr::curve& c, std::size_t most) {
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

}  // namespace

std::filesystem::path make_run_folder(const std::string& asked) {
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

// Pictures and logs are not worth a run: one warning when a file cannot be written, and another only after it could be again.
template <class F>
void reporter::attempt(bool& failed, const F& write) {
  try {
    write();
    failed = false;
  } catch (const gr::error& e) {
    if (!failed) warn(std::string(e.what()) + "; the run goes on");
    failed = true;
  }
}

void write_flags(const std::filesystem::path& folder, const std::vector<std::string>& flags) {
  std::string lines;
  for (const std::string& word : flags) lines += word + "\n";
  gr::write_file_atomically(folder / "flags", lines);
}

reporter::reporter(std::filesystem::path folder, double machine_flops, long long steps)
    : folder_(std::move(folder)),
      log_((read_log(steps), folder_ / "log.jsonl")),  // rewritten before it is opened
      machine_flops_(machine_flops) {}

void reporter::read_log(long long steps) {
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
      for (const auto& [name, curve] : {std::pair{"loss", &train_}, std::pair{"validation", &validation_}})
        if (entry.contains(name) && entry[name].is_number()) {
          curve->x.push_back(static_cast<double>(step));
          curve->y.push_back(entry[name].get<double>());
        }
    }
    kept += line + "\n";
  }
  if (log.is_open()) {
    log.close();
    gr::write_file_atomically(folder_ / "log.jsonl", kept);
  }
}

void reporter::warn(std::string_view text) {
  progress_.clear();
  std::fprintf(stderr, "gpt_train: warning: %.*s\n", static_cast<int>(text.size()), text.data());
}

void reporter::log(std::initializer_list<gr::log_field> fields) {
  attempt(log_failed_, [&] { log_.write(fields); });
}

void reporter::step(const step_report& r) {
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

void reporter::draw() const {
  const std::vector<gr::curve> curves{thinned(train_, 300), validation_};
  gr::write_file_atomically(
      folder_ / "loss.svg",
      gr::curve_svg({"Training a GPT: " + folder_.filename().string(), "step", "loss (nats a token)"}, curves));
}

std::string reporter::figures(const step_report& r) const {
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

}  // namespace gpt
