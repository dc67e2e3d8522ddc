#pragma once
// Ranks that are threads with a GPU each.
#include <cstdio>
#include <exception>
#include <gradus/ranks/nccl_communicator.hpp>
#include <thread>
#include <vector>

#include "device.hpp"

/// True, and counted, where there are fewer GPUs.
inline bool fewer_gpus_than(int ranks) {
  if (no_gpu()) return true;
  if (gr::cuda_device::count() >= ranks) return false;
  std::printf("gradus skipped: 1 (%d GPUs)\n", gr::cuda_device::count());
  return true;
}

struct rank_on_gpu {
  gr::cuda_stream stream;
  gr::device_resource memory;
  poisoned_resource poisoned{memory};
  gr::context<gr::cuda> ctx{stream, poisoned};
  explicit rank_on_gpu(int number) : stream(gr::cuda_device{number}), memory(gr::cuda_device{number}) {}
};

/// Calls f(communicator, context) for each rank, on a thread and a GPU of its own; throws what the first one throws.
template <class F>
void with_ranks(int ranks, const F& f, const gr::nccl_options& o = {}) {
  const gr::nccl_id id = gr::nccl_id::create();
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      try {
        rank_on_gpu on(r);
        gr::nccl_communicator comm(on.ctx, id, static_cast<gr::index_t>(r), static_cast<gr::index_t>(ranks), o);
        f(comm, on.ctx);
      } catch (...) { failures[static_cast<std::size_t>(r)] = std::current_exception(); }
    });
  for (std::thread& t : threads) t.join();
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}
