#pragma once
// The device that trains: its stream and heap, its name, how fast it is. All differences of a GPU are here.

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <gradus/core/platform.hpp>
#include <gradus/cpu/processors.hpp>
#include <gradus/memory/file_resource.hpp>
#include <gradus/memory/offload_link.hpp>
#include <gradus/optim/file_parts.hpp>
#include <gradus/plan/time_table.hpp>
#include <gradus/run/stopwatch.hpp>
#include <gradus/run/team.hpp>
#ifdef GPT_NCCL
#include <gradus/ranks/nccl_communicator.hpp>
#endif

#include "config.hpp"

namespace gpt {

using stream = device::stream_type;

#ifdef __CUDACC__
using device_heap = gr::device_resource;
using step_graph = gr::step_graph;
#else
using device_heap = gr::host_resource;
struct step_graph {
  explicit step_graph(const auto&...) {}
  void run(const auto& step) { step(); }
};
#endif

/// Peak memory of this process in MiB; 0 where the system does not say.
inline double process_peak_mib() { return static_cast<double>(gr::platform::peak_resident_bytes()) / (1 << 20); }

#ifdef __CUDACC__
inline bool device_available() { return gr::cuda_available(); }
/// Nothing: a GPU's optimizer states stay on it.
struct offload_file {
  explicit offload_file(const std::string&) {}
  void keep_states(auto&, stream&) {}
  void keep_results(gr::context<device>&) {}
};
/// Makes a GPU the current device. Without any GPU it does nothing: the first stream throws.
inline void use_gpu(int number) {
  if (!device_available()) return;
  if (number >= gr::cuda_device::count()) gr::cuda_stream(gr::cuda_device{number});  // throws, and lists the GPUs
  gr::cuda_kit::check(cudaSetDevice(number), "cudaSetDevice");
}
/// Tunes matrix products, if a file is named.
inline void tune(gr::context<device>& ctx, const std::string& file) {
  if (!file.empty()) gr::tune_products(ctx, file);
}
inline void set_threads(stream&, int) {}
inline std::string thread_note(int) { return {}; }
inline std::string machine_name(const stream& on) {
  cudaDeviceProp known{};
  gr::cuda_kit::check(cudaGetDeviceProperties(&known, on.device().number), "cudaGetDeviceProperties");
  return std::string(known.name) + ", " + std::to_string(on.processors()) + " multiprocessors";
}
inline double peak_mib(const device_heap& heap) { return static_cast<double>(heap.peak_bytes()) / (1 << 20); }
/// What exchanges gradients and parameters of the ranks; must end before `ctx`.
inline std::shared_ptr<gr::communicator<device>> connect(gr::team& team, [[maybe_unused]] gr::context<device>& ctx) {
  if (team.size() == 1) return std::make_shared<gr::single_communicator<device>>();
#ifdef GPT_NCCL
  return std::make_shared<gr::nccl_communicator>(ctx, team.host(), team.host_context());
#else
  throw gr::bad_flag("--ranks: several GPUs are connected by NCCL, which was not found when this was compiled");
#endif
}
#else
inline bool device_available() { return true; }
/// The file of --offload, in which the optimizer's states are, and results that checkpoint regions offload. It must
/// outlive the contexts and the trainer.
class offload_file {
 public:
  /// Nothing is in a file if `folder` is empty.
  explicit offload_file(const std::string& folder) {
    if (!folder.empty()) file_ = std::make_unique<gr::file_resource>(folder);
  }
  void keep_states(auto& trainer, stream& on) {
    if (file_ == nullptr) return;
    states_.emplace(on, *file_);
    parts_.emplace(*file_);
    if constexpr (requires { trainer.keep_states(*states_, *parts_); }) trainer.keep_states(*states_, *parts_);
    else
      throw gr::bad_flag(std::string("--offload: ") + optimizer_name + " updates its states as a whole; " +
                         "--optimizer adamw, adamw_8bit, lion or sgd does so part by part");
  }
  void keep_results(gr::context<device>& steps) {
    if (file_ != nullptr) gr::offload_to(steps, *file_);
  }

 private:
  std::unique_ptr<gr::file_resource> file_;
  std::optional<gr::context<device>> states_;
  std::optional<gr::file_parts> parts_;
};
inline void use_gpu(int) {}
inline void tune(gr::context<device>&, const std::string&) {}
/// Sets the number of threads (0: OMP_NUM_THREADS, or one a processor), at most one a processor.
inline void set_threads(stream& on, int threads) {
  const int asked = threads > 0 ? threads : gr::cpu_kit::default_thread_count();
  gr::set_thread_count(on, std::min(asked, gr::cpu_kit::usable_processors()));
}
/// A note if more threads were asked for than there are processors; otherwise empty.
inline std::string thread_note(int threads) {
  const int processors = gr::cpu_kit::usable_processors();
  const int asked = threads > 0 ? threads : gr::cpu_kit::default_thread_count();
  if (asked <= processors) return {};
  return (threads > 0 ? "--threads " + std::to_string(threads) : std::string("OMP_NUM_THREADS")) +
         ": this process may use " + counted(static_cast<gr::index_t>(processors), "processor") + "; " +
         counted(static_cast<gr::index_t>(processors), "thread");
}
inline std::string machine_name(stream& on) {
  return counted(static_cast<gr::index_t>(gr::thread_count(on)), "thread");
}
inline double peak_mib(const device_heap&) { return process_peak_mib(); }
inline std::shared_ptr<gr::communicator<device>> connect(gr::team& team, gr::context<device>&) {
  return {std::shared_ptr<void>(), &team.host()};  // not owned
}
#endif

/// Measures for about `seconds` the most runs of `work` a second. On a GPU it waits once every `ahead` runs.
template <class Work>
double best_rate(const stream& on, double seconds, int ahead, const Work& work) {
  const int runs = on_gpu ? ahead : 1;
  double best = 0;
  for (const gr::stopwatch all; best == 0 || all.seconds() < seconds;) {
    const gr::stopwatch one;
    for (int i = 0; i < runs; ++i) work();
    on.synchronize();
    best = std::max(best, runs / one.seconds());
  }
  return best;
}

/// Measures the FLOP/s of the model's largest matrix product, [batch * context, width] times [width, 4 * width], in its
/// compute type. threads = 0: one a processor.
inline double machine_flops(int threads) {
  if (!device_available()) return 150e12;  // an A100 in 16 bits: a plan needs no GPU
  constexpr gr::index_t rows = batch_size * sizes.context, in = sizes.width, out = 4 * sizes.width;
  using factor = precision::compute;
  stream on;
  set_threads(on, threads);
  device_heap heap;
  gr::basic_pool_resource<stream> pool(heap);
  gr::context<device> ctx(on, pool);
  // Random: a GPU draws less power for constants, and would run faster than in training.
  const auto a = gr::uniform<factor, gr::shape<rows, in>>(ctx, gr::random_key{1}, -1, 1);
  const auto b = gr::uniform<factor, gr::shape<in, out>>(ctx, gr::random_key{2}, -1, 1);
  const auto product = [&] { static_cast<void>(gr::matmul(a, b)); };
  return best_rate(on, 0.3, 20, product) * 2.0 * static_cast<double>(rows * in * out);
}

/// Measures the bytes a second that ReLU reads and writes: of 32 MiB, or on a GPU, whose cache holds those, of 256 MiB.
inline double machine_bandwidth(int threads) {
  stream on;
  set_threads(on, threads);
  device_heap heap;
  gr::basic_pool_resource<stream> pool(heap);
  gr::context<device> ctx(on, pool);
  const auto x = gr::full<float, gr::shape<(on_gpu ? 1 << 26 : 1 << 23)>>(ctx, 1.0f);
  return best_rate(on, 0.2, 2, [&] { static_cast<void>(gr::relu(x)); }) * 2.0 * static_cast<double>(x.bytes);
}
/// Measures the bytes a second that are copied from the host's memory to the device's.
inline gr::host_link measured_link() {
  if (!on_gpu) return {};
  if (!device_available()) return {.bytes = 25e9};  // PCIe 4: a plan needs no GPU
  stream on;
  device_heap heap;
  gr::basic_pool_resource<stream> pool(heap);
  gr::context<device> ctx(on, pool);
  constexpr gr::index_t count = 1 << 22;
  gr::tensor<float, gr::shape<count>, device> to(ctx);
  gr::staging_buffer<float, device> from(ctx, count);
  return {.bytes = best_rate(on, 0.1, 4, [&] { from.upload(to); }) * static_cast<double>(to.bytes)};
}

}  // namespace gpt
