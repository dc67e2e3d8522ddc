#include "build.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <system_error>

#include <gradus/core/printable.hpp>
#include <gradus/run/program.hpp>

namespace command {
namespace {

namespace fs = std::filesystem;
namespace gr = gradus;

std::string text_of(const fs::path& file) {
  std::ifstream from(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(from), {}};
}

/// Holds a folder against other processes that compile in it.
class lock {
 public:
  lock(const fs::path& folder, const launched_job& job) {
    std::error_code problem;
    fs::create_directories(folder, problem);
    if (!problem) file_ = open((folder / "lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666);
    if (file_ < 0)
      throw gr::error(folder.string() +
                      ": cannot be written, and the trainer is compiled there; copy the project to a "
                      "folder of your own, or, if gradus is installed, let XDG_CACHE_HOME name one");
    if (!job.leads()) usleep(200'000);  // the process that prints compiles, where it is on this machine
    if (flock(file_, LOCK_EX | LOCK_NB) == 0) return;
    if (job.leads()) std::puts("waiting for another process, which compiles for these sizes");
    std::fflush(stdout);
    while (flock(file_, LOCK_EX) != 0 && errno == EINTR) {}
  }
  lock(const lock&) = delete;
  ~lock() { close(file_); }

 private:
  int file_ = -1;
};

/// Shows how far Ninja is, by its lines "[1/12] ...": a line that is written anew on a terminal, one line elsewhere.
class progress {
 public:
  progress(const std::string& what, const std::string& last, bool shown)
      : text_("compiling " + what +
              " for these sizes: " + (last.empty() ? "a minute or two" : last + " s the last time")),
        shown_(shown) {}
  progress(const progress&) = delete;
  ~progress() {
    if (begun_ && terminal_) std::printf("\r\33[K");
  }
  void see(std::string_view line) {
    int done = 0, all = 0;
    if (!shown_ || std::sscanf(std::string(line).c_str(), "[%d/%d]", &done, &all) != 2 || all < 3) return;
    if (terminal_) std::printf("\r%s (%d of %d)\33[K", text_.c_str(), done, all);
    else if (!begun_) std::puts(text_.c_str());
    std::fflush(stdout);
    begun_ = true;
  }

 private:
  std::string text_;
  bool shown_, begun_ = false, terminal_ = isatty(1) == 1;
};

std::string joined(const std::vector<std::string>& names, const char* between) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : between) + name;
  return all;
}

[[noreturn]] void fail(const fs::path& log) {
  std::ifstream lines(log);
  int shown = 0;
  for (std::string line; shown < 5 && std::getline(lines, line);)
    if (line.find("rror") != line.npos) {
      std::fprintf(stderr, "%s\n", gr::printable(line).c_str());
      ++shown;
    }
  throw gr::error("the trainer could not be compiled; see " + log.string());
}

}  // namespace

fs::path project_folder(const char* program) {
  std::error_code problem;
  fs::path at = fs::canonical("/proc/self/exe", problem);
  if (problem) at = fs::canonical(program, problem);
  for (; at.has_relative_path(); at = at.parent_path())
    for (const fs::path& project : {at, at / "share" / "gradus"})
      if (is_there(project / "examples" / "command") && is_there(project / "include" / "gradus")) return project;
  throw gr::error(std::string(program) + ": is not in a folder of gradus, whose examples it compiles");
}

fs::path build_folder(const fs::path& project) {
  if (is_there(project / "scripts" / "setup.sh")) return project / "build";  // a checkout
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache == '/')
    return fs::path(cache) / "gradus";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/') return fs::path(home) / ".cache/gradus";
  throw gr::error("neither XDG_CACHE_HOME nor HOME names a folder, and what is compiled goes there");
}

trainer_build::trainer_build(fs::path where, const std::string& prefix, const gpt::flag_table& flags,
                             const std::vector<std::string>& names)
    : project(std::move(where)) {
  std::string values;
  for (std::string name : names) {
    const std::string value = flags.value(name).empty() && name == "device" ? "cpu" : flags.value(name);
    values += (values.empty() ? "" : "-") + value;
    for (char& c : name) c = c == '-' ? '_' : static_cast<char>(c - 'a' + 'A');
    definitions.emplace_back(prefix + name, value);
  }
  folder = build_folder(project) / "train" / values;
  const bool on_gpu = values.ends_with("-cuda");
  definitions.emplace_back("GRADUS_CUDA", on_gpu ? "ON" : "OFF");
  if (!on_gpu) return;
  definitions.emplace_back("GRADUS_CUDA_PTX", gpu_launcher().empty() ? "" : "ON");
  if (is_there("/dev/nvidiactl") || is_there("/dev/dxg"))
    definitions.emplace_back("CMAKE_CUDA_ARCHITECTURES", "native");
}
std::vector<std::string> trainer_build::start(const std::string& name) const {
  std::vector<std::string> words;
  if (std::ranges::find(definitions, std::pair<std::string, std::string>("GRADUS_CUDA", "ON")) != definitions.end())
    words = gpu_launcher();
  words.push_back(program(name).string());
  return words;
}

void compile(const trainer_build& what, const std::vector<std::string>& targets, const launched_job& job) {
  using clock = std::chrono::steady_clock;
  const auto began = clock::now();
  const auto began_at = fs::file_time_type::clock::now();
  const lock held(what.folder, job);
  const fs::path log = what.folder / "build.log", compiled = what.folder / "compiled",
                 seconds = what.folder / ("seconds-" + targets.front());
  // Another process of this job has compiled them since this one began.
  std::error_code problem;
  if (job.ranks > 0 && text_of(compiled) == joined(targets, " ") && fs::last_write_time(compiled, problem) >= began_at)
    return;
  std::ofstream{log};  // empty
  std::string configured;
  std::vector<std::string> words{"cmake",
                                 "-S",
                                 what.project.string(),
                                 "-B",
                                 what.folder.string(),
                                 "-G",
                                 "Ninja",
                                 "-DCMAKE_BUILD_TYPE=Release",
                                 "-DGRADUS_BUILD_TESTS=OFF",
                                 "-DGRADUS_BUILD_BENCHMARKS=OFF"};
  for (const auto& [name, value] : what.definitions) words.push_back("-D" + name + "=" + value);
  configured = joined(words, "\n");
  if (!is_there(what.folder / "build.ninja") || text_of(what.folder / "configured") != configured) {
    if (run(words, log) != 0) fail(log);
    std::ofstream(what.folder / "configured") << configured;
  }
  words = {"cmake", "--build", what.folder.string(), "--target"};
  words.insert(words.end(), targets.begin(), targets.end());
  bool worked = false;
  {
    progress shown(joined(targets, " and "), text_of(seconds), job.leads());
    worked = run(words, log, [&](std::string_view line) { shown.see(line); }) == 0;
  }
  if (!worked) fail(log);
  const auto took = std::chrono::duration_cast<std::chrono::seconds>(clock::now() - began).count();
  if (took >= 5) std::ofstream(seconds) << took;
  if (job.ranks > 0) std::ofstream(compiled) << joined(targets, " ");
  if (job.leads()) std::printf("compiled for these sizes in %lld s\n", static_cast<long long>(took));
}

void check_device(const std::string& device, int gpu, bool only_planned) {
  if (device != "cuda") return;
  if (!is_on_path("nvcc") && access("/usr/local/cuda/bin/nvcc", X_OK) != 0)
    throw gr::bad_flag(
        "--device cuda: there is no nvcc: install the CUDA toolkit (with cuBLAS), or leave --device out to "
        "use the CPU");
  // A GPU's driver makes one of these; an emulator, which GRADUS_CUDA_LAUNCHER starts, needs none.
  if (only_planned || !gpu_launcher().empty()) return;
  if (!is_there("/dev/nvidiactl") && !is_there("/dev/dxg"))
    throw gr::bad_flag(
        "--device cuda: there is no NVIDIA GPU here, or no driver for it; leave --device out to use the "
        "CPU");
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");  // renumbers them: then the trainer says which there are
  if (gpu > 0 && (visible == nullptr || *visible == 0) && is_there("/dev/nvidiactl") &&
      !is_there("/dev/nvidia" + std::to_string(gpu)))
    throw gr::bad_flag("--device cuda:" + std::to_string(gpu) + ": there is no such GPU; the first one is cuda:0");
}

void check_file(const std::string& flag, const std::string& file) {
  const auto refuse = [&](const std::string& what) { throw gr::bad_flag(flag + ": " + file + ": " + what); };
  struct stat found {};
  if (stat(file.c_str(), &found) != 0) refuse(errno == EACCES ? "cannot be read: Permission denied" : "no such file");
  if (S_ISDIR(found.st_mode)) refuse("is a directory; name a file");
  if (access(file.c_str(), R_OK) != 0) refuse("cannot be read: Permission denied");
  if (S_ISREG(found.st_mode) && found.st_size == 0) refuse("is empty");
}

}  // namespace command
