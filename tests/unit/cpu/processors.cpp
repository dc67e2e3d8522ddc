#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <gradus/core/platform.hpp>
#include <gradus/cpu/processors.hpp>
#include <string>

#if defined(__linux__)
#include <sched.h>
#endif

#include "../../support/scratch_folder.hpp"

namespace kit = gradus::cpu_kit;
namespace fs = std::filesystem;

namespace {

// Control groups as /proc and /sys show them.
struct groups : gradus_test::scratch_folder {
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((path / name).parent_path());
    std::ofstream(path / name) << text;
  }
  int limit() const { return kit::processors_of_cgroups((path / "cgroup").string(), (path / "sys").string()); }
};

}  // namespace

TEST_CASE("a container's limit on processor time is a number of processors, rounded up") {
  const groups g;
  CHECK(g.limit() == 0);  // there are no groups
  g.write("cgroup", "0::/a/b\n");
  CHECK(g.limit() == 0);
  g.write("sys/cpu.max", "max 100000\n");
  CHECK(g.limit() == 0);
  g.write("sys/a/b/cpu.max", "150000 100000\n");
  CHECK(g.limit() == 2);
  g.write("sys/a/b/cpu.max", "800000 100000\n");
  CHECK(g.limit() == 8);
  g.write("sys/a/cpu.max", "300000 100000\n");  // the group above has less
  CHECK(g.limit() == 3);
  g.write("sys/cpu.max", "1000 100000\n");  // as a container sees its own group
  CHECK(g.limit() == 1);
  g.write("sys/cpu.max", "nonsense");
  CHECK(g.limit() == 3);
  g.write("cgroup", "0::/\n");
  g.write("sys/cpu.max", "400000 100000\n");
  CHECK(g.limit() == 4);
}

TEST_CASE("so are the limits of the first version of control groups") {
  const groups g;
  g.write("cgroup", "9:name=systemd:/\n5:cpuset:/x\n4:cpu,cpuacct:/docker/12\n");
  g.write("sys/cpu/cpu.cfs_quota_us", "-1\n");
  g.write("sys/cpu/cpu.cfs_period_us", "100000\n");
  CHECK(g.limit() == 0);
  g.write("sys/cpu/cpu.cfs_quota_us", "250000\n");  // the path is the host's, and is not there
  CHECK(g.limit() == 3);
  g.write("sys/cpu/docker/12/cpu.cfs_quota_us", "50000\n");
  g.write("sys/cpu/docker/12/cpu.cfs_period_us", "50000\n");
  CHECK(g.limit() == 1);
}

TEST_CASE("processes that share a machine divide what it has and their container allows, at least one each") {
  const int one = kit::processors_of_each(1), all = kit::usable_processors();
  CHECK(one >= 1);
  CHECK(one <= gradus::platform::processors_to_run_on());
  CHECK(kit::processors_of_each(1 << 20) == 1);
  CHECK(kit::processors_of_each(2) <= std::max(1, one));
  if (kit::processors_of_cgroups() > 0)
    CHECK(2 * kit::processors_of_each(2) <= std::max(2, kit::processors_of_cgroups()));
  CHECK(one >= std::min(all, 1));
}

TEST_CASE("a process may use the processors that it is bound to, and its container's share of them") {
  CHECK(kit::usable_processors() >= 1);
  CHECK(kit::usable_processors() <= gradus::platform::processors_to_run_on());
#if defined(__linux__)
  cpu_set_t few;
  if (sched_getaffinity(0, sizeof few, &few) == 0) CHECK(gradus::platform::processors_to_run_on() == CPU_COUNT(&few));
#endif
}
