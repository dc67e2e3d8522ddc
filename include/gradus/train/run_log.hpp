#pragma once
#include <concepts>
#include <cstdio>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "../core/config.hpp"
#include "../core/error.hpp"

namespace gradus {

/// `text` as a JSON string, with its quotes. Bytes that are no ASCII pass as they are, so UTF-8 stays UTF-8.
std::string json_string(std::string_view text);

/// A number as JSON: the shortest text that reads back the same, and null for what JSON cannot say (NaN, infinity).
std::string json_number(double value);

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
  log_field(std::string_view name, std::string_view value);
  log_field(std::string_view name, const char* value) : log_field(name, std::string_view(value)) {}
  log_field(std::string_view name, const std::string& value) : log_field(name, std::string_view(value)) {}

  const std::string& json() const { return json_; }

 private:
  std::string json_;
};

/// A log of one JSON object a line (log.jsonl). A line is in the file when write() returns; if that fails (a full disk)
/// gradus::error names the file and the reason, and a later write() begins a line of its own. Where the file has been
/// removed, or its folder, the next write() makes it again, with all its lines.
class run_log {
 public:
  explicit run_log(const std::filesystem::path& path);

  /// `log.write({{"step", 10}, {"loss", 2.5}})`
  void write(std::initializer_list<log_field> fields);

 private:
  struct closer {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  [[noreturn]] void fail() const;
  void open();
  void restore();

  std::string path_;
  std::unique_ptr<std::FILE, closer> file_;
  bool torn_ = false;  // the last line in the file has no end
};

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "run_log.ipp"
#endif
