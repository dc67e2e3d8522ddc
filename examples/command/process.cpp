#include "process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>

#include <gradus/core/parse_number.hpp>
#include <gradus/run/program.hpp>

namespace command {
namespace {

namespace gr = gradus;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

int number_in(const char* name) {
  const auto n = gr::parse_number<int>(variable(name));
  if (!n || *n < 0 || *n > 999999)
    throw gr::bad_flag("mpirun or srun says " + std::string(name) + "=" + variable(name));
  return *n;
}

[[noreturn]] void execute(const std::vector<std::string>& words) {
  std::vector<char*> all;
  for (const std::string& word : words) all.push_back(const_cast<char*>(word.c_str()));
  all.push_back(nullptr);
  execvp(all.front(), all.data());
  throw gr::error(words.front() + ": cannot be started: " + std::strerror(errno));
}

}  // namespace

launched_job find_job() {
  if (!variable("OMPI_COMM_WORLD_SIZE").empty())  // Open MPI's mpirun
    return {number_in("OMPI_COMM_WORLD_SIZE"), number_in("OMPI_COMM_WORLD_RANK")};
  const bool numbered = !variable("PMI_RANK").empty();
  if (!variable("PMI_SIZE").empty())  // MPICH's, and srun --mpi=pmi2
    return {number_in("PMI_SIZE"), numbered ? number_in("PMI_RANK") : 0};
  const char* tasks = variable("SLURM_STEP_NUM_TASKS").empty() ? "SLURM_NTASKS" : "SLURM_STEP_NUM_TASKS";
  const bool several = !variable(tasks).empty() && number_in(tasks) > 1;
  if (!variable("PMIX_RANK").empty())
    return {several ? number_in(tasks) : 1, number_in("PMIX_RANK")};  // srun --mpi=pmix
  if (gr::parse_number<int>(variable("SLURM_STEP_ID")) && several && std::strcmp(tasks, "SLURM_STEP_NUM_TASKS") == 0)
    throw gr::bad_flag("srun has started " + variable(tasks) +
                       " processes that know nothing of each other: give it --mpi=pmix (or pmi2)");
  return {};
}

namespace {

volatile std::sig_atomic_t asked_to_end = 0;

// Runs a program with its output in `output`, in a process group of its own.
[[noreturn]] void start(const std::vector<std::string>& words, int output) {
  setpgid(0, 0);
  std::signal(SIGTERM, SIG_DFL);
  for (const char* name : {"CMAKE_GENERATOR", "CMAKE_BUILD_TYPE", "CMAKE_CONFIGURATION_TYPES", "NINJA_STATUS"})
    unsetenv(name);
  setenv("LC_ALL", "C", 1);
  dup2(output, 1);
  dup2(output, 2);
  close(output);
  try {
    execute(words);
  } catch (const gr::error& e) {
    const std::string text = std::string(e.what()) + "\n";
    if (write(2, text.data(), text.size()) < 0) _exit(126);
  }
  _exit(127);
}

// Stands between this program and the one that it runs: if this program ends, by whatever signal, it ends that one with
// all that it has started (Ninja its compilers), and ends itself when they are gone. Until then it has what this
// program has open, such as the lock of the folder that they write. `life` is a pipe whose other end is this program's;
// `unread`, the other end of `output`, lets them say that they were interrupted: a broken pipe would end them first.
[[noreturn]] void watch_over(const std::vector<std::string>& words, int output, int unread, int life) {
  setpgid(0, 0);
#if defined(PR_SET_CHILD_SUBREAPER)
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // what a program leaves that has ended is waited for here
#endif
  std::signal(SIGTERM, [](int) { asked_to_end = 1; });
  std::signal(SIGCHLD, [](int) {});  // ends poll()
  const pid_t child = fork();
  if (child == 0) start(words, output);
  close(output);
  if (child < 0) _exit(126);
  setpgid(child, child);
  int status = 0;
  for (;;) {
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    pollfd end{.fd = life, .events = POLLIN, .revents = 0};
    if (asked_to_end != 0 || poll(&end, 1, 50) > 0) break;
  }
  fcntl(unread, F_SETFL, O_NONBLOCK);
  for (int tenths = 0; tenths < 110; ++tenths) {
    const int signal = tenths >= 100 ? SIGKILL : tenths % 20 == 0 ? SIGTERM : 0;  // 0: asks whether there is one
    if (kill(-child, signal) != 0) break;
    usleep(100'000);
    while (waitpid(-1, nullptr, WNOHANG) > 0) {}
    std::array<char, 4096> dropped{};
    while (read(unread, dropped.data(), dropped.size()) > 0) {}
  }
  _exit(1);
}

}  // namespace

int run(const std::vector<std::string>& words, const std::filesystem::path& log,
        const std::function<void(std::string_view)>& seen) {
  std::array<int, 2> ends{}, life{};
  if (pipe(ends.data()) != 0 || pipe(life.data()) != 0)
    throw gr::error(std::string("a pipe cannot be made: ") + std::strerror(errno));
  for (const int end : {ends[0], life[0], life[1]}) fcntl(end, F_SETFD, FD_CLOEXEC);
  const pid_t child = fork();
  if (child < 0) throw gr::error(words.front() + ": cannot be started: " + std::strerror(errno));
  if (child == 0) {
    close(life[1]);
    watch_over(words, ends[1], ends[0], life[0]);
  }
  close(ends[1]);
  close(life[0]);
  std::ofstream written(log, std::ios::app);
  std::string line;
  std::array<char, 4096> block{};
  for (ssize_t got = 1; got != 0;) {
    got = read(ends[0], block.data(), block.size());
    if (got < 0 && errno != EINTR) break;
    for (const char c : std::string_view(block.data(), got > 0 ? static_cast<std::size_t>(got) : 0)) {
      if (c != '\n') {
        line += c;
        continue;
      }
      written << line << '\n';
      if (seen) seen(line);
      line.clear();
    }
  }
  written << line << std::flush;
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  close(life[1]);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void become(const std::vector<std::string>& words) {
  std::fflush(stdout);
  execute(words);
}

std::vector<std::string> gpu_launcher() {
  std::istringstream text(variable("GRADUS_CUDA_LAUNCHER"));
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word);
  return words;
}

bool is_on_path(const std::string& name) {
  std::istringstream folders(variable("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');)
    if (access((std::filesystem::path(folder) / name).c_str(), X_OK) == 0) return true;
  return false;
}

}  // namespace command
