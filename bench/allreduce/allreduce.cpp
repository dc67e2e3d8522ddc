// Times all_reduce between ranks that are threads, and memcpy on as many threads: one JSON object on standard output.
//
//     bench_allreduce RANKS BYTES...
#include <gradus/cpu/access.hpp>
#include <gradus/memory/host_resource.hpp>
#include <gradus/ranks/thread_communicator.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

using gradus::index_t;

// Median seconds of a call of f, of which `together` follow one another between two looks at rank 0's clock.
template <class F>
double median_seconds(gradus::context<gradus::cpu>& ctx, gradus::communicator<gradus::cpu>& comm, int together,
                      const F& f) {
  using clock = std::chrono::steady_clock;
  std::vector<double> times;
  std::uint8_t more = 1;
  const auto end = clock::now() + std::chrono::milliseconds(1000);
  for (bool warm = true; more != 0; warm = false) {
    comm.barrier(ctx);
    const auto begin = clock::now();
    for (int k = 0; k < together; ++k) f();
    const auto now = clock::now();
    if (!warm) times.push_back(std::chrono::duration<double>(now - begin).count() / together);
    more = warm || now < end || times.size() < 3 ? 1 : 0;
    comm.broadcast(ctx, &more, 1).wait();
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

}  // namespace

int main(int count, char** words) {
  if (count < 3) {
    std::fprintf(stderr, "use: bench_allreduce RANKS BYTES...\n");
    return 2;
  }
  const index_t ranks = std::strtoul(words[1], nullptr, 10);
  std::string rows;
  for (int k = 2; k < count; ++k) {
    const std::size_t bytes = std::strtoull(words[k], nullptr, 10);
    // The same number in gloo.py.
    const int together = static_cast<int>(std::clamp<std::size_t>((std::size_t{64} << 20) / bytes, 2, 100));
    gradus::run_ranks(ranks, [&](gradus::communicator<gradus::cpu>& comm) {
      gradus::host_resource memory;
      gradus::stream stream;
      gradus::context<gradus::cpu> ctx(stream, memory);
      gradus::memory_block<gradus::cpu>* const block = ctx.acquire(bytes, gradus::category::temporary);
      auto* const data = static_cast<float*>(block->data);
      const index_t n = bytes / sizeof(float);
      std::fill_n(data, n, 0.0F);  // of any other value the sums of sums overflow
      const auto all_reduce = [&](gradus::sum_order order) {
        return median_seconds(ctx, comm, together, [&] {
          comm.all_reduce(ctx, data, data, n, {gradus::reduce_by::sum, order}).wait();
        });
      };
      const double tree = all_reduce(gradus::sum_order::tree);
      const double fastest = all_reduce(gradus::sum_order::fastest);
      // Copies one half of the buffer to the other and back: as many bytes, in as much memory.
      const double copies = median_seconds(ctx, comm, together, [&] {
        std::memcpy(data, data + n / 2, bytes / 2);
        std::memcpy(data + n / 2, data, bytes / 2);
      });
      ctx.release(block);
      if (comm.rank() != 0) return;
      rows += rows.empty() ? "" : ", ";
      rows += "{\"bytes\": " + std::to_string(bytes) + ", \"tree\": " + std::to_string(tree * 1e6) +
              ", \"fastest\": " + std::to_string(fastest * 1e6) + ", \"memcpy\": " + std::to_string(copies * 1e6) + "}";
    });
  }
  std::printf("{\"ranks\": %s, \"microseconds\": [%s]}\n", words[1], rows.c_str());
}
