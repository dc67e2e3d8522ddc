#pragma once
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "../core/config.hpp"

namespace gradus {

/// True when standard output is a terminal that somebody looks at.
bool output_is_a_terminal();

/// Columns that a line on standard output may have: what the environment variable COLUMNS says (from 20), or else the
/// terminal; 80 where that is unknown.
std::size_t output_columns();

/// `####------`: a bar `width` characters wide of which `fraction` (held to 0 … 1; NaN is 0) is filled.
std::string progress_bar(double fraction, std::size_t width = 20);

/// `text` with its lines broken at spaces, so that none is longer than `columns` characters but for a single word that
/// is. What comes behind a break is indented by `indent` spaces.
std::string wrap_text(std::string_view text, std::size_t columns, std::size_t indent = 2);

/// A time as people say it: `12 s`, `3 min`, `1 h 20 min`, `3 d 4 h`.
std::string time_text(double seconds);

/// A part of a line of figures, and how much it matters: those of the highest rank go first where there is no room.
struct line_part {
  std::string text;
  int rank = 0;
};
/// The parts with two spaces between, as many as fit into `columns`; in their order, the ranks that matter least left
/// out. Rank 0 stays.
std::string fitting_line(std::vector<line_part> parts, std::size_t columns);

/// How a long run tells where it is. On a terminal: a bar with a line of figures, redrawn in place. Otherwise: plain
/// lines, no more than one every few seconds, so that a file stays short and readable.
class progress {
 public:
  using clock = std::chrono::steady_clock;

  /// `now` tells the time.
  explicit progress(std::FILE* out = stdout, bool terminal = output_is_a_terminal(),
                    clock::time_point (*now)() = clock::now)
      : out_(out), terminal_(terminal), now_(now) {}
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;
  ~progress();

  /// True if update() would show something now: a caller need not format figures that nobody sees.
  bool due() const { return !shown_ || now_() - last_ >= (terminal_ ? redraw : quiet); }

  /// The state of the run; `fraction` of it is done.
  void update(double fraction, std::string_view figures);

  /// Columns that figures have beside the bar, if there is one.
  std::size_t room() const;

  /// A line that stays, or some; broken where the output is narrower, and without control characters.
  void line(std::string_view text);

  /// Takes the bar away, for a text that somebody else writes.
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
