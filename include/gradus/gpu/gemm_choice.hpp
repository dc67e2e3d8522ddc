#pragma once
// The only header that includes cuBLASLt: chooses a product's algorithm, the first one that the heuristics suggest, or
// the fastest of the suggestions, timed at the product's first use and kept in a file.

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "../memory/context.hpp"
#include "error.hpp"
#include "resource.hpp"
#include "stream.hpp"
#include "workspace.hpp"

namespace gradus {

namespace cuda_kit {

inline void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) throw error(std::string(call) + ": " + cublasLtGetStatusString(status));
}

/// A product as cuBLASLt describes it: operation, and layouts of operands and result.
struct gemm_description {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t left = nullptr, right = nullptr, result = nullptr;
  std::size_t alignment = 0;  ///< smallest of all addresses, in bytes
  /// Bytes of an element of the result; its address is always a multiple.
  std::size_t result_element = 1;

  gemm_description() = default;
  gemm_description(const gemm_description&) = delete;
  gemm_description& operator=(const gemm_description&) = delete;
  ~gemm_description() {
    for (const cublasLtMatrixLayout_t made : {left, right, result})
      if (made != nullptr) static_cast<void>(cublasLtMatrixLayoutDestroy(made));
    if (operation != nullptr) static_cast<void>(cublasLtMatmulDescDestroy(operation));
  }
  template <class V>
  void set(cublasLtMatmulDescAttributes_t which, const V& value) {
    check(cublasLtMatmulDescSetAttribute(operation, which, &value, sizeof(value)), "cublasLtMatmulDescSetAttribute");
  }
};

/// The permitted reductions of a product with split k, whose result has elements of so many bytes. All add in one order
/// (cublasLt.h: counters guarantee it in place). In place and in the result's type they round sums of parts to that
/// type, which 16 bits are too few for.
constexpr std::uint32_t reductions_for(std::size_t result_element) {
  return result_element >= sizeof(float) ? CUBLASLT_REDUCTION_SCHEME_MASK : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
}

/// The most algorithms compared for a product.
inline constexpr int most_algorithms = 16;

/// The algorithms that the heuristics suggest for a product, best first: at most `wanted`, none without a kernel.
class gemm_suggestions {
  std::array<cublasLtMatmulHeuristicResult_t, most_algorithms> found_{};
  int count_ = 0;

 public:
  gemm_suggestions(cublasLtHandle_t library, const gemm_description& of, int wanted) {
    cublasLtMatmulPreference_t preference = nullptr;
    check(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    const std::size_t bytes = workspace::least;
    const auto alignment = static_cast<std::uint32_t>(of.alignment);
    const auto of_result = static_cast<std::uint32_t>(std::max(of.alignment, of.result_element));
    cublasStatus_t status = cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                                 &bytes, sizeof(bytes));
    for (const auto& [which, bytes_of] : {std::pair{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment},
                                          {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment},
                                          {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, of_result},
                                          {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, of_result}})
      if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulPreferenceSetAttribute(preference, which, &bytes_of, sizeof(bytes_of));
    const std::uint32_t reductions = reductions_for(of.result_element);
    if (status == CUBLAS_STATUS_SUCCESS)
      status = cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions,
                                                    sizeof(reductions));
    if (status == CUBLAS_STATUS_SUCCESS)
      status = cublasLtMatmulAlgoGetHeuristic(library, of.operation, of.left, of.right, of.result, of.result,
                                              preference, wanted, found_.data(), &count_);
    static_cast<void>(cublasLtMatmulPreferenceDestroy(preference));
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) count_ = 0;
    else check(status, "cublasLtMatmulAlgoGetHeuristic");
    const auto end = std::remove_if(found_.begin(), found_.begin() + count_,
                                    [](const auto& f) { return f.state != CUBLAS_STATUS_SUCCESS; });
    count_ = static_cast<int>(end - found_.begin());
  }
  const auto* begin() const { return found_.data(); }
  const auto* end() const { return found_.data() + count_; }
};

/// Stands for an algorithm: the product and what it does besides are computed one after the other.
inline constexpr cublasLtMatmulAlgo_t computed_apart{};
inline bool is_apart(const cublasLtMatmulAlgo_t& algorithm) {
  return std::ranges::equal(algorithm.data, computed_apart.data);
}
/// A product that is computed by an algorithm only.
struct never_apart {
  bool operator()(void*) const { return false; }
};

/// The fastest algorithms by product, and the file that stores them. Belongs to a context.
class gemm_tuning {
 public:
  explicit gemm_tuning(context<cuda>&) {}

  bool on() const { return !path_.empty(); }
  /// Whether the context's stream may be timed: not while a graph is captured.
  bool times(const context<cuda>& ctx) const {
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    if (on()) check(cudaStreamIsCapturing(ctx.stream().handle(), &capture), "cudaStreamIsCapturing");
    return on() && capture == cudaStreamCaptureStatusNone;
  }
  /// Reads the entries of `path` for this GPU, driver and library; later choices are appended.
  void start(const context<cuda>& ctx, const std::string& path) {
    machine_ = machine_of(ctx.stream().device().number);
    std::ofstream writable(path, std::ios::app);
    if (!writable) throw error("cannot write '" + path + "' to store the fastest algorithms of products");
    if (writable.tellp() == std::ofstream::pos_type(0)) writable << heading << '\n';
    writable.close();
    read(path);
    path_ = path;
  }
  std::optional<cublasLtMatmulAlgo_t> known(const std::string& product) const {
    const auto at = known_.find(product);
    return at == known_.end() ? std::nullopt : std::optional(at->second);
  }
  /// If the file is no longer writable, only this program keeps the choice.
  void keep(const std::string& product, const cublasLtMatmulAlgo_t& algorithm) {
    known_[product] = algorithm;
    std::ostringstream line;
    line << machine_ << '\t' << product << '\t';
    char digits[17];
    for (const std::uint64_t word : algorithm.data) {
      std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(word));
      line << digits;
    }
    line << '\n';
    std::ofstream(path_, std::ios::app) << line.str();
  }

 private:
  static constexpr std::string_view heading = "gradus: the fastest algorithms of cuBLASLt, a product a line";

  static std::string machine_of(int device) {
    cudaDeviceProp gpu{};
    check(cudaGetDeviceProperties(&gpu, device), "cudaGetDeviceProperties");
    int driver = 0;
    check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
    return std::string(gpu.name) + '\t' + std::to_string(driver) + '\t' + std::to_string(cublasLtGetVersion());
  }
  void read(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    const auto wrong = [&](const char* what) { return error("'" + path + "' " + what); };
    if (!std::getline(file, line) || line != heading)
      throw wrong("is not a file of tuned products; remove it or use another name");
    while (std::getline(file, line)) {
      const std::size_t words = line.rfind('\t'), product = words == 0 ? words : line.rfind('\t', words - 1);
      if (words == std::string::npos || product == std::string::npos || line.size() - words - 1 != 16 * 8)
        throw wrong("is damaged: a line has no algorithm; remove the file to time the products again");
      if (line.compare(0, product, machine_) != 0) continue;
      cublasLtMatmulAlgo_t algorithm{};
      for (std::size_t i = 0; i < 8; ++i)
        algorithm.data[i] = std::strtoull(line.substr(words + 1 + 16 * i, 16).c_str(), nullptr, 16);
      known_[line.substr(product + 1, words - product - 1)] = algorithm;
    }
  }

  std::string path_, machine_;
  std::map<std::string, cublasLtMatmulAlgo_t> known_;
};

/// GPU time between two points of a stream.
class gpu_stopwatch {
  cudaEvent_t began_ = nullptr, ended_ = nullptr;
  cudaStream_t stream_;

 public:
  explicit gpu_stopwatch(const cuda_stream& on) : stream_(on.handle()) {
    check(cudaEventCreate(&began_), "cudaEventCreate");
    const cudaError_t status = cudaEventCreate(&ended_);
    if (status == cudaSuccess) return;
    static_cast<void>(cudaEventDestroy(began_));
    fail(status, "cudaEventCreate");
  }
  gpu_stopwatch(const gpu_stopwatch&) = delete;
  gpu_stopwatch& operator=(const gpu_stopwatch&) = delete;
  ~gpu_stopwatch() {
    static_cast<void>(cudaEventDestroy(began_));
    static_cast<void>(cudaEventDestroy(ended_));
  }
  void start() { check(cudaEventRecord(began_, stream_), "cudaEventRecord"); }
  /// Time since start(); waits for the work submitted so far.
  float milliseconds() {
    check(cudaEventRecord(ended_, stream_), "cudaEventRecord");
    check(cudaEventSynchronize(ended_), "cudaEventSynchronize");
    float took = 0;
    check(cudaEventElapsedTime(&took, began_, ended_), "cudaEventElapsedTime");
    return took;
  }
};

/// The fastest in three runs each of the suggestions and computed_apart. `submit(algorithm)` and `apart()` submit the
/// product once and return whether they could.
template <class Submit, class Apart>
std::optional<cublasLtMatmulAlgo_t> fastest(context<cuda>& ctx, const gemm_suggestions& among, const Submit& submit,
                                            const Apart& apart) {
  gpu_stopwatch watch(ctx.stream());
  std::optional<cublasLtMatmulAlgo_t> best;
  float least = 0;
  const auto compare = [&](const cublasLtMatmulAlgo_t& one, const auto& run) {
    if (!run()) return;  // also warms up
    for (int turn = 0; turn < 3; ++turn) {
      watch.start();
      static_cast<void>(run());
      const float took = watch.milliseconds();
      if (best && took >= least) continue;
      best = one;
      least = took;
    }
  };
  for (const auto& one : among) compare(one.algo, [&] { return submit(one.algo); });
  compare(computed_apart, apart);
  return best;
}
/// Calls f with so many bytes of GPU memory, zeros; returns false, and does nothing, if there are none.
template <class F>
bool with_trial_memory(context<cuda>& ctx, std::size_t bytes, const F& f) {
  const device_guard guard(ctx.stream().device());
  void* memory = nullptr;
  if (cudaMalloc(&memory, bytes) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return false;
  }
  const auto free = [](void* p) { static_cast<void>(cudaFree(p)); };
  const std::unique_ptr<void, decltype(free)> owner(memory, free);
  check(cudaMemsetAsync(memory, 0, bytes, ctx.stream().handle()), "cudaMemsetAsync");
  f(memory);
  ctx.stream().synchronize();
  return true;
}

/// The algorithm for a product; empty if the library has no kernel, or if the product is faster apart from what it does
/// besides. If the context tunes products, calls `submit` with each suggestion and `scratch_bytes` of memory for the
/// result, and `apart` with the memory, unless the fastest is known or a graph is being captured. `name` returns the
/// product's unique name.
template <class Name, class Submit, class Apart = never_apart>
std::optional<cublasLtMatmulAlgo_t> choose_algorithm(context<cuda>& ctx, cublasLtHandle_t library,
                                                     const gemm_description& of, const Name& name,
                                                     std::size_t scratch_bytes, const Submit& submit,
                                                     const Apart& apart = {}) {
  gemm_tuning& tuning = ctx.get<gemm_tuning>();
  const bool tuned = tuning.times(ctx);
  const std::string product = tuning.on() ? name() : std::string();
  if (const auto kept = tuning.known(product)) {
    if (is_apart(*kept)) return std::nullopt;
    cublasLtMatmulHeuristicResult_t usable{};
    if (cublasLtMatmulAlgoCheck(library, of.operation, of.left, of.right, of.result, of.result, &*kept, &usable) ==
            CUBLAS_STATUS_SUCCESS &&
        usable.workspaceSize <= workspace::least)
      return kept;
  }
  const gemm_suggestions suggested(library, of, tuned ? most_algorithms : 1);
  if (suggested.begin() == suggested.end()) return std::nullopt;
  std::optional<cublasLtMatmulAlgo_t> best;
  if (tuned)
    static_cast<void>(with_trial_memory(ctx, scratch_bytes, [&](void* scratch) {
      best = fastest(
          ctx, suggested, [&](const cublasLtMatmulAlgo_t& a) { return submit(a, scratch) == CUBLAS_STATUS_SUCCESS; },
          [&] { return apart(scratch); });
    }));
  if (!best) return suggested.begin()->algo;
  tuning.keep(product, *best);
  return is_apart(*best) ? std::nullopt : best;
}

}  // namespace cuda_kit

/// From now on, times all algorithms that cuBLASLt suggests for each new matrix product of this context, up to 16, and,
/// for the gradients of a linear layer's weight and bias, one call beside two. Keeps what is fastest: in this program,
/// and in the file `path` for programs on the same GPU, driver and library, which then time nothing. Products already
/// computed keep their algorithm, so call this before the first step. Algorithms may differ in the last bits: keep the
/// file for reproducible results. Needs memory for two more results. Throws error if the file cannot be written or is
/// not such a file.
inline void tune_products(context<cuda>& ctx, const std::string& path) {
  ctx.get<cuda_kit::gemm_tuning>().start(ctx, path);
}

}  // namespace gradus
