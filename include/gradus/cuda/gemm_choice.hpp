#pragma once
// The one header that includes cuBLASLt. Which of its algorithms computes a product: the one that the library's
// heuristics put first, or the fastest of those that they suggest, timed on the GPU when the product first comes and
// kept in a file.
#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
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

/// What cuBLASLt is told of a product: its operation and the layouts of both operands and of the result.
struct gemm_description {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t left = nullptr, right = nullptr, result = nullptr;
  std::size_t alignment = 0;  ///< of all addresses, in bytes
  /// Bytes of an element of the result; its address is a multiple of them in any case.
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

/// How the parts of a product whose k is split may be added up: not in place, where they come in the order in which
/// blocks happen to end and the last bits change from run to run.
inline constexpr std::uint32_t in_one_order = CUBLASLT_REDUCTION_SCHEME_MASK & ~CUBLASLT_REDUCTION_SCHEME_INPLACE;

/// Most algorithms that are compared for a product.
inline constexpr int most_algorithms = 16;

/// What the heuristics suggest for a product, their favourite first. Fewer than `wanted` where the library has fewer;
/// none where it has no kernel for the product.
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
    const std::uint32_t reductions = in_one_order;
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

/// The algorithms that were found to be the fastest, by product, and the file that keeps them. Belongs to a context.
class gemm_tuning {
 public:
  explicit gemm_tuning(context<cuda>&) {}

  bool on() const { return !path_.empty(); }
  /// Reads what `path` has for this GPU, driver and library, and adds to it from now on.
  void start(const context<cuda>& ctx, const std::string& path) {
    machine_ = machine_of(ctx.stream().device().number);
    std::ofstream writable(path, std::ios::app);
    if (!writable) throw error("cannot write '" + path + "', where the fastest algorithms of products are to be kept");
    if (writable.tellp() == std::ofstream::pos_type(0)) writable << heading << '\n';
    writable.close();
    read(path);
    path_ = path;
  }
  std::optional<cublasLtMatmulAlgo_t> known(const std::string& product) const {
    const auto at = known_.find(product);
    return at == known_.end() ? std::nullopt : std::optional(at->second);
  }
  /// A file that can no longer be written loses the choice; this program keeps it.
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
      throw wrong("is no file of tuned products; give another name, or remove it");
    while (std::getline(file, line)) {
      const std::size_t words = line.rfind('\t'), product = words == 0 ? words : line.rfind('\t', words - 1);
      if (words == std::string::npos || product == std::string::npos || line.size() - words - 1 != 16 * 8)
        throw wrong("is damaged: a line has no algorithm; remove the file, and products are timed anew");
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

/// Time on the GPU between two places of a stream.
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
  /// Since start(); waits for what was submitted until now.
  float milliseconds() {
    check(cudaEventRecord(ended_, stream_), "cudaEventRecord");
    check(cudaEventSynchronize(ended_), "cudaEventSynchronize");
    float took = 0;
    check(cudaEventElapsedTime(&took, began_, ended_), "cudaEventElapsedTime");
    return took;
  }
};

/// The suggestion that runs in the least time, of three runs each. `submit(algorithm)` submits the product once.
template <class Submit>
std::optional<cublasLtMatmulAlgo_t> fastest(context<cuda>& ctx, const gemm_suggestions& among, const Submit& submit) {
  gpu_stopwatch watch(ctx.stream());
  std::optional<cublasLtMatmulAlgo_t> best;
  float least = 0;
  for (const auto& one : among) {
    if (submit(one.algo) != CUBLAS_STATUS_SUCCESS) continue;  // and warms up
    for (int turn = 0; turn < 3; ++turn) {
      watch.start();
      static_cast<void>(submit(one.algo));
      const float took = watch.milliseconds();
      if (best && took >= least) continue;
      best = one.algo;
      least = took;
    }
  }
  return best;
}

/// The algorithm for a product, or nothing where the library has no kernel for it. Where the context's products are
/// tuned, `submit` is called with each suggestion, and memory of `scratch_bytes` for the result, unless it is known
/// what is fastest or a graph is being captured. `name` makes the product's name, which tells it from every other.
template <class Name, class Submit>
std::optional<cublasLtMatmulAlgo_t> choose_algorithm(context<cuda>& ctx, cublasLtHandle_t library,
                                                     const gemm_description& of, const Name& name,
                                                     std::size_t scratch_bytes, const Submit& submit) {
  gemm_tuning& tuning = ctx.get<gemm_tuning>();
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  if (tuning.on()) check(cudaStreamIsCapturing(ctx.stream().handle(), &capture), "cudaStreamIsCapturing");
  const bool tuned = tuning.on() && capture == cudaStreamCaptureStatusNone;
  const std::string product = tuning.on() ? name() : std::string();
  if (const auto kept = tuning.known(product)) {
    cublasLtMatmulHeuristicResult_t usable{};
    if (cublasLtMatmulAlgoCheck(library, of.operation, of.left, of.right, of.result, of.result, &*kept, &usable) ==
            CUBLAS_STATUS_SUCCESS &&
        usable.workspaceSize <= workspace::least)
      return kept;
  }
  const gemm_suggestions suggested(library, of, tuned ? most_algorithms : 1);
  if (suggested.begin() == suggested.end()) return std::nullopt;
  if (!tuned) return suggested.begin()->algo;
  void* scratch = nullptr;
  if (cudaMalloc(&scratch, scratch_bytes) != cudaSuccess) {  // no room to try: as without tuning
    static_cast<void>(cudaGetLastError());
    return suggested.begin()->algo;
  }
  const auto best = fastest(ctx, suggested, [&](const cublasLtMatmulAlgo_t& a) { return submit(a, scratch); });
  ctx.stream().synchronize();
  static_cast<void>(cudaFree(scratch));
  if (best) tuning.keep(product, *best);
  return best ? best : std::optional(suggested.begin()->algo);
}

}  // namespace cuda_kit

/// From now on each matrix product of this context, when it comes first, is computed by all algorithms that cuBLASLt
/// suggests, up to 16, and the fastest is kept: in this program, and in the file `path` for others on the same GPU,
/// driver and library. A program that finds its products there times nothing. Products that have come before keep their
/// algorithm, so call this before the first step. Which algorithm is fastest may change the last bits of a product, as
/// another library would: keep the file to have the same bits again. Needs memory for one more result. Throws error
/// where the file cannot be written, or is no such file.
inline void tune_products(context<cuda>& ctx, const std::string& path) {
  ctx.get<cuda_kit::gemm_tuning>().start(ctx, path);
}

}  // namespace gradus
