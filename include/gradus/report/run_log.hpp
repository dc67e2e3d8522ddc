#pragma once
// log.jsonl: one JSON object a line.

#include <concepts>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "../core/config.hpp"
#include "../core/error.hpp"

namespace gradus {

/// `text` as a JSON string, with its quotes. Bytes outside ASCII are copied, so UTF-8 stays UTF-8.
std::string json_string(std::string_view text);

/// A number as JSON: the shortest text that reads back the same; null for NaN and infinity.
std::string json_number(double value);

/// One member of a log line: a name with a number, a text or a list.
class log_field {
 public:
  template <class T>
    requires std::integral<T> || std::floating_point<T>
  log_field(std::string_view name, T value) : json_(json_string(name) + ": ") {
    if constexpr (std::same_as<T, bool>) json_ += value ? "true" : "false";
    else if constexpr (std::integral<T>) json_ += std::to_string(value);
    else json_ += json_number(static_cast<double>(value));
  }
  /// A list of numbers, or of such lists.
  template <class T>
  log_field(std::string_view name, const std::vector<T>& list) : json_(json_string(name) + ": " + json_list(list)) {}
  log_field(std::string_view name, std::string_view value);
  log_field(std::string_view name, const char* value) : log_field(name, std::string_view(value)) {}
  log_field(std::string_view name, const std::string& value) : log_field(name, std::string_view(value)) {}

  const std::string& json() const { return json_; }

 private:
  static std::string json_list(double value) { return json_number(value); }
  template <class T>
  static std::string json_list(const std::vector<T>& list) {
    std::string text;
    for (const T& each : list) text += (text.empty() ? "" : ", ") + json_list(each);
    return "[" + text + "]";
  }

  std::string json_;
};

/// A log of one JSON object a line (log.jsonl). A line is in the file when write() returns; on failure (a full disk)
/// gradus::error names the file and the reason, and the next write() begins a new line. If the file or its folder was
/// removed, the next write() makes it again, with all lines.
class run_log {
 public:
  explicit run_log(const std::filesystem::path& path);

  /// `log.write({{"step", 10}, {"loss", 2.5}})`
  void write(const std::vector<log_field>& fields);

 private:
  struct closer {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  [[noreturn]] void fail() const;
  void open();
  void restore();

  std::string path_;
  std::unique_ptr<std::FILE, closer> file_;
  bool torn_ = false;  // the last line of the file is incomplete
};

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "run_log.ipp"
#endif
