#pragma once
#include <algorithm>
#include <cstddef>

#include "../core/config.hpp"
#include "workers.hpp"

namespace gradus::cpu_kit::inline GRADUS_BUILD {

/// Runs f(task) for task = 0 .. tasks-1 on the context's threads. Who runs a task depends on the threads; what a task
/// does must not.
template <class F>
void parallel_tasks(context<cpu>& ctx, index_t tasks, const F& f) {
  ctx.stream().get<workers>().run(tasks, 0, [&](index_t task, void*) { f(task); });
}
/// Runs f(task, memory) with `bytes` of scratch for each task, aligned to 64 bytes and holding what an earlier one left
/// there.
template <class F>
void parallel_tasks(context<cpu>& ctx, index_t tasks, std::size_t bytes, const F& f) {
  ctx.stream().get<workers>().run(tasks, bytes, f);
}

/// Runs f(begin, end) over a fixed grid of ranges of `grain` elements: the same ranges whatever the thread count, so
/// that anything summed within a range comes out the same.
template <class F>
void parallel_ranges(context<cpu>& ctx, index_t n, index_t grain, const F& f) {
  parallel_tasks(ctx, (n + grain - 1) / grain, [&](index_t t) { f(t * grain, std::min(n, (t + 1) * grain)); });
}

/// Runs f(begin, end) over ranges of `grain` elements (or rows) where what becomes of one does not depend on its range:
/// there are more and shorter ranges where that takes more threads. Begins are multiples of 64 if `grain` is 1024 or
/// more.
template <class F>
void parallel_elements(context<cpu>& ctx, index_t n, index_t grain, const F& f) {
  const index_t least = std::max<index_t>(1, grain / 16), step = grain >= 1024 ? 64 : 1;
  const index_t wanted = n / (4 * static_cast<index_t>(thread_count(ctx.stream()))) / step * step;
  parallel_ranges(ctx, n, std::min(grain, std::max(least, wanted)), f);
}

}  // namespace gradus::cpu_kit::inline GRADUS_BUILD
