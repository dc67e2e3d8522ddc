#pragma once
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "../core/printable.hpp"
#include "../io/atomic_file.hpp"
#include "../io/json.hpp"
#include "../report/overfitting.hpp"
#include "run_reporter.hpp"

namespace gradus {

GRADUS_IMPL run_reporter::run_reporter(std::filesystem::path folder, reporter_names names, long long steps)
    : folder_(std::move(folder)),
      names_(std::move(names)),
      log_((read_log(steps), folder_ / "log.jsonl")) {}  // rewritten before it is opened

GRADUS_IMPL run_reporter::~run_reporter() = default;

GRADUS_IMPL void run_reporter::write_events(long long steps) {
  attempt(events_failed_, [&] { events_ = std::make_unique<tensorboard_writer>(folder_, steps > 0 ? steps + 1 : 0); });
}

GRADUS_IMPL void run_reporter::warn(std::string_view text) {
  progress_.clear();
  std::fprintf(stderr, "%s: warning: %s\n", names_.program.c_str(), printable(text).c_str());
}

GRADUS_IMPL void run_reporter::log(const std::vector<log_field>& fields) {
  attempt(log_failed_, [&] { log_.write(fields); });
}

GRADUS_IMPL void run_reporter::hold(const step_report& r, std::function<step_figures()> figures) {
  held_ = r;
  read_figures_ = std::move(figures);
  held_is_ = held;
}

GRADUS_IMPL double run_reporter::held_loss() {
  if (read_figures_) {
    const step_figures read = read_figures_();
    held_.loss = read.loss;
    held_.norm = read.norm;
    read_figures_ = nullptr;
  }
  return held_.loss;
}

GRADUS_IMPL void run_reporter::record_held() {
  if (held_is_ != held) return;
  held_loss();
  held_is_ = recorded;
  record(held_);
}

GRADUS_IMPL void run_reporter::show_held() {
  record_held();
  if (std::exchange(held_is_, nothing) != nothing) show(held_);
}

GRADUS_IMPL void run_reporter::record(const step_report& r) {
  add_point(train_, r.step, r.loss);
  const auto add_norm = [&r](std::vector<log_field> fields) {
    if (!std::isnan(r.norm)) fields.emplace_back("norm", r.norm);
    return fields;
  };
  if (!std::isnan(r.validation)) {
    add_point(validation_, r.step, r.validation);
    auto fields = add_norm({{"step", r.step},
                            {"loss", r.loss},
                            {"validation", r.validation},
                            {"lr", r.lr},
                            {"tokens", r.tokens},
                            {"seconds", r.elapsed},
                            {"tokens_per_second", r.tokens_per_second},
                            {"tflops", r.flops / 1e12},
                            {"share_of_gemm", r.flops / names_.machine_flops}});
    if (r.bits_per_byte > 0) fields.emplace_back("bits_per_byte", r.bits_per_byte);
    fields.insert(fields.end(), r.fields.begin(), r.fields.end());
    log(fields);
  } else {
    log(add_norm({{"step", r.step}, {"loss", r.loss}, {"lr", r.lr}, {"tokens", r.tokens}, {"seconds", r.elapsed}}));
  }
  if (events_ != nullptr) attempt(events_failed_, [&] { write_event(r); });
}

GRADUS_IMPL void run_reporter::show(const step_report& r) {
  if (std::isnan(r.validation)) {
    if (progress_.due()) progress_.update(r.fraction, figures(r, progress_.room()));
    return;
  }
  progress_.line(figures(r, output_columns()));
  if (!r.note.empty()) progress_.line(r.note);
  report_overfitting();
  attempt(picture_failed_, [&] { draw(); });
}

GRADUS_IMPL void run_reporter::note_failure(bool& failed, const error& e) {
  if (!failed) warn(std::string(e.what()) + "; the run goes on");
  failed = true;
}

// A pipe in the log's place would keep the run waiting for a reader.
GRADUS_IMPL void run_reporter::check_log() const {
  std::error_code problem;
  const auto status = std::filesystem::status(folder_ / "log.jsonl", problem);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    throw error((folder_ / "log.jsonl").string() + ": is not a plain file; move it away");
}

// A step can appear twice: once before and once after its validation, or again after a resume. The last line with a
// loss counts, and drops the steps between the two, which the resumed run takes again.
GRADUS_IMPL void run_reporter::read_log(long long steps) {
  check_log();
  if (steps == 0) return;
  std::ifstream log(folder_ / "log.jsonl");
  std::string all, kept;
  std::vector<std::pair<long long, std::size_t>> places;  // of steps, where their lines begin in `kept`
  for (std::string line; std::getline(log, line);) {
    all += line + (log.eof() ? "" : "\n");
    const auto entry = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!entry.is_object()) continue;  // a line that a kill cut short
    if (entry.contains("step") && entry["step"].is_number_integer()) {
      const auto step = entry["step"].get<long long>();
      if (step > steps) continue;
      if (!places.empty() && places.back().first == step && !(entry.contains("loss") && entry["loss"].is_number()))
        continue;  // of a run that was resumed and took no step
      for (; !places.empty() && places.back().first >= step; places.pop_back()) kept.resize(places.back().second);
      places.emplace_back(step, kept.size());
      for (const auto& [name, c] : {std::pair{"loss", &train_}, std::pair{"validation", &validation_}}) {
        while (!c->x.empty() && c->x.back() >= static_cast<double>(step)) c->x.pop_back(), c->y.pop_back();
        if (entry.contains(name) && entry[name].is_number()) add_point(*c, step, entry[name].get<double>());
      }
    }
    kept += line + "\n";
  }
  log.close();
  if (kept != all) attempt(log_failed_, [&] { write_file_atomically(folder_ / "log.jsonl", kept); });
}

GRADUS_IMPL void run_reporter::add_point(curve& c, long long step, double y) {
  if (const auto x = static_cast<double>(step); c.x.empty() || c.x.back() != x) c.x.push_back(x), c.y.push_back(y);
  else c.y.back() = y;
}

// A long run has more steps than the chart has pixels, and single steps are noisy: means of runs of steps.
GRADUS_IMPL curve run_reporter::thinned(const curve& c, std::size_t most) {
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

GRADUS_IMPL double run_reporter::smoothed(const curve& c) {
  double sum = 0, weight = 0;
  for (std::size_t i = c.y.size() - std::min<std::size_t>(c.y.size(), 100); i < c.y.size(); ++i) {
    if (std::isnan(c.y[i])) continue;
    sum = 0.9 * sum + c.y[i];
    weight = 0.9 * weight + 1;
  }
  return sum / weight;
}

GRADUS_IMPL void run_reporter::draw() const {
  const std::vector<curve> curves{thinned(train_, 300), validation_};
  write_file_atomically(folder_ / "loss.svg",
                        curve_svg({printable(names_.title + ": " + folder_.filename().string()), "step",
                                   "loss (" + (names_.loss.empty() ? "nats a " + names_.unit : names_.loss) + ")"},
                                  curves));
}

GRADUS_IMPL void run_reporter::write_event(const step_report& r) {
  if (!std::isnan(r.norm)) events_->scalars(r.step, {{"gradient norm", r.norm}});
  if (std::isnan(r.validation)) return events_->scalars(r.step, {{"loss/train", r.loss}, {"learning rate", r.lr}});
  events_->scalars(r.step, {{"loss/train", r.loss},
                            {"loss/validation", r.validation},
                            {"learning rate", r.lr},
                            {names_.unit + "s per second", r.tokens_per_second}});
  if (r.bits_per_byte > 0) events_->scalars(r.step, {{"bits per byte", r.bits_per_byte}});
}

GRADUS_IMPL void run_reporter::report_overfitting() {
  const auto found = find_overfitting(train_.x, train_.y, validation_.x, validation_.y);
  if (!found || found->step == reported_overfitting_) return;
  reported_overfitting_ = found->step;
  char text[192];
  std::snprintf(text, sizeof text,
                "overfitting: since step %.0f the validation loss has risen, from %.4f to %.4f, and the training loss "
                "fallen; ",
                found->step, found->lowest, found->now);
  const std::string kept = names_.best.empty() ? "the run could end there" : names_.best + " is the model of that step";
  progress_.line(text + kept + "; more data, dropout or fewer steps help");
}

GRADUS_IMPL std::string run_reporter::figures(const step_report& r, std::size_t columns) const {
  char text[96];
  std::vector<line_part> parts;
  const auto add = [&](int rank, const char* format, auto... values) {
    std::snprintf(text, sizeof text, format, values...);
    parts.push_back({text, rank});
  };
  const bool narrow = columns < 60;
  const bool runs = r.fraction > 0 && r.fraction < 1;
  // Beside the bar of a narrow screen, which says how far the run is, the number of the step gives way to the time that
  // is left.
  add(columns < 40 && runs ? 3 : 0, narrow ? "step %lld" : "step %5lld", r.step);
  add(0, "loss %.4f", smoothed(train_));
  if (!std::isnan(r.validation)) add(1, narrow ? "val %.4f" : "validation %.4f", r.validation);
  if (r.bits_per_byte > 0) add(5, "%.4f bits/byte", r.bits_per_byte);
  if (r.lr > 0) add(6, "lr %.2e", r.lr);
  if (!std::isnan(r.norm)) add(7, "norm %.2g", r.norm);
  add(8, "%.2fM %ss", r.tokens / 1e6, names_.unit.c_str());
  add(runs ? 5 : 2, "%s", time_text(r.elapsed).c_str());
  if (runs) add(2, "%s left", time_text(r.elapsed * (1 - r.fraction) / r.fraction).c_str());
  if (r.flops > 0 && names_.machine_flops > 0) add(3, "%.0f %% of GEMM", 100 * r.flops / names_.machine_flops);
  add(4, "%.0f %ss/s", r.tokens_per_second, names_.unit.c_str());
  if (r.flops > 0) add(9, "%.3f TFLOP/s", r.flops / 1e12);
  return fitting_line(std::move(parts), columns);
}

}  // namespace gradus
