#pragma once
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "../core/platform.hpp"
#include "../core/printable.hpp"
#include "progress.hpp"

namespace gradus {

GRADUS_IMPL bool output_is_a_terminal() { return platform::is_terminal(1); }

GRADUS_IMPL std::size_t output_columns() {
  if (const char* const told = std::getenv("COLUMNS"))
    if (const long columns = std::strtol(told, nullptr, 10); columns >= 20 && columns < 10000)
      return static_cast<std::size_t>(columns);
  if (const std::size_t columns = platform::terminal_columns(); columns > 0) return columns;
  return 80;
}

GRADUS_IMPL std::string progress_bar(double fraction, std::size_t width) {
  const double part = fraction > 0 ? std::min(fraction, 1.0) : 0.0;
  const auto filled = static_cast<std::size_t>(part * static_cast<double>(width));
  return std::string(filled, '#') + std::string(width - filled, '-');
}

GRADUS_IMPL std::string wrap_text(std::string_view text, std::size_t columns, std::size_t indent) {
  std::string out;
  const auto characters = [](std::string_view some) {
    return static_cast<std::size_t>(
        std::ranges::count_if(some, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
  };
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    std::size_t room = columns;
    while (characters(line) > room) {
      // The last space before the room ends; or else the first one behind it.
      std::size_t cut = std::string_view::npos;
      for (std::size_t at = line.find(' ', line.find_first_not_of(' ')); at != std::string_view::npos;
           at = line.find(' ', at + 1)) {
        if (cut != std::string_view::npos && characters(line.substr(0, at)) > room) break;
        cut = at;
      }
      if (cut == std::string_view::npos || line.find_first_not_of(' ', cut) == std::string_view::npos) break;
      out.append(line.substr(0, line.find_last_not_of(' ', cut) + 1)).append("\n").append(indent, ' ');
      line.remove_prefix(line.find_first_not_of(' ', cut));
      room = columns > indent ? columns - indent : 1;
    }
    out += line;
    if (end < text.size()) out += '\n';
    begin = end + 1;
  }
  return out;
}

GRADUS_IMPL std::string time_text(double seconds) {
  if (!(seconds >= 0 && seconds < 1e9)) return "?";
  const auto whole = static_cast<long long>(std::llround(seconds));
  const auto two = [](long long greater, const char* name, long long lesser, const char* less) {
    return std::to_string(greater) + name + (lesser > 0 ? " " + std::to_string(lesser) + less : "");
  };
  if (whole < 100) return std::to_string(whole) + " s";
  if (whole < 100 * 60) return std::to_string((whole + 30) / 60) + " min";
  if (whole < 48 * 3600) return two(whole / 3600, " h", whole % 3600 / 60, " min");
  return two(whole / 86400, " d", whole % 86400 / 3600, " h");
}

GRADUS_IMPL std::string fitting_line(std::vector<line_part> parts, std::size_t columns) {
  const auto joined = [&] {
    std::string line;
    for (const line_part& p : parts) line.append(line.empty() ? "" : "  ").append(p.text);
    return line;
  };
  for (;;) {
    const auto least = std::ranges::max_element(parts, {}, &line_part::rank);
    std::string line = joined();
    if (line.size() <= columns || least == parts.end() || least->rank == 0) return line;
    parts.erase(least);
  }
}

GRADUS_IMPL progress::~progress() { clear_bar(); }

GRADUS_IMPL void progress::update(double fraction, std::string_view figures) {
  if (!due()) return;
  shown_ = true;
  last_ = now_();
  if (terminal_) {
    // Cut to the terminal's width, because a line that wraps cannot be redrawn. "\033[K" clears what a longer text
    // before left to the right.
    char head[64];
    const std::string bar = output_columns() < 60 ? "" : "[" + progress_bar(fraction) + "] ";
    const int used = std::snprintf(head, sizeof head, "%s%3.0f %% ", bar.c_str(), 100 * std::clamp(fraction, 0.0, 1.0));
    const std::size_t room = output_columns() - std::min(output_columns(), static_cast<std::size_t>(used) + 1);
    const auto shown = figures.substr(0, room);
    std::fprintf(out_, "\r%s%.*s\033[K", head, static_cast<int>(shown.size()), shown.data());
    bar_ = true;
  } else {
    std::fprintf(out_, "%.*s\n", static_cast<int>(figures.size()), figures.data());
  }
  std::fflush(out_);
}

GRADUS_IMPL std::size_t progress::room() const {
  const std::size_t bar = !terminal_ ? 0 : output_columns() < 60 ? 7 : 30;
  return output_columns() - std::min(output_columns(), bar);
}

GRADUS_IMPL void progress::line(std::string_view text) {
  clear_bar();
  const std::string shown = wrap_text(printable(text, line_ends::kept), output_columns());
  std::fprintf(out_, "%s\n", shown.c_str());
  std::fflush(out_);
  if (!terminal_) last_ = now_();
}

GRADUS_IMPL void progress::clear() {
  clear_bar();
  std::fflush(out_);
}

GRADUS_IMPL void progress::clear_bar() {
  if (bar_) std::fputs("\r\033[K", out_);
  bar_ = false;
}

}  // namespace gradus
