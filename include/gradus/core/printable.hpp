#pragma once
// Makes text safe for a terminal: escapes control characters and invalid UTF-8.

#include <cstddef>
#include <string>
#include <string_view>

namespace gradus {

namespace detail {

// Bytes of the UTF-8 character at the start of a text: 0 if it is invalid; `more` if the text ends within it.
constexpr std::size_t utf8_length(std::string_view text, bool& more) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const std::size_t length = first < 0x80                    ? 1
                             : first >= 0xC2 && first < 0xE0 ? 2
                             : first >= 0xE0 && first < 0xF0 ? 3
                             : first >= 0xF0 && first < 0xF5 ? 4
                                                             : 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (i == text.size()) {
      more = true;
      return 0;
    }
    const unsigned char low = i > 1 ? 0x80 : first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    const unsigned char high = i > 1 ? 0xBF : first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    if (byte(i) < low || byte(i) > high) return 0;
  }
  return length;
}

}  // namespace detail

/// Whether line ends are escaped, too.
enum class line_ends { escaped, kept };

/// Makes text that arrives in parts safe for a terminal: control characters, which could move the cursor or change
/// colours, and bytes that are not UTF-8 become `\x1b`. Tabs stay, and line ends if kept.
class printable_text {
 public:
  explicit printable_text(line_ends ends = line_ends::kept) : ends_(ends) {}

  /// The printable text of this part. An incomplete character at its end is kept for the next part.
  std::string add(std::string_view part) {
    const std::string whole = held_.append(part);
    held_.clear();
    std::string out;
    for (std::string_view left = whole; !left.empty();) {
      bool more = false;
      const std::size_t length = detail::utf8_length(left, more);
      if (more) {
        held_ = left;
        break;
      }
      const auto first = static_cast<unsigned char>(left[0]);
      const bool c1 = length == 2 && first == 0xC2 && static_cast<unsigned char>(left[1]) < 0xA0;
      const bool kept = first == '\t' || (first == '\n' && ends_ == line_ends::kept);
      if (length == 0 || c1 || (length == 1 && !kept && (first < 0x20 || first == 0x7F))) {
        for (std::size_t i = 0; i < (length == 0 ? 1 : length); ++i) escape(out, static_cast<unsigned char>(left[i]));
        left.remove_prefix(length == 0 ? 1 : length);
      } else {
        out.append(left.substr(0, length));
        left.remove_prefix(length);
      }
    }
    return out;
  }
  /// The rest that add() kept.
  std::string finish() {
    std::string out;
    for (const char c : held_) escape(out, static_cast<unsigned char>(c));
    held_.clear();
    return out;
  }

 private:
  static void escape(std::string& out, unsigned char c) {
    constexpr std::string_view digits = "0123456789abcdef";
    out += "\\x";
    out += digits[c >> 4];
    out += digits[c & 15u];
  }

  line_ends ends_;
  std::string held_;
};

/// A whole text, made safe for a terminal; see printable_text.
inline std::string printable(std::string_view text, line_ends ends = line_ends::escaped) {
  printable_text all(ends);
  std::string out = all.add(text);
  return out += all.finish();
}

}  // namespace gradus
