#pragma once
#include <algorithm>
#include <cstddef>

#if defined(_OPENMP)
#include <omp.h>
#endif

namespace gradus {

/// Threads that parallel loops use at most.
inline int thread_count() {
#if defined(_OPENMP)
  return omp_get_max_threads();
#else
  return 1;
#endif
}
/// Threads that parallel loops started by the calling thread use at most, from now on; 1 or more. Without OpenMP it does nothing.
inline void set_thread_count([[maybe_unused]] int threads) {
#if defined(_OPENMP)
  omp_set_num_threads(threads);
#endif
}

namespace cpu_kit {

/// Runs f(task) for task = 0 .. tasks-1. Who runs a task depends on the threads; what a task does must not.
template <class F>
void parallel_tasks(std::size_t tasks, const F& f) {
  // No team of one, and the split by hand: g++'s runtime takes memory for the former each time, clang's for `omp for`.
  if (tasks <= 1 || thread_count() == 1) {
    for (std::size_t t = 0; t < tasks; ++t) f(t);
    return;
  }
#if defined(_OPENMP)
#pragma omp parallel
  {
    const auto team = static_cast<std::size_t>(omp_get_num_threads());
    const auto member = static_cast<std::size_t>(omp_get_thread_num());
    for (std::size_t t = tasks * member / team; t < tasks * (member + 1) / team; ++t) f(t);
  }
#endif
}

/// Runs f(begin, end) over a fixed grid of ranges of `grain` elements: the same ranges whatever the thread count, so that
/// anything summed within a range comes out the same.
template <class F>
void parallel_ranges(std::size_t n, std::size_t grain, const F& f) {
  const std::size_t tasks = (n + grain - 1) / grain;
  parallel_tasks(tasks, [&](std::size_t t) { f(t * grain, std::min(n, (t + 1) * grain)); });
}

}  // namespace cpu_kit
}  // namespace gradus
