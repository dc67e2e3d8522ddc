#pragma once
// Matrix products by cuBLASLt. Shapes are static, so each product is described once: its layouts and an algorithm
// (gemm_choice.hpp), created at its first use and kept in the context.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <tuple>
#include <type_traits>

#include "../core/dtype.hpp"
#include "../core/extent.hpp"
#include "../memory/context.hpp"
#include "../precision/policy.hpp"
#include "device.hpp"
#include "error.hpp"
#include "gemm_choice.hpp"
#include "gemm_fp8.hpp"
#include "launch.hpp"
#include "resource.hpp"
#include "stream.hpp"
#include "workspace.hpp"

namespace gradus::cuda_kit {

/// The library's handle, and factors in GPU memory for products whose factor is computed there.
class gemm_library {
 public:
  explicit gemm_library(context<cuda>& ctx) {
    const device_guard guard(ctx.stream().device());
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
  /// Three numbers of the type of the sums: the factor of `scaled` products, written by a kernel; 0; and 1.
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

/// Creates the layout of `batch` column-major matrices that are `stride` elements apart, and their columns `apart`.
inline void create_layout(cublasLtMatrixLayout_t& made, cudaDataType_t type, index_t rows, index_t columns,
                          index_t apart, index_t batch, index_t stride) {
  check(cublasLtMatrixLayoutCreate(&made, type, rows, columns, static_cast<std::int64_t>(apart)),
        "cublasLtMatrixLayoutCreate");
  if (batch == 1) return;
  const auto set = [&](cublasLtMatrixLayoutAttribute_t which, const auto& value) {
    check(cublasLtMatrixLayoutSetAttribute(made, which, &value, sizeof(value)), "cublasLtMatrixLayoutSetAttribute");
  };
  set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(batch));
  set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, static_cast<std::int64_t>(stride));
}

/// The FP8 formats of both operands of a product; gradients use the one with the wider range.
template <class First, class Second>
struct fp8_sums {
  using first = First;
  using second = Second;
};
template <class Sums>
struct formats_of {
  using values = Sums;
  using gradient_first = Sums;
  using gradient_second = Sums;
};
template <>
struct formats_of<fp8_products> {
  using values = fp8_sums<e4m3, e4m3>;
  using gradient_first = fp8_sums<e5m2, e4m3>;
  using gradient_second = fp8_sums<e4m3, e5m2>;
};
template <class Sums>
inline constexpr bool is_fp8_sums = false;
template <class First, class Second>
inline constexpr bool is_fp8_sums<fp8_sums<First, Second>> = true;

/// C = op(A) op(B) + beta C on row-major, dense matrices: op(A) is m x k, op(B) is k x n. `batch` products are
/// contiguous; an operand shared by all has stride 0. Alignment is the smallest of all three addresses, in bytes. Each
/// type is described once. `Sums` is the type of the sums, tf32_products (tensor cores) or fp8_sums (8-bit operands).
template <class Sums, class Input, class Output, bool TransposeA, bool TransposeB, index_t M, index_t N, index_t K,
          index_t Batch = 1, bool SharedB = false, std::size_t Alignment = cuda::alignment>
struct product {
  static constexpr std::size_t alignment = Alignment;
  using sums = Sums;
  using input = Input;
  using output = Output;
  static constexpr bool in_tf32 = std::is_same_v<Sums, tf32_products>;
  static constexpr bool in_fp8 = is_fp8_sums<Sums>;
  static constexpr bool transpose_a = TransposeA, transpose_b = TransposeB, shared_b = SharedB;
  static constexpr index_t m = M, n = N, k = K, batch = Batch;
  static constexpr index_t row_of_a = TransposeA ? M : K;  ///< row stride of A as stored
  static constexpr bool scaled = false;
};
/// Product P with a row stride of Apart elements in A, times gemm_library::factors()[0] if Scaled.
template <class P, index_t Apart, bool Scaled>
struct product_of_rows : P {
  static constexpr index_t row_of_a = Apart;
  static constexpr bool scaled = Scaled;
};

/// What a product does besides: `bias` adds n elements to every row of c; `bias_gradient` writes the column sums
/// of B: the gradient of a bias, if B is that of a linear layer's output.
enum class epilogue { none, bias, bias_gradient };

/// Descriptors and algorithm of one product. The library expects column-major matrices, so it computes C^T = op(B)^T
/// op(A)^T: a row-major matrix is its transpose in column-major order.
template <class P, bool Accumulate, epilogue Epilogue>
class cublaslt_gemm {
  using scalar = compute_type<typename P::output>;
  static constexpr bool has_bias = Epilogue != epilogue::none;
  static_assert(!(Accumulate && Epilogue == epilogue::bias));

 public:
  explicit cublaslt_gemm(context<cuda>& ctx) : library_(&ctx.get<gemm_library>()) { describe(); }
  cublaslt_gemm(const cublaslt_gemm&) = delete;
  cublaslt_gemm& operator=(const cublaslt_gemm&) = delete;

  /// Returns false, without doing anything, if the library has no kernel for the product.
  bool run(context<cuda>& ctx, const typename P::input* a, const typename P::input* b, typename P::output* c,
           const typename P::output* bias) {
    const device_guard guard(ctx.stream().device());
    // The heuristics check the bias pointer's alignment, so the first product's bias must be set.
    if constexpr (has_bias) product_.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(bias));
    const auto submit = [&](const cublasLtMatmulAlgo_t& algorithm, void* to) {
      const scalar known[] = {1, 0, 1};
      const scalar* const factors = P::scaled ? static_cast<const scalar*>(library_->factors()) : known;
      void* const room = ctx.get<workspace>().reserve(ctx, workspace::least);
      return cublasLtMatmul(library_->handle(), product_.operation, factors, b, product_.left, a, product_.right,
                            factors + (Accumulate ? 2 : 1), c, product_.result, to, product_.result, &algorithm, room,
                            workspace::least, ctx.stream().handle());
    };
    if (!chosen_)
      algorithm_ = choose_algorithm(ctx, library_->handle(), product_, name,
                                    P::m * P::n * P::batch * sizeof(typename P::output), submit);
    chosen_ = true;
    if (!algorithm_) return false;
    check(submit(*algorithm_, c), "cublasLtMatmul");
    finish(ctx, "cublasLtMatmul");
    return true;
  }

 private:
  static std::string name() {
    std::ostringstream text;
    text << (P::transpose_a ? "a^T " : "a ") << (P::transpose_b ? "b^T" : "b") << (Accumulate ? " + c" : "")
         << (Epilogue == epilogue::bias ? " + bias"
             : has_bias                 ? ", bias gradient"
                                        : "")
         << (P::scaled ? ", scaled" : "") << ", " << P::m << " x " << P::k << " x " << P::n;
    if (P::batch > 1) text << ", " << P::batch << " times" << (P::shared_b ? " with one b" : "");
    text << ", " << dtype_name<typename P::input>() << (P::in_tf32 ? " in tf32" : "") << " to "
         << dtype_name<typename P::output>() << ", rows of a " << P::row_of_a << " apart, aligned to " << P::alignment;
    return text.str();
  }
  void describe() {
    constexpr bool is_double = std::is_same_v<typename P::output, double>;
    const cublasComputeType_t compute = is_double    ? CUBLAS_COMPUTE_64F
                                        : P::in_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                     : CUBLAS_COMPUTE_32F;
    product_.alignment = P::alignment;
    product_.result_element = sizeof(typename P::output);
    check(cublasLtMatmulDescCreate(&product_.operation, compute, is_double ? CUDA_R_64F : CUDA_R_32F),
          "cublasLtMatmulDescCreate");
    product_.set(CUBLASLT_MATMUL_DESC_TRANSA, P::transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    product_.set(CUBLASLT_MATMUL_DESC_TRANSB, P::transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    if constexpr (has_bias)
      product_.set(CUBLASLT_MATMUL_DESC_EPILOGUE,
                   Epilogue == epilogue::bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_BGRADA);
    if constexpr (P::scaled) product_.set(CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_DEVICE);
    layout(product_.left, cublas_type<typename P::input>(), P::transpose_b ? P::k : P::n, P::transpose_b ? P::n : P::k,
           P::transpose_b ? P::k : P::n, P::shared_b ? 0 : P::k * P::n);
    layout(product_.right, cublas_type<typename P::input>(), P::transpose_a ? P::m : P::k, P::transpose_a ? P::k : P::m,
           P::row_of_a, P::m * P::k);
    layout(product_.result, cublas_type<typename P::output>(), P::n, P::m, P::n, P::m * P::n);
  }
  static void layout(cublasLtMatrixLayout_t& made, cudaDataType_t type, index_t rows, index_t columns, index_t apart,
                     index_t stride) {
    create_layout(made, type, rows, columns, apart, P::batch, stride);
  }

  gemm_library* library_;
  gemm_description product_;
  std::optional<cublasLtMatmulAlgo_t> algorithm_;  // empty once chosen: the library has no kernel
  bool chosen_ = false;
};

/// Runs product P on the context's stream: overwrites c, or adds to it.
template <class P>
void gemm(context<cuda>& ctx, const typename P::input* a, const typename P::input* b, typename P::output* c,
          bool accumulate) {
  if constexpr (fits_fp8<P>()) {
    const cublasLtHandle_t library = ctx.get<gemm_library>().handle();
    if (!(accumulate ? ctx.get<fp8_gemm<P, true>>().run(ctx, library, a, b, c)
                     : ctx.get<fp8_gemm<P, false>>().run(ctx, library, a, b, c)))
      throw error(
          "cuBLASLt has no product in FP8 on this GPU, which takes compute capability 8.9 (L4, RTX 40, H100) or more: "
          "use bf16_mixed");
    return;
  }
  const bool done = accumulate ? ctx.get<cublaslt_gemm<P, true, epilogue::none>>().run(ctx, a, b, c, nullptr)
                               : ctx.get<cublaslt_gemm<P, false, epilogue::none>>().run(ctx, a, b, c, nullptr);
  if (!done)
    throw error("cuBLASLt has no kernel for a product of " + std::to_string(P::m) + " x " + std::to_string(P::k) +
                " and " + std::to_string(P::k) + " x " + std::to_string(P::n) + " elements of " +
                std::string(dtype_name<typename P::input>()));
}

/// Runs product P and adds `bias` (n elements) to every row of c. Returns false if the library has no kernel for both.
template <class P>
bool gemm_bias(context<cuda>& ctx, const typename P::input* a, const typename P::input* b, typename P::output* c,
               const typename P::output* bias) {
  if constexpr (std::is_same_v<typename P::output, double> || fits_fp8<P>()) return false;
  else return ctx.get<cublaslt_gemm<P, false, epilogue::bias>>().run(ctx, a, b, c, bias);
}
/// Runs product P and writes the sums of the columns of b to `sums`; overwrites c, or adds to it. Returns false,
/// without doing anything, if the library has no kernel for both.
template <class P>
bool gemm_bias_gradient(context<cuda>& ctx, const typename P::input* a, const typename P::input* b,
                        typename P::output* c, bool accumulate, typename P::output* sums) {
  if constexpr (std::is_same_v<typename P::output, double> || fits_fp8<P>() || P::transpose_b) return false;
  else if (accumulate) return ctx.get<cublaslt_gemm<P, true, epilogue::bias_gradient>>().run(ctx, a, b, c, sums);
  else return ctx.get<cublaslt_gemm<P, false, epilogue::bias_gradient>>().run(ctx, a, b, c, sums);
}

/// Products of row-major, dense matrices with run-time extents: op(a) is m x k, op(b) is k x n. Each operand and the
/// result is `batch` matrices, contiguous.
struct batched_product {
  bool transpose_a, transpose_b;
  index_t m, n, k, batch;

  friend auto operator<=>(const batched_product&, const batched_product&) = default;
};

/// Products of elements T, summed in float, for optimizers. The context keeps the layouts and algorithm of each.
template <class T>
class batched_products {
 public:
  explicit batched_products(context<cuda>& ctx) : library_(&ctx.get<gemm_library>()) {}
  batched_products(const batched_products&) = delete;
  batched_products& operator=(const batched_products&) = delete;

  /// to = alpha op(a) op(b) + beta c. `to` does not overlap the others; c is not read if beta is 0. All addresses are
  /// multiples of memory_request::alignment.
  void multiply(context<cuda>& ctx, const batched_product& of, const T* a, const T* b, T* to, float alpha = 1,
                float beta = 0, const T* c = nullptr) {
    const device_guard guard(ctx.stream().device());
    prepared_product& p = products_[of];
    const auto submit = [&](const cublasLtMatmulAlgo_t& algorithm, void* result) {
      void* const room = ctx.get<workspace>().reserve(ctx, workspace::least);
      return cublasLtMatmul(library_->handle(), p.product.operation, &alpha, b, p.product.left, a, p.product.right,
                            &beta, beta == 0 ? result : c, p.product.result, result, p.product.result, &algorithm, room,
                            workspace::least, ctx.stream().handle());
    };
    if (!p.algorithm) {
      if (p.product.operation == nullptr) describe(p.product, of);
      p.algorithm = choose_algorithm(
          ctx, library_->handle(), p.product, [&] { return name(of); }, of.m * of.n * of.batch * sizeof(T), submit);
      if (!p.algorithm) throw error("cuBLASLt has no kernel for an optimizer's product " + name(of));
    }
    check(submit(*p.algorithm, to), "cublasLtMatmul");
    finish(ctx, "cublasLtMatmul");
  }

 private:
  struct prepared_product {
    gemm_description product;
    std::optional<cublasLtMatmulAlgo_t> algorithm;
  };
  static std::string name(const batched_product& of) {
    std::ostringstream text;
    text << (of.transpose_a ? "a^T " : "a ") << (of.transpose_b ? "b^T" : "b") << ", " << of.m << " x " << of.k << " x "
         << of.n << ", " << of.batch << " times, " << dtype_name<T>() << " of an optimizer";
    return text.str();
  }
  static void describe(gemm_description& product, const batched_product& of) {
    product.alignment = memory_request::alignment;
    check(cublasLtMatmulDescCreate(&product.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
    product.set(CUBLASLT_MATMUL_DESC_TRANSA, of.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    product.set(CUBLASLT_MATMUL_DESC_TRANSB, of.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    const auto layout = [&](cublasLtMatrixLayout_t& made, index_t rows, index_t columns) {
      create_layout(made, cublas_type<T>(), rows, columns, rows, of.batch, rows * columns);
    };
    layout(product.left, of.transpose_b ? of.k : of.n, of.transpose_b ? of.n : of.k);
    layout(product.right, of.transpose_a ? of.m : of.k, of.transpose_a ? of.k : of.m);
    layout(product.result, of.n, of.m);
  }

  gemm_library* library_;
  std::map<batched_product, prepared_product> products_;
};

}  // namespace gradus::cuda_kit
