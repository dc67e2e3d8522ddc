#pragma once
// A progress bar, and text that fits the terminal.

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "../core/config.hpp"

namespace gradus {

/// Whether standard output is a terminal.
bool output_is_a_terminal();

/// Columns of standard output: the environment variable COLUMNS (20 or more), the terminal's, or else 80.
std::size_t output_columns();

/// `####------`: a bar `width` characters wide, filled to `fraction` (held to 0 … 1; NaN is 0).
std::string progress_bar(double fraction, std::size_t width = 20);

/// Breaks the lines of `text` at spaces, to at most `columns` characters each unless a word is longer, and indents
/// continuation lines by `indent` spaces.
std::string wrap_text(std::string_view text, std::size_t columns, std::size_t indent = 2);

/// A time in the units that fit: `12 s`, `3 min`, `1 h 20 min`, `3 d 4 h`.
std::string time_text(double seconds);

/// A part of a line of figures. Parts of the highest rank are dropped first.
struct line_part {
  std::string text;
  int rank = 0;
};
/// Joins the parts with two spaces, in their order, and drops parts by rank until the line fits into `columns`. Rank 0
/// stays.
std::string fitting_line(std::vector<line_part> parts, std::size_t columns);

/// Shows the state of a long run: on a terminal a bar with figures, redrawn in place; otherwise plain lines, at most
/// one every few seconds.
class progress {
 public:
  using clock = std::chrono::steady_clock;

  /// `now` returns the time.
  explicit progress(std::FILE* out = stdout, bool terminal = output_is_a_terminal(),
                    clock::time_point (*now)() = clock::now)
      : out_(out), terminal_(terminal), now_(now) {}
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;
  ~progress();

  /// Whether update() would show anything now; if not, the caller need not format figures.
  bool due() const { return !shown_ || now_() - last_ >= (terminal_ ? redraw : quiet); }

  /// Shows figures; `fraction` of the run is done.
  void update(double fraction, std::string_view figures);

  /// Columns for figures, beside the bar if there is one.
  std::size_t room() const;

  /// Prints lines that stay, broken to the output's width, without control characters.
  void line(std::string_view text);

  /// Erases the bar before other output.
  void clear();

 private:
  static constexpr clock::duration redraw = std::chrono::milliseconds(200);
  static constexpr clock::duration quiet = std::chrono::seconds(10);

  void clear_bar();

  std::FILE* out_;
  bool terminal_;
  clock::time_point (*now_)();
  bool bar_ = false;
  bool shown_ = false;
  clock::time_point last_{};
};

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "progress.ipp"
#endif
