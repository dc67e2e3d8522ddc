#pragma once
// Parallel loops on a context's threads.

#include <algorithm>
#include <cstddef>

#include "../core/config.hpp"
#include "workers.hpp"

namespace gradus::cpu_kit::inline GRADUS_BUILD {

/// Runs f(task) for task = 0 .. tasks-1 on the context's threads. The result must not depend on the threads.
template <class F>
void parallel_tasks(context<cpu>& ctx, index_t tasks, const F& f) {
  ctx.stream().get<workers>().run(tasks, 0, [&](index_t task, void*) { f(task); });
}
/// Runs f(task, memory) with `bytes` of uninitialised scratch for each task, aligned to 64 bytes.
template <class F>
void parallel_tasks(context<cpu>& ctx, index_t tasks, std::size_t bytes, const F& f) {
  ctx.stream().get<workers>().run(tasks, bytes, f);
}

/// Runs f(begin, end) over a fixed grid of ranges of `grain` elements: sums within a range do not depend on threads.
template <class F>
void parallel_ranges(context<cpu>& ctx, index_t n, index_t grain, const F& f) {
  parallel_tasks(ctx, (n + grain - 1) / grain, [&](index_t t) { f(t * grain, std::min(n, (t + 1) * grain)); });
}

/// Runs f(begin, end) over ranges of about `grain` elements (or rows), shorter if that uses more threads; for work
/// whose result does not depend on the ranges. Begins are multiples of 64 if `grain` is 1024 or more.
template <class F>
void parallel_elements(context<cpu>& ctx, index_t n, index_t grain, const F& f) {
  const index_t least = std::max<index_t>(1, grain / 16), step = grain >= 1024 ? 64 : 1;
  const index_t wanted = n / (4 * static_cast<index_t>(thread_count(ctx.stream()))) / step * step;
  parallel_ranges(ctx, n, std::min(grain, std::max(least, wanted)), f);
}

}  // namespace gradus::cpu_kit::inline GRADUS_BUILD
