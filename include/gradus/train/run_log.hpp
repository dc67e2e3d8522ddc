#pragma once
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "../core/error.hpp"

namespace gradus {

/// `text` as a JSON string, with its quotes. Bytes that are no ASCII pass as they are, so UTF-8 stays UTF-8.
inline std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      constexpr std::string_view digits = "0123456789abcdef";
      out += "\\u00";
      out += digits[static_cast<unsigned char>(c) >> 4];
      out += digits[static_cast<unsigned char>(c) & 15u];
    } else {
      out += c;
    }
  }
  return out + '"';
}

/// A number as JSON: the shortest text that reads back the same, and null for what JSON cannot say (NaN, infinity).
inline std::string json_number(double value) {
  if (!std::isfinite(value)) return "null";
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

/// One member of a log line: a name with a number or a text.
class log_field {
 public:
  template <class T>
    requires std::integral<T> || std::floating_point<T>
  log_field(std::string_view name, T value) : json_(json_string(name) + ": ") {
    if constexpr (std::same_as<T, bool>) json_ += value ? "true" : "false";
    else if constexpr (std::integral<T>) json_ += std::to_string(value);
    else json_ += json_number(static_cast<double>(value));
  }
  log_field(std::string_view name, std::string_view value) : json_(json_string(name) + ": " + json_string(value)) {}
  log_field(std::string_view name, const char* value) : log_field(name, std::string_view(value)) {}
  log_field(std::string_view name, const std::string& value) : log_field(name, std::string_view(value)) {}

  const std::string& json() const { return json_; }

 private:
  std::string json_;
};

/// A log of one JSON object a line (log.jsonl). A line is in the file when write() returns; if that fails (a full disk)
/// gradus::error names the file and the reason, and a later write() begins a line of its own.
class run_log {
 public:
  explicit run_log(const std::filesystem::path& path) : path_(path.string()) {
    errno = 0;
    file_.reset(std::fopen(path_.c_str(), "ab"));
    if (file_ == nullptr) fail();
    std::setvbuf(file_.get(), nullptr, _IONBF, 0);  // a line that cannot be written must not come with a later one
  }

  /// `log.write({{"step", 10}, {"loss", 2.5}})`
  void write(std::initializer_list<log_field> fields) {
    std::string line = torn_ ? "\n{" : "{";
    const char* before = "";
    for (const log_field& field : fields) {
      line += before + field.json();
      before = ", ";
    }
    line += "}\n";
    errno = 0;
    const std::size_t written = std::fwrite(line.data(), 1, line.size(), file_.get());
    if (written == line.size()) {
      torn_ = false;
      return;
    }
    torn_ = torn_ || written > 0;
    fail();
  }

 private:
  struct closer {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  [[noreturn]] void fail() const {
    throw error(path_ + ": cannot be written: " + (errno != 0 ? std::strerror(errno) : "unknown reason"));
  }

  std::string path_;
  std::unique_ptr<std::FILE, closer> file_;
  bool torn_ = false;  // the last line in the file has no end
};

}  // namespace gradus
