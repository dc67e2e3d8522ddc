#pragma once
#include <algorithm>
#include <cstddef>
#include <string_view>
#include <system_error>

#include "config_file.hpp"
#include "random_access_file.hpp"

namespace gradus {

GRADUS_IMPL config_entries read_config(const std::filesystem::path& path) {
  std::error_code problem;
  const auto status = std::filesystem::status(path, problem);
  if (std::filesystem::exists(status) && !std::filesystem::is_directory(status) &&
      !std::filesystem::is_regular_file(status))
    throw error(path.string() + ": is not a plain file");
  const std::string text = random_access_file(path).text();
  const auto trimmed = [](std::string_view padded) {
    constexpr std::string_view blanks = " \t\r";
    const std::size_t begin = padded.find_first_not_of(blanks);
    if (begin == std::string_view::npos) return std::string_view();
    return padded.substr(begin, padded.find_last_not_of(blanks) + 1 - begin);
  };
  config_entries entries;
  std::size_t number = 0;
  for (std::string_view left = text; !left.empty();) {
    const std::string_view line = trimmed(left.substr(0, left.find('\n')));
    left.remove_prefix(std::min(left.find('\n'), left.size() - 1) + 1);
    ++number;
    if (line.empty() || line.front() == '#') continue;
    const std::size_t sign = line.find('=');
    const std::string_view name = trimmed(line.substr(0, std::min(sign, line.size())));
    if (sign == std::string_view::npos || name.empty() || name.find_first_of(" \t") != std::string_view::npos)
      throw error(path.string() + ": line " + std::to_string(number) + ": must be 'name = value', not '" +
                  std::string(line.substr(0, 60)) + "'");
    std::string_view value = trimmed(line.substr(sign + 1));
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"') value = value.substr(1, value.size() - 2);
    entries.emplace_back(name, value);
  }
  return entries;
}

GRADUS_IMPL std::string config_text(const config_entries& entries) {
  std::string text;
  for (const auto& [name, value] : entries) {
    if (value.find('\n') != std::string::npos)
      throw error("the value of '" + name + "' has a line end, which a configuration file cannot hold");
    const bool quoted = value.empty() || value.front() == '"' || std::string_view(" \t\r").find(value.front()) < 3 ||
                        std::string_view(" \t\r").find(value.back()) < 3;
    text.append(name).append(" = ");
    if (quoted) text.append("\"").append(value).append("\"\n");
    else text.append(value).append("\n");
  }
  return text;
}

}  // namespace gradus
