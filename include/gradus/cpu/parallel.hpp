#pragma once
#include <algorithm>
#include <cstddef>

#if defined(_OPENMP)
#include <omp.h>
#endif

#include "../core/config.hpp"
#include "workers.hpp"

namespace gradus::cpu_kit::inline GRADUS_BUILD {

/// Runs f(task) for task = 0 .. tasks-1 on the context's threads. Who runs a task depends on the threads; what a task does must not.
template <class F>
void parallel_tasks(context<cpu>& ctx, index tasks, const F& f) {
  ctx.get<workers>().run(tasks, 0, [&](index task, void*) { f(task); });
}
/// Runs f(task, memory) with `bytes` of scratch for each task, aligned to 64 bytes and holding what an earlier one left there.
template <class F>
void parallel_tasks(context<cpu>& ctx, index tasks, std::size_t bytes, const F& f) {
  ctx.get<workers>().run(tasks, bytes, f);
}

/// Runs f(begin, end) over a fixed grid of ranges of `grain` elements: the same ranges whatever the thread count, so that
/// anything summed within a range comes out the same.
template <class F>
void parallel_ranges(context<cpu>& ctx, index n, index grain, const F& f) {
  parallel_tasks(ctx, (n + grain - 1) / grain, [&](index t) { f(t * grain, std::min(n, (t + 1) * grain)); });
}

// Of kernels that do not hand on their context yet: OpenMP's threads.
template <class F>
void parallel_tasks(index tasks, const F& f) {
  if (tasks > 1 && thread_count() > 1) {
#if defined(_OPENMP)
#pragma omp parallel num_threads(thread_count())
    {
      const auto team = static_cast<index>(omp_get_num_threads()), member = static_cast<index>(omp_get_thread_num());
      for (index t = tasks * member / team; t < tasks * (member + 1) / team; ++t) f(t);
    }
    return;
#endif
  }
  for (index t = 0; t < tasks; ++t) f(t);
}
template <class F>
void parallel_ranges(index n, index grain, const F& f) {
  parallel_tasks((n + grain - 1) / grain, [&](index t) { f(t * grain, std::min(n, (t + 1) * grain)); });
}

}  // namespace gradus::cpu_kit::inline GRADUS_BUILD
