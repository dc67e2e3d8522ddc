#pragma once
// The one header that includes cuBLASLt. Shapes are static, so each product of a program has one plan: its layouts and the
// algorithm that the library's heuristics put first, made on first use and kept in the context.
#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <type_traits>

#include "../core/dtype.hpp"
#include "../core/extent.hpp"
#include "../memory/context.hpp"
#include "../precision/policy.hpp"
#include "error.hpp"
#include "resource.hpp"
#include "stream.hpp"
#include "workspace.hpp"

namespace gradus::cuda_kit {

inline void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) throw error(std::string(call) + ": " + cublasLtGetStatusString(status));
}

/// The library's handle, and a few numbers on the GPU for products whose factor is known there alone. Its kernels use the context's
/// workspace.
class gemm_library {
 public:
  explicit gemm_library(context<cuda>&) {
    check(cublasLtCreate(&handle_), "cublasLtCreate");
    const cudaError_t status = cudaMalloc(&factors_, 3 * sizeof(double));
    if (status != cudaSuccess) {
      static_cast<void>(cublasLtDestroy(handle_));
      fail(status, "cudaMalloc (24 bytes for cuBLASLt)");
    }
  }
  gemm_library(const gemm_library&) = delete;
  gemm_library& operator=(const gemm_library&) = delete;
  ~gemm_library() {
    static_cast<void>(cudaFree(factors_));
    static_cast<void>(cublasLtDestroy(handle_));
  }
  cublasLtHandle_t handle() const { return handle_; }
  /// Three numbers in the type that products are summed in: the factor of a `scaled` product, 0 and 1. A kernel writes them.
  void* factors() const { return factors_; }

 private:
  cublasLtHandle_t handle_ = nullptr;
  void* factors_ = nullptr;
};

template <class T>
constexpr cudaDataType_t cublas_type() {
  if constexpr (std::is_same_v<T, double>) return CUDA_R_64F;
  else if constexpr (std::is_same_v<T, float>) return CUDA_R_32F;
  else if constexpr (std::is_same_v<T, bf16>) return CUDA_R_16BF;
  else {
    static_assert(std::is_same_v<T, f16>, "matrix products on the GPU take f64, f32, bf16 or f16");
    return CUDA_R_16F;
  }
}

/// C = op(A) op(B) + beta C on row-major, dense matrices: op(A) is m x k, op(B) is k x n. `batch` products lie one after another;
/// an operand that is shared by all of them has stride 0. Alignment is of all three addresses, in bytes. As a type, because one plan
/// belongs to each. `Sums` is what it is computed in; tf32_products takes float operands to the tensor cores.
template <class Sums, class Input, class Output, bool TransposeA, bool TransposeB, index M, index N, index K,
          index Batch = 1, bool SharedB = false, std::size_t Alignment = memory_request::alignment>
struct product {
  static constexpr std::size_t alignment = Alignment;
  using input = Input;
  using output = Output;
  static constexpr bool in_tf32 = std::is_same_v<Sums, tf32_products>;
  static constexpr bool transpose_a = TransposeA, transpose_b = TransposeB, shared_b = SharedB;
  static constexpr index m = M, n = N, k = K, batch = Batch;
  static constexpr index row_of_a = TransposeA ? M : K;  ///< elements from one row of A, as it lies, to the next
  static constexpr bool scaled = false;
};
/// Product P of an A whose rows lie Apart elements apart, times gemm_library::factors()[0] where Scaled.
template <class P, index Apart, bool Scaled>
struct product_of_rows : P {
  static constexpr index row_of_a = Apart;
  static constexpr bool scaled = Scaled;
};

/// Descriptors and algorithm of one product. The library stores columns first, so it is given C^T = op(B)^T op(A)^T: what lies in
/// memory as a row-major matrix is, to the library, its transpose.
template <class P, bool Accumulate, bool Bias>
class gemm_plan {
  using scalar = compute_type<typename P::output>;
  static_assert(!(Accumulate && Bias));

 public:
  explicit gemm_plan(context<cuda>& ctx) : library_(&ctx.get<gemm_library>()) {
    try {
      describe();
    } catch (...) {
      destroy();
      throw;
    }
  }
  gemm_plan(const gemm_plan&) = delete;
  gemm_plan& operator=(const gemm_plan&) = delete;
  ~gemm_plan() { destroy(); }

  /// False when the library has no kernel for it: nothing was done then.
  bool run(context<cuda>& ctx, const typename P::input* a, const typename P::input* b, typename P::output* c,
           const typename P::output* bias) {
    if constexpr (Bias) set_bias(bias);
    if (state_ == state::new_) state_ = choose() ? state::ready : state::unsupported;
    if (state_ == state::unsupported) return false;
    const scalar known[] = {1, 0, 1};
    const scalar* const factors = P::scaled ? static_cast<const scalar*>(library_->factors()) : known;
    void* const room = ctx.get<workspace>().reserve(ctx, workspace::least);
    check(cublasLtMatmul(library_->handle(), operation_, factors, b, left_, a, right_, factors + (Accumulate ? 2 : 1),
                         c, result_, c, result_, &algorithm_, room, workspace::least, ctx.stream().handle()),
          "cublasLtMatmul");
    return true;
  }

 private:
  enum class state { new_, ready, unsupported };
  void describe() {
    constexpr bool is_double = std::is_same_v<typename P::output, double>;
    const cublasComputeType_t compute = is_double    ? CUBLAS_COMPUTE_64F
                                        : P::in_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                     : CUBLAS_COMPUTE_32F;
    check(cublasLtMatmulDescCreate(&operation_, compute, is_double ? CUDA_R_64F : CUDA_R_32F),
          "cublasLtMatmulDescCreate");
    const cublasOperation_t of_left = P::transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t of_right = P::transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    set(CUBLASLT_MATMUL_DESC_TRANSA, of_left);
    set(CUBLASLT_MATMUL_DESC_TRANSB, of_right);
    if constexpr (Bias) set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    if constexpr (P::scaled) set(CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_DEVICE);
    layout(left_, cublas_type<typename P::input>(), P::transpose_b ? P::k : P::n, P::transpose_b ? P::n : P::k,
           P::transpose_b ? P::k : P::n, P::shared_b ? 0 : P::k * P::n);
    layout(right_, cublas_type<typename P::input>(), P::transpose_a ? P::m : P::k, P::transpose_a ? P::k : P::m,
           P::row_of_a, P::m * P::k);
    layout(result_, cublas_type<typename P::output>(), P::n, P::m, P::n, P::m * P::n);
  }

  // The heuristics look at the bias pointer's alignment, so the first product's bias must be known.
  bool choose() {
    cublasLtMatmulPreference_t preference = nullptr;
    check(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    const std::size_t bytes = workspace::least;
    const auto alignment = static_cast<std::uint32_t>(P::alignment);
    cublasStatus_t status = cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                                 &bytes, sizeof(bytes));
    for (const auto which : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                             CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulPreferenceSetAttribute(preference, which, &alignment, sizeof(alignment));
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    if (status == CUBLAS_STATUS_SUCCESS)
      status = cublasLtMatmulAlgoGetHeuristic(library_->handle(), operation_, left_, right_, result_, result_,
                                              preference, 1, &found, &count);
    static_cast<void>(cublasLtMatmulPreferenceDestroy(preference));
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) return false;
    check(status, "cublasLtMatmulAlgoGetHeuristic");
    if (count == 0 || found.state != CUBLAS_STATUS_SUCCESS) return false;
    algorithm_ = found.algo;
    return true;
  }

  template <class V>
  void set(cublasLtMatmulDescAttributes_t which, const V& value) {
    check(cublasLtMatmulDescSetAttribute(operation_, which, &value, sizeof(value)), "cublasLtMatmulDescSetAttribute");
  }
  void set_bias(const typename P::output* bias) {
    const void* pointer = bias;
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, pointer);
  }
  static void layout(cublasLtMatrixLayout_t& made, cudaDataType_t type, index rows, index columns, index apart,
                     index stride) {
    check(cublasLtMatrixLayoutCreate(&made, type, rows, columns, static_cast<std::int64_t>(apart)),
          "cublasLtMatrixLayoutCreate");
    if constexpr (P::batch > 1) {
      const auto count = static_cast<std::int32_t>(P::batch);
      const auto offset = static_cast<std::int64_t>(stride);
      check(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)),
            "cublasLtMatrixLayoutSetAttribute");
      check(
          cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &offset, sizeof(offset)),
          "cublasLtMatrixLayoutSetAttribute");
    }
  }
  void destroy() {
    for (cublasLtMatrixLayout_t made : {left_, right_, result_})
      if (made != nullptr) static_cast<void>(cublasLtMatrixLayoutDestroy(made));
    if (operation_ != nullptr) static_cast<void>(cublasLtMatmulDescDestroy(operation_));
  }

  gemm_library* library_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t left_ = nullptr;
  cublasLtMatrixLayout_t right_ = nullptr;
  cublasLtMatrixLayout_t result_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{};
  state state_ = state::new_;
};

/// Runs product P on the context's stream: assigns c, or adds to it.
template <class P>
void gemm(context<cuda>& ctx, const typename P::input* a, const typename P::input* b, typename P::output* c,
          bool accumulate) {
  const bool done = accumulate ? ctx.get<gemm_plan<P, true, false>>().run(ctx, a, b, c, nullptr)
                               : ctx.get<gemm_plan<P, false, false>>().run(ctx, a, b, c, nullptr);
  if (!done)
    throw error("cuBLASLt has no kernel for a product of " + std::to_string(P::m) + " x " + std::to_string(P::k) +
                " and " + std::to_string(P::k) + " x " + std::to_string(P::n) + " elements of " +
                std::string(dtype_name<typename P::input>()));
}

/// Runs product P and adds `bias`, of n elements, to every row of c. False when the library cannot do both at once.
template <class P>
bool gemm_bias(context<cuda>& ctx, const typename P::input* a, const typename P::input* b, typename P::output* c,
               const typename P::output* bias) {
  if constexpr (std::is_same_v<typename P::output, double>) return false;
  else return ctx.get<gemm_plan<P, false, true>>().run(ctx, a, b, c, bias);
}

/// Products of floats whose extents are known only at run time, such as those of an optimizer. A plan for each, kept in the context.
class float_products {
 public:
  explicit float_products(context<cuda>& ctx) : library_(&ctx.get<gemm_library>()) {}
  float_products(const float_products&) = delete;
  float_products& operator=(const float_products&) = delete;
  ~float_products() {
    for (auto& [of, p] : plans_) {
      for (const cublasLtMatrixLayout_t made : p.layouts)
        if (made != nullptr) static_cast<void>(cublasLtMatrixLayoutDestroy(made));
      if (p.operation != nullptr) static_cast<void>(cublasLtMatmulDescDestroy(p.operation));
    }
  }
  /// c = op(a) op(b) on row-major, dense matrices: op(a) is m x k, op(b) is k x n.
  void multiply(context<cuda>& ctx, bool transpose_a, bool transpose_b, index m, index n, index k, const float* a,
                const float* b, float* c) {
    plan& p = plans_[{m, n, k, (transpose_a ? 1u : 0u) + (transpose_b ? 2u : 0u)}];
    if (!p.ready) make(p, transpose_a, transpose_b, m, n, k);
    const float alpha = 1, beta = 0;
    void* const room = ctx.get<workspace>().reserve(ctx, workspace::least);
    check(cublasLtMatmul(library_->handle(), p.operation, &alpha, b, p.layouts[0], a, p.layouts[1], &beta, c,
                         p.layouts[2], c, p.layouts[2], &p.algorithm, room, workspace::least, ctx.stream().handle()),
          "cublasLtMatmul");
  }

 private:
  struct plan {
    cublasLtMatmulDesc_t operation = nullptr;
    cublasLtMatrixLayout_t layouts[3] = {};  // b, a and c, which the library takes for their transposes
    cublasLtMatmulAlgo_t algorithm{};
    bool ready = false;
  };
  void make(plan& p, bool transpose_a, bool transpose_b, index m, index n, index k) {
    check(cublasLtMatmulDescCreate(&p.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
    const cublasOperation_t of_left = transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                            of_right = transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    check(cublasLtMatmulDescSetAttribute(p.operation, CUBLASLT_MATMUL_DESC_TRANSA, &of_left, sizeof of_left),
          "cublasLtMatmulDescSetAttribute");
    check(cublasLtMatmulDescSetAttribute(p.operation, CUBLASLT_MATMUL_DESC_TRANSB, &of_right, sizeof of_right),
          "cublasLtMatmulDescSetAttribute");
    const index rows[] = {transpose_b ? k : n, transpose_a ? m : k, n},
                columns[] = {transpose_b ? n : k, transpose_a ? k : m, m};
    for (int i = 0; i < 3; ++i)
      check(cublasLtMatrixLayoutCreate(&p.layouts[i], CUDA_R_32F, rows[i], columns[i],
                                       static_cast<std::int64_t>(rows[i])),
            "cublasLtMatrixLayoutCreate");
    cublasLtMatmulPreference_t preference = nullptr;
    check(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    const std::size_t bytes = workspace::least;
    const std::uint32_t alignment = sizeof(float);  // a matrix may begin anywhere in its optimizer's memory
    cublasStatus_t status = cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                                 &bytes, sizeof bytes);
    for (const auto which : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                             CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulPreferenceSetAttribute(preference, which, &alignment, sizeof alignment);
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    if (status == CUBLAS_STATUS_SUCCESS)
      status = cublasLtMatmulAlgoGetHeuristic(library_->handle(), p.operation, p.layouts[0], p.layouts[1], p.layouts[2],
                                              p.layouts[2], preference, 1, &found, &count);
    static_cast<void>(cublasLtMatmulPreferenceDestroy(preference));
    check(status, "cublasLtMatmulAlgoGetHeuristic");
    if (count == 0)
      throw error("cuBLASLt has no kernel for a product of " + std::to_string(m) + " x " + std::to_string(k) + " and " +
                  std::to_string(k) + " x " + std::to_string(n) + " floats");
    p.algorithm = found.algo;
    p.ready = true;
  }

  gemm_library* library_;
  std::map<std::tuple<index, index, index, unsigned>, plan> plans_;
};

}  // namespace gradus::cuda_kit
