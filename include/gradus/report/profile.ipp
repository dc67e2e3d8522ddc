#pragma once
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "../core/sort.hpp"
#include "profile.hpp"

namespace gradus {

GRADUS_IMPL void profiler::begin(const activity& what) {
  const double now = clock();
  if (!open_.empty()) open_.back().inner -= now;
  open_.push_back({what, now, 0});
}

GRADUS_IMPL void profiler::end(const activity&) {
  const double now = clock();
  const running r = open_.back();
  open_.pop_back();
  if (!open_.empty()) open_.back().inner += now;
  entry& e = entry_of(r.what);
  ++e.runs;
  e.seconds += now - r.begin - r.inner;
  e.work = e.work + r.what.work;
}

GRADUS_IMPL void profiler::add_step(double seconds) {
  ++steps_;
  step_seconds_ += seconds;
}

GRADUS_IMPL double profiler::clock() const {
  if (wait_) wait_();
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

GRADUS_IMPL profiler::entry& profiler::entry_of(const activity& what) {
  for (entry& e : entries_)
    if (e.phase == what.phase && e.name == what.name) return e;
  entries_.push_back({what.name, what.phase, 0, 0, {}});
  return entries_.back();
}

GRADUS_IMPL std::string profile_table(const profiler& p, const machine_rates& machine, std::size_t columns) {
  const bool narrow = columns < 80;
  auto rows = p.entries();
  detail::sort_stably(rows, [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  const double steps = static_cast<double>(std::max<std::size_t>(p.steps(), 1));
  double within = 0, least = 0;
  char text[128];
  const auto best_of = [&](const cost& work) {
    const double products = machine.flops > 0 ? static_cast<double>(work.flops) / machine.flops : 0;
    return std::max(products, machine.bytes > 0 ? static_cast<double>(work.bytes()) / machine.bytes : 0);
  };
  const auto share = [&](double part, double whole) {
    if (part > 2 * whole) return std::string("  > 200 %");  // the machine was busy when its best was measured
    std::snprintf(text, sizeof text, "%7.0f %%", 100 * part / whole);
    return std::string(text);
  };
  std::string table;
  for (const auto& r : rows) {
    within += r.seconds;
    least += best_of(r.work);
  }
  std::snprintf(text, sizeof text, "%zu steps of %.2f ms, ", p.steps(), 1e3 * p.step_seconds() / steps);
  table = text;
  std::snprintf(text, sizeof text, "%.0f %% of it within operations\n",
                p.step_seconds() > 0 ? 100 * within / p.step_seconds() : 0);
  table += text;
  if (narrow) std::snprintf(text, sizeof text, "%-13s%-9s%9s%9s\n", "operation", "phase", "ms", "share");
  else
    std::snprintf(text, sizeof text, "%-20s%-10s%6s%9s%9s%9s%8s%9s\n", "operation", "phase", "runs", "ms", "share",
                  "GFLOP/s", "GB/s", "of best");
  table += text;
  for (const auto& r : rows) {
    std::string name(r.name.substr(0, 19));
    for (char& c : name)
      if (c < ' ' || c > '~') c = '?';
    if (narrow) {
      std::snprintf(text, sizeof text, "%-13.12s%-9.9s%9.3f%7.1f %%\n", name.c_str(),
                    std::string(phase_name(r.phase)).c_str(), 1e3 * r.seconds / steps,
                    within > 0 ? 100 * r.seconds / within : 0);
      table += text;
      continue;
    }
    const double seconds = std::max(r.seconds, 1e-12);
    std::snprintf(text, sizeof text, "%-20s%-10s%6.4g%9.3f", name.c_str(), std::string(phase_name(r.phase)).c_str(),
                  static_cast<double>(r.runs) / steps, 1e3 * r.seconds / steps);
    table += text;
    std::snprintf(text, sizeof text, "%7.1f %%%9.1f%8.1f", within > 0 ? 100 * r.seconds / within : 0,
                  static_cast<double>(r.work.flops) / seconds * 1e-9,
                  static_cast<double>(r.work.bytes()) / seconds * 1e-9);
    table += text;
    table += best_of(r.work) > 0 ? share(best_of(r.work), seconds) : std::string("        -");
    table += '\n';
  }
  if (least > 1.2 * p.step_seconds()) {
    table += "the machine did less when its best was measured than in the steps: it is busy with other work\n";
  } else if (least > 0) {
    std::snprintf(text, sizeof text,
                  "at its best, this machine would take %.2f ms a step: %.0f %% of that is reached\n",
                  1e3 * least / steps, 100 * least / p.step_seconds());
    table += text;
  }
  return table;
}

}  // namespace gradus
