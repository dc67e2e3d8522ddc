#pragma once
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>

#if defined(__unix__) || defined(__APPLE__)
#include <sys/ioctl.h>
#include <unistd.h>
#endif

namespace gradus {

/// True when standard output is a terminal that somebody looks at.
inline bool output_is_a_terminal() {
#if defined(__unix__) || defined(__APPLE__)
  return isatty(STDOUT_FILENO) == 1;
#else
  return false;
#endif
}

/// Columns of the terminal that standard output is; 80 where that is unknown.
inline std::size_t output_columns() {
#if defined(__unix__) || defined(__APPLE__)
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
#endif
  return 80;
}

/// `####------`: a bar `width` characters wide of which `fraction` (held to 0 … 1; NaN is 0) is filled.
inline std::string progress_bar(double fraction, std::size_t width = 20) {
  const double part = fraction > 0 ? std::min(fraction, 1.0) : 0.0;
  const auto filled = static_cast<std::size_t>(part * static_cast<double>(width));
  return std::string(filled, '#') + std::string(width - filled, '-');
}

/// How a long run tells where it is. On a terminal: a bar with a line of figures, redrawn in place. Otherwise: plain lines,
/// no more than one every few seconds, so that a file stays short and readable.
class progress {
 public:
  using clock = std::chrono::steady_clock;

  /// `now` tells the time.
  explicit progress(std::FILE* out = stdout, bool terminal = output_is_a_terminal(),
                    clock::time_point (*now)() = clock::now)
      : out_(out), terminal_(terminal), now_(now) {}
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;
  ~progress() { clear_bar(); }

  /// True if update() would show something now: a caller need not format figures that nobody sees.
  bool due() const { return !shown_ || now_() - last_ >= (terminal_ ? redraw : quiet); }

  /// The state of the run; `fraction` of it is done.
  void update(double fraction, std::string_view figures) {
    if (!due()) return;
    shown_ = true;
    last_ = now_();
    if (terminal_) {
      // Cut to the terminal's width, because a line that wraps cannot be redrawn. "\033[K" clears what a longer text before
      // left to the right.
      char head[64];
      const int used = std::snprintf(head, sizeof head, "[%s] %3.0f %% ", progress_bar(fraction).c_str(),
                                     100 * std::clamp(fraction, 0.0, 1.0));
      const std::size_t room = output_columns() - std::min(output_columns(), static_cast<std::size_t>(used) + 1);
      const auto shown = figures.substr(0, room);
      std::fprintf(out_, "\r%s%.*s\033[K", head, static_cast<int>(shown.size()), shown.data());
      bar_ = true;
    } else {
      std::fprintf(out_, "%.*s\n", static_cast<int>(figures.size()), figures.data());
    }
    std::fflush(out_);
  }

  /// A line that stays.
  void line(std::string_view text) {
    clear_bar();
    std::fprintf(out_, "%.*s\n", static_cast<int>(text.size()), text.data());
    std::fflush(out_);
    if (!terminal_) last_ = now_();
  }

  /// Takes the bar away, for a text that somebody else writes.
  void clear() {
    clear_bar();
    std::fflush(out_);
  }

 private:
  static constexpr clock::duration redraw = std::chrono::milliseconds(200);
  static constexpr clock::duration quiet = std::chrono::seconds(10);

  void clear_bar() {
    if (bar_) std::fputs("\r\033[K", out_);
    bar_ = false;
  }

  std::FILE* out_;
  bool terminal_;
  clock::time_point (*now_)();
  bool bar_ = false;
  bool shown_ = false;
  clock::time_point last_{};
};

}  // namespace gradus
