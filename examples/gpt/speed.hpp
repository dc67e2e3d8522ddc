#pragma once
// How fast training is, against what the machine could do.

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#ifdef __APPLE__
#include <sys/resource.h>
#endif

#include <gradus/cpu/gemm.hpp>

#include "config.hpp"

namespace gpt {

/// Floating-point operations that training takes a token: 6 a parameter (2 forward, 4 backward), and 12 * layers * width *
/// context for attention's two products (Chowdhery et al. 2022, appendix B).
inline double training_flops_per_token(std::size_t parameters) {
  return 6.0 * static_cast<double>(parameters) + 12.0 * static_cast<double>(sizes.layers * sizes.width * sizes.context);
}

/// Most memory that this process had at once, in MiB, as Linux and macOS count it; 0 elsewhere.
inline double process_peak_mib() {
#ifdef __APPLE__
  rusage usage{};
  return getrusage(RUSAGE_SELF, &usage) == 0 ? static_cast<double>(usage.ru_maxrss) / (1 << 20) : 0;
#else
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::strtod(line.c_str() + 6, nullptr) / 1024;
  return 0;
#endif
}

class stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// FLOP/s of this machine's matrix product at the model's main shape, [batch * context, width] times [width, 4 * width], in the type in
/// which the model computes products: the best of about 0.3 seconds of them. On this many threads; 0: on as many as there are processors.
inline double machine_flops(int threads) {
  constexpr std::size_t rows = batch_size * sizes.context, in = sizes.width, out = 4 * sizes.width;
  using factor = precision::compute;
  const std::vector<factor> a(rows * in, factor(1.0f)), b(in * out, factor(1.0f));
  std::vector<factor> c(rows * out);
  gr::stream stream;
  if (threads > 0) gr::set_thread_count(stream, threads);
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  double best = 0;
  for (const stopwatch all; best == 0 || all.seconds() < 0.3;) {
    const stopwatch one;
    gr::cpu_kit::gemm<gr::compute_type<factor>>(ctx, false, false, rows, out, in, a.data(), in, b.data(), out, false,
                                                c.data(), out);
    best = std::max(best, 2.0 * static_cast<double>(rows * in * out) / one.seconds());
  }
  return best;
}

/// Bytes a second, read and written, that this machine moves at best: of about 0.2 seconds of ReLU over 32 MiB.
inline double machine_bandwidth(int threads) {
  gr::stream stream;
  if (threads > 0) gr::set_thread_count(stream, threads);
  gr::host_resource heap;
  gr::pool_resource pool(heap);
  gr::context ctx{stream, pool};
  const auto x = gr::full<float, gr::shape<(1 << 23)>>(ctx, 1.0f);
  double best = 0;
  for (const stopwatch all; best == 0 || all.seconds() < 0.2;) {
    const stopwatch one;
    const auto y = gr::relu(x);
    best = std::max(best, 2.0 * static_cast<double>(x.bytes) / one.seconds());
  }
  return best;
}

}  // namespace gpt
