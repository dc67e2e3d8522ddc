#pragma once
// How many processors a process may use: what the system has, what the process is bound to, and what its container may
// take.

#include <string>

#include "../core/config.hpp"

namespace gradus::cpu_kit {  // shared by all builds

/// `quota` microseconds of processor time in a `period`, as a number of processors, rounded up; 0: no limit.
int processors_of_quota(const std::string& quota, const std::string& period);

/// Processors that the control groups of this process may take: the lowest limit of its group and those above it
/// (cpu.max of version 2, cpu.cfs_quota_us of version 1); 0: no limit. A container often sees the groups above its own
/// alone, at the root.
/// @param membership /proc/self/cgroup
/// @param root       where the groups are: /sys/fs/cgroup
int processors_of_cgroups(const std::string& membership = "/proc/self/cgroup",
                          const std::string& root = "/sys/fs/cgroup");

/// Processors that the calling thread may run on.
int processors_to_run_on();

/// Processors that this process may use: more threads than that take turns.
int usable_processors();

}  // namespace gradus::cpu_kit

#ifndef GRADUS_COMPILED
#include "processors.ipp"
#endif
