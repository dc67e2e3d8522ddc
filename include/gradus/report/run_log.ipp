#pragma once
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <system_error>
#include <utility>

#include "../core/platform.hpp"
#include "run_log.hpp"

namespace gradus {

GRADUS_IMPL std::string json_string(std::string_view text) {
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

GRADUS_IMPL std::string json_number(double value) {
  if (!std::isfinite(value)) return "null";
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

GRADUS_IMPL log_field::log_field(std::string_view name, std::string_view value)
    : json_(json_string(name) + ": " + json_string(value)) {}

GRADUS_IMPL run_log::run_log(const std::filesystem::path& path) : path_(path.string()) { open(); }

GRADUS_IMPL void run_log::open() {
  errno = 0;
  const int opened = platform::open_file(std::filesystem::path(path_).c_str(), platform::file_use::append);
  std::FILE* const file = opened < 0 ? nullptr : platform::stream_of(opened, "a+b");
  if (file == nullptr) fail();
  file_.reset(file);
  std::setvbuf(file, nullptr, _IONBF, 0);  // a line that cannot be written must not come with a later one
}

// A file that has lost its name can still be read.
GRADUS_IMPL void run_log::restore() {
  std::error_code problem;
  if (std::filesystem::exists(path_, problem)) return;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), problem);
  auto before = std::exchange(file_, nullptr);
  try {
    open();
    std::rewind(before.get());
    std::array<char, 4096> some{};
    while (const std::size_t got = std::fread(some.data(), 1, some.size(), before.get()))
      if (std::fwrite(some.data(), 1, got, file_.get()) != got) fail();
  } catch (const error&) {
    if (file_ != nullptr) std::filesystem::remove(path_, problem);
    file_ = std::move(before);
    throw;
  }
}

GRADUS_IMPL void run_log::write(const std::vector<log_field>& fields) {
  restore();
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

GRADUS_IMPL void run_log::fail() const {
  throw error(path_ + ": cannot be written: " + (errno != 0 ? std::strerror(errno) : "unknown reason"));
}

}  // namespace gradus
