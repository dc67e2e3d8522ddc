#pragma once
// How many processors a process may use: what the system has, what the process is bound to, and what its container may
// take.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#if defined(__linux__)
#include <sched.h>
#elif !defined(_WIN32)
#include <unistd.h>
#endif

namespace gradus::cpu_kit {  // shared by all builds

/// The first line of a file, without its end; empty where there is none.
inline std::string first_line_for_processors(const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "r");
  if (file == nullptr) return {};
  char line[64] = "";
  if (std::fgets(line, sizeof line, file) == nullptr) line[0] = '\0';
  std::fclose(file);
  return std::string(std::string_view(line).substr(0, std::string_view(line).find('\n')));
}

/// `quota` microseconds of processor time in a `period`, as a number of processors, rounded up; 0: no limit.
inline int processors_of_quota(const std::string& quota, const std::string& period) {
  const long long time = std::strtoll(quota.c_str(), nullptr, 10), each = std::strtoll(period.c_str(), nullptr, 10);
  if (time <= 0 || each <= 0) return 0;  // "max", -1
  return static_cast<int>(std::clamp((time + each - 1) / each, 1LL, 1LL << 20));
}

/// Processors that the control groups of this process may take: the lowest limit of its group and those above it
/// (cpu.max of version 2, cpu.cfs_quota_us of version 1); 0: no limit. A container often sees the groups above its own
/// alone, at the root.
/// @param membership /proc/self/cgroup
/// @param root       where the groups are: /sys/fs/cgroup
inline int processors_of_cgroups(const std::string& membership = "/proc/self/cgroup",
                                 const std::string& root = "/sys/fs/cgroup") {
  int least = 0;
  const auto limit = [&](int processors) {
    if (processors > 0) least = least == 0 ? processors : std::min(least, processors);
  };
  std::FILE* const file = std::fopen(membership.c_str(), "r");
  if (file == nullptr) return 0;
  char text[4096];
  while (std::fgets(text, sizeof text, file) != nullptr) {  // number:controllers:path
    const std::string line(std::string_view(text).substr(0, std::string_view(text).find('\n')));
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    std::string controllers = line.substr(first, second - first + 1);
    controllers.front() = controllers.back() = ',';
    const bool version_2 = controllers == ",,";
    if (!version_2 && controllers.find(",cpu,") == std::string::npos) continue;
    for (std::string path = line.substr(second + 1);; path.resize(path.rfind('/'))) {
      if (path == "/") path.clear();
      if (version_2) {
        const std::string both = first_line_for_processors(root + path + "/cpu.max");
        if (const std::size_t blank = both.find(' '); blank != std::string::npos)
          limit(processors_of_quota(both.substr(0, blank), both.substr(blank + 1)));
      } else {
        const std::string group = root + "/cpu" + path;
        limit(processors_of_quota(first_line_for_processors(group + "/cpu.cfs_quota_us"),
                                  first_line_for_processors(group + "/cpu.cfs_period_us")));
      }
      if (path.rfind('/') == std::string::npos) break;
    }
  }
  std::fclose(file);
  return least;
}

/// Processors that the calling thread may run on.
inline int processors_to_run_on() {
#if defined(__linux__)
  for (std::size_t most = 1024; most <= std::size_t{1} << 20;
       most *= 2) {  // the set has to hold all that the system can have
    cpu_set_t* const usable = CPU_ALLOC(most);
    if (usable == nullptr) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(most);
    const int count = sched_getaffinity(0, bytes, usable) == 0 ? CPU_COUNT_S(bytes, usable) : 0;
    CPU_FREE(usable);
    if (count > 0) return count;
  }
  return 1;
#elif defined(_WIN32)
  const char* const set = std::getenv("NUMBER_OF_PROCESSORS");
  return set == nullptr ? 1 : std::max(1, static_cast<int>(std::strtol(set, nullptr, 10)));
#else
  return std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
#endif
}

/// Processors that this process may use: more threads than that take turns.
inline int usable_processors() {
  const int here = processors_to_run_on(), allowed = processors_of_cgroups();
  return allowed > 0 ? std::min(here, allowed) : here;
}

}  // namespace gradus::cpu_kit
