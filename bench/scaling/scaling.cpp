// The speed-up that one model's training step can reach on more threads than this machine has. The step runs as it does
// where there are so many, with the very grids that its loops choose for them, but on one thread, which takes the time
// of every task. Tasks then go to threads as cpu_kit::workers gives them: each has a share, and steals when it is done.
// So that all threads begin alike, as on cores of their own, a loop runs once before, which brings what they share, and
// where a share begins the inner caches are filled with something else. What lies outside of loops, and waiting for the
// last thread, gains nothing.
//
// One JSON line an operation, and one for the step: name, share of the step, most tasks in a loop on 96 threads; for
// each number of threads the bound, and the work of all tasks over the time on one thread.
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "../support/gpt_step.hpp"

namespace gr = gradus;
using bench::batch;

namespace {

using training = bench::training<gr::cpu, std::int32_t>;
constexpr int thread_counts[] = {1, 2, 8, 32, 96, 192};
constexpr int repeats = 3;

// Of the processor, and not of the clock on the wall: other programs may want it too.
double seconds_now() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// What asking for the time takes, which is no part of a task.
double clock_cost() {
  double least = 1;
  for (int i = 0; i < 1000; ++i) {
    const double before = seconds_now();
    least = std::min(least, seconds_now() - before);
  }
  return least;
}

// The first task of a thread's share of a loop.
std::size_t share_begin(std::size_t tasks, std::size_t threads, std::size_t thread) { return tasks * thread / threads; }

struct loop_times {
  std::size_t threads;  // at most one a task
  std::vector<double> tasks;
};
// An operation's application, or what lies between two: the loops in it, and the time outside of them.
struct piece {
  std::string name;
  std::vector<loop_times> loops;
  double serial = 0;
};

// Takes the times of everything that runs in the contexts it is put into, in the order in which it runs.
class stopwatch final : public gr::observer, public gr::cpu_kit::loop_observer {
 public:
  std::vector<piece> pieces;

  void start(std::size_t threads) {
    threads_ = threads;
    pieces.clear();
    open_piece("the rest");
  }
  void stop() { close_piece(); }

  void begin(const gr::activity& what) override {
    close_piece();
    names_.push_back(std::string(what.name) + (what.phase == gr::phase::backward ? " backward" : ""));
    open_piece(names_.back());
  }
  void end(const gr::activity&) override {
    close_piece();
    names_.pop_back();
    open_piece(names_.empty() ? "the rest" : names_.back());
  }
  void loop(gr::index_t tasks, const gr::cpu_kit::task_runner& run) override {
    close_piece();
    loop_times l{std::min(threads_, tasks), {}};
    l.tasks.reserve(tasks);
    std::size_t share = 0;
    for (gr::index_t t = 0; t < tasks && l.threads > 1; ++t) run(t);
    double before = seconds_now();
    for (gr::index_t t = 0; t < tasks; ++t) {
      if (l.threads > 1 && share < l.threads && t == share_begin(tasks, l.threads, share)) {
        ++share;
        fill_caches();
        before = seconds_now();
      }
      run(t);
      const double now = seconds_now();
      l.tasks.push_back(std::max(0.0, now - before - clock_));
      before = now;
    }
    pieces.back().loops.push_back(std::move(l));
    since_ = seconds_now();
  }

 private:
  void open_piece(const std::string& name) {
    pieces.push_back({name, {}, 0});
    since_ = seconds_now();
  }
  // With what no task reads: more than a core's own caches hold.
  void fill_caches() {
    for (std::size_t i = 0; i < lines_.size(); i += 64) sum_ = sum_ + lines_[i];
  }
  void close_piece() { pieces.back().serial += std::max(0.0, seconds_now() - since_ - clock_); }

  std::vector<std::string> names_;
  std::size_t threads_ = 1;
  std::vector<char> lines_ = std::vector<char>(std::size_t{4} << 20, 1);
  volatile int sum_ = 0;
  double since_ = 0;
  const double clock_ = clock_cost();
};

// The least of several runs of the same step, time for time.
void keep_least(std::vector<piece>& best, const std::vector<piece>& run) {
  if (best.empty()) {
    best = run;
    return;
  }
  for (std::size_t p = 0; p < best.size(); ++p) {
    best[p].serial = std::min(best[p].serial, run[p].serial);
    for (std::size_t l = 0; l < best[p].loops.size(); ++l)
      for (std::size_t t = 0; t < best[p].loops[l].tasks.size(); ++t)
        best[p].loops[l].tasks[t] = std::min(best[p].loops[l].tasks[t], run[p].loops[l].tasks[t]);
  }
}

double total(const loop_times& l) {
  double sum = 0;
  for (const double t : l.tasks) sum += t;
  return sum;
}
// When the last thread is done.
double longest(const loop_times& l) {
  std::vector<std::size_t> next, end;
  std::priority_queue<std::pair<double, std::size_t>, std::vector<std::pair<double, std::size_t>>, std::greater<>> free;
  for (std::size_t i = 0; i < l.threads; ++i) {
    next.push_back(share_begin(l.tasks.size(), l.threads, i));
    end.push_back(share_begin(l.tasks.size(), l.threads, i + 1));
    free.push({0, i});
  }
  double last = 0;
  while (!free.empty()) {
    const auto [at, self] = free.top();
    free.pop();
    std::size_t from = self;
    while (next[from] == end[from] && (from + 1) % l.threads != self) from = (from + 1) % l.threads;
    if (next[from] == end[from]) continue;
    const double done = at + l.tasks[next[from]++];
    free.push({done, self});
    last = std::max(last, done);
  }
  return last;
}

struct figures {
  double alone = 0;           // seconds on one thread
  double work = 0, path = 0;  // seconds of all tasks, and of the busiest thread
  std::size_t tasks = 0;
};

}  // namespace

int main() {
  const gr::training_options options{.adamw = {.lr = 3e-4, .beta1 = 0.9, .beta2 = 0.999, .weight_decay = 0.1}};
  gr::stream stream;
  gr::host_resource heap;
  gr::pool_resource pool(heap);
  gr::context persistent{stream, heap};
  gr::context transient{stream, pool};
  training t(persistent, transient, options);
  const bench::random_batch<std::int32_t> data;
  const auto step = [&] {
    t.add_batch(data.inputs.data(), data.targets.data());
    t.update();
  };
  step();  // memory is touched, and workers are made

  stopwatch watch;
  std::map<int, std::map<std::string, figures>> found;
  for (const int threads : thread_counts) {
    gr::set_thread_count(stream, threads);
    std::vector<piece> best;
    for (int r = 0; r < repeats; ++r) {
      for (auto* ctx : {&persistent, &transient}) ctx->observe(&watch);
      stream.get<gr::cpu_kit::workers>().observe(&watch);
      watch.start(static_cast<std::size_t>(threads));
      step();
      watch.stop();
      keep_least(best, watch.pieces);
    }
    for (const piece& p : best)
      for (const std::string& name : {p.name, std::string("step")}) {
        figures& f = found[threads][name];
        f.work += p.serial;
        f.path += p.serial;
        for (const loop_times& l : p.loops) {
          f.work += total(l);
          f.path += longest(l);
          f.tasks = std::max(f.tasks, l.tasks.size());
        }
      }
  }
  for (auto* ctx : {&persistent, &transient}) ctx->observe(nullptr);
  stream.get<gr::cpu_kit::workers>().observe(nullptr);

  const double whole = found[1]["step"].work;
  for (const auto& [name, alone] : found[1]) {
    std::printf("{\"name\": \"%s\", \"share\": %.5f, \"tasks\": %zu", name.c_str(), alone.work / whole,
                found[96][name].tasks);
    for (const int threads : thread_counts)
      if (threads > 1)
        std::printf(", \"bound_%d\": %.2f, \"work_%d\": %.3f", threads,
                    found[threads][name].work / found[threads][name].path, threads,
                    found[threads][name].work / alone.work);
    std::printf("}\n");
  }
}
