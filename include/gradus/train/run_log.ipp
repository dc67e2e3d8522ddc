#pragma once
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstring>

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

GRADUS_IMPL run_log::run_log(const std::filesystem::path& path) : path_(path.string()) {
  errno = 0;
  file_.reset(std::fopen(path_.c_str(), "ab"));
  if (file_ == nullptr) fail();
  std::setvbuf(file_.get(), nullptr, _IONBF, 0);  // a line that cannot be written must not come with a later one
}

GRADUS_IMPL void run_log::write(std::initializer_list<log_field> fields) {
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
