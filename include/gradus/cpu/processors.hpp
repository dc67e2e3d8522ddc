#pragma once
// Counts the processors that a process may use: by the system, its affinity and its container's limits.

#include <string>

#include "../core/config.hpp"

namespace gradus::cpu_kit {  // shared by all builds

/// `quota` microseconds of processor time per `period`, as a number of processors, rounded up; 0: no limit.
int processors_of_quota(const std::string& quota, const std::string& period);

/// The processors that this process's control groups allow: the lowest limit of its group and its ancestors (cpu.max in
/// version 2, cpu.cfs_quota_us in version 1); 0: no limit. A container often sees only its ancestors, at the root.
/// @param membership /proc/self/cgroup
/// @param root       the file system of the groups: /sys/fs/cgroup
int processors_of_cgroups(const std::string& membership = "/proc/self/cgroup",
                          const std::string& root = "/sys/fs/cgroup");

/// Processors that this process may use; more threads would take turns.
int usable_processors();
/// Processors for one of `processes` processes that share this machine, at least 1: its part of those that the machine
/// has, and its control groups allow them all together, but none outside of its own affinity mask.
int processors_of_each(int processes);

}  // namespace gradus::cpu_kit

#ifndef GRADUS_COMPILED
#include "processors.ipp"
#endif
