#pragma once
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "../core/platform.hpp"
#include "processors.hpp"

namespace gradus::cpu_kit {  // shared by all builds

// The first line of the file `name` in `folder`; empty if there is none.
GRADUS_IMPL GRADUS_NOINLINE std::string first_line_for_processors(const std::string& folder, const char* name) {
  std::FILE* const file = std::fopen((folder + name).c_str(), "r");
  if (file == nullptr) return {};
  char line[64] = "";
  if (std::fgets(line, sizeof line, file) == nullptr) line[0] = '\0';
  std::fclose(file);
  return std::string(std::string_view(line).substr(0, std::string_view(line).find('\n')));
}
// The limit of the control group in `folder`; 0: no limit.
GRADUS_IMPL int processors_of_group(const std::string& folder, bool version_2) {
  if (!version_2)
    return processors_of_quota(first_line_for_processors(folder, "/cpu.cfs_quota_us"),
                               first_line_for_processors(folder, "/cpu.cfs_period_us"));
  const std::string both = first_line_for_processors(folder, "/cpu.max");
  const std::size_t blank = both.find(' ');
  return blank == std::string::npos ? 0 : processors_of_quota(both.substr(0, blank), both.substr(blank + 1));
}
GRADUS_IMPL int processors_of_quota(const std::string& quota, const std::string& period) {
  const long long time = std::strtoll(quota.c_str(), nullptr, 10), each = std::strtoll(period.c_str(), nullptr, 10);
  if (time <= 0 || each <= 0) return 0;  // "max", -1
  return static_cast<int>(std::clamp((time + each - 1) / each, 1LL, 1LL << 20));
}

GRADUS_IMPL int processors_of_cgroups(const std::string& membership, const std::string& root) {
  std::FILE* const file = std::fopen(membership.c_str(), "r");
  if (file == nullptr) return 0;
  int least = 0;
  char text[4096];
  while (std::fgets(text, sizeof text, file) != nullptr) {  // number:controllers:path
    const std::string_view line = std::string_view(text).substr(0, std::string_view(text).find('\n'));
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    std::string controllers(line.substr(first, second - first + 1));
    controllers.front() = controllers.back() = ',';
    const bool version_2 = controllers == ",,";
    if (!version_2 && controllers.find(",cpu,") == std::string::npos) continue;
    std::string folder = root;
    if (!version_2) folder += "/cpu";
    const std::size_t shortest = folder.size();
    folder += line.substr(second + 1);
    if (folder.back() == '/') folder.pop_back();
    for (;; folder.resize(folder.rfind('/'))) {
      const int limit = processors_of_group(folder, version_2);
      if (limit > 0) least = least == 0 ? limit : std::min(least, limit);
      if (folder.size() <= shortest) break;
    }
  }
  std::fclose(file);
  return least;
}

GRADUS_IMPL int usable_processors() {
  const int here = platform::processors_to_run_on(), allowed = processors_of_cgroups();
  return allowed > 0 ? std::min(here, allowed) : here;
}

GRADUS_IMPL int processors_of_each(int processes) {
  const int online = platform::processors_online();
  const int allowed = processors_of_cgroups(), all = allowed > 0 ? std::min(online, allowed) : online;
  return std::max(1, std::min(platform::processors_to_run_on(), all / std::max(1, processes)));
}

}  // namespace gradus::cpu_kit
