#pragma once
#include "../core/byte_size.hpp"
#include "../core/cost.hpp"
#include "curve_svg.hpp"
#include "memory_table.hpp"

namespace gradus {

namespace detail {

// `value` in the largest of `units` that leaves it at least 1: "12.3 MiB".
template <std::size_t N>
std::string scaled(double value, double base, const std::array<const char*, N>& units) {
  std::size_t u = 0;
  for (; u + 1 < N && value >= base; ++u) value /= base;
  return svg_number(value, u == 0 ? 0 : u < 3 ? 1 : 2) + " " + units[u];
}
GRADUS_IMPL std::string flops_text(std::size_t flops) {
  return scaled(static_cast<double>(flops), 1000, std::array{"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"});
}
GRADUS_IMPL std::string share_text(std::size_t part, std::size_t whole) {
  return svg_number(whole == 0 ? 0.0 : 100 * static_cast<double>(part) / static_cast<double>(whole)) + " %";
}
GRADUS_IMPL std::string peak_text(const step_summary& plan) {
  if (plan.peak_bytes <= plan.persistent_bytes) return "before the step";
  return (plan.peak_op.empty() ? "outside of operations" : std::string(plan.peak_op)) + ", " +
         std::string(phase_name(plan.peak_phase)) + ", request " + std::to_string(plan.peak_request + 1) + " of " +
         std::to_string(plan.requests);
}

GRADUS_IMPL std::array<std::string, 8> table_row(std::string_view name, const phase_total (&phases)[phase_count],
                                                 std::size_t saved) {
  const auto runs = [&](phase p) { return std::to_string(phases[static_cast<std::size_t>(p)].runs); };
  const auto& other = phases[static_cast<std::size_t>(phase::outside)];
  cost work;
  for (const phase_total& p : phases) work = work + p.work;
  return {std::string(name),
          runs(phase::forward),
          runs(phase::recompute),
          runs(phase::backward),
          std::to_string(other.runs + phases[static_cast<std::size_t>(phase::update)].runs),
          flops_text(work.flops),
          format_bytes(work.bytes()),
          format_bytes(saved)};
}

}  // namespace detail

GRADUS_IMPL std::string memory_table(const step_summary& plan, std::size_t columns) {
  // A column of width 0 is left out.
  const auto widths = columns >= 95   ? std::array<int, 8>{24, 8, 10, 9, 7, 13, 12, 12}
                      : columns >= 80 ? std::array<int, 8>{17, 8, 10, 9, 0, 13, 12, 11}
                                      : std::array<int, 8>{16, 0, 0, 0, 0, 13, 0, 11};
  std::string out;
  const auto cell = [&](std::string text, int width, bool left) {
    const auto room = static_cast<std::size_t>(width);
    for (char& c : text)
      if (c < ' ' || c > '~') c = '?';
    if (text.size() >= room && left) text = text.substr(0, room - 3) + "..";
    const std::size_t fill = text.size() < room ? room - text.size() : 0;
    out += left ? text + std::string(fill, ' ') : std::string(fill, ' ') + text;
  };
  const auto row = [&](const auto& texts) {
    for (std::size_t i = 0; i < texts.size(); ++i)
      if (widths[i] > 0) cell(texts[i], widths[i], i == 0);
    out += '\n';
  };
  row(detail::table_head);
  for (std::size_t i = 0; i < plan.op_count; ++i)
    row(detail::table_row(plan.ops[i].name, plan.ops[i].phases, plan.ops[i].saved_bytes));
  row(detail::table_row("all", plan.phases, plan.saved_bytes));

  const auto part = [&](std::string_view name, std::size_t bytes, const std::string& more) {
    cell(std::string(name), 20, true);
    cell(format_bytes(bytes), 11, false);
    cell(more, 9, false);
  };
  out += '\n';
  part("peak", plan.peak_bytes, "");
  std::string when = "  " + detail::peak_text(plan);
  for (char& c : when)
    if (c < ' ' || c > '~') c = '?';
  out += columns >= 95 ? when.substr(0, 60) + '\n' : columns >= 80 ? when.substr(0, 40) + '\n' : "\n";
  for (std::size_t c = 0; c < category_count; ++c) {
    part("  " + std::string(category_name(static_cast<category>(c))), plan.at_peak[c],
         detail::share_text(plan.at_peak[c], plan.peak_bytes));
    out += '\n';
  }
  part("persistent", plan.persistent_bytes, detail::share_text(plan.persistent_bytes, plan.peak_bytes));
  return out + '\n';
}

}  // namespace gradus
