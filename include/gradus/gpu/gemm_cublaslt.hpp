#pragma once
// Matrix products by cuBLASLt. Each product is described once: its layouts and an algorithm (gemm_choice.hpp), created
// at its first use and kept in the context, by its type if shapes are static, by its sizes if they are bounded.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <sstream>
#include <string>
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
    refuse_in_capture(ctx.stream(), "cuBLASLt",
                      {.bytes = 3 * sizeof(double), .what = category::temporary, .source = "its first product"});
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

/// What a product does besides: `bias` adds n elements to every row of c; `bias_gradient` writes the column sums of B:
/// the gradient of a bias, if B is the gradient of a linear layer's output.
enum class epilogue { none, bias, bias_gradient };

/// A product C = op(A) op(B) + beta C of row-major, dense matrices: op(A) is m x k, op(B) is k x n.
struct product_sizes {
  bool transpose_a = false, transpose_b = false;
  index_t m = 1, n = 1, k = 1, batch = 1;   ///< products are contiguous
  bool shared_b = false;                    ///< one B for all, which has stride 0
  std::size_t alignment = cuda::alignment;  ///< smallest of all three addresses, in bytes
  index_t row_of_a = 0;                     ///< row stride of A as stored; 0: rows are contiguous
  bool scaled = false;                      ///< times gemm_library::factors()[0]
  bool accumulate = false;                  ///< beta is not 0
  epilogue besides = epilogue::none;
  bool shared_a = false;  ///< one A for all, which has stride 0

  constexpr index_t stride_of_a() const { return row_of_a != 0 ? row_of_a : transpose_a ? m : k; }
  friend auto operator<=>(const product_sizes&, const product_sizes&) = default;
};

/// A product of static sizes. `Sums` is the type of the sums, tf32_products (tensor cores) or fp8_sums (8-bit
/// operands).
template <class Sums, class Input, class Output, bool TransposeA, bool TransposeB, index_t M, index_t N, index_t K,
          index_t Batch = 1, bool SharedB = false, std::size_t Alignment = cuda::alignment, index_t RowOfA = 0,
          bool Scaled = false>
struct product {
  using sums = Sums;
  using input = Input;
  using output = Output;
  static constexpr bool bounded = false;
  static constexpr bool in_fp8 = is_fp8_sums<Sums>;
  static constexpr bool transpose_a = TransposeA, transpose_b = TransposeB, scaled = Scaled;
  static constexpr index_t m = M, n = N, k = K, batch = Batch;
  static constexpr std::size_t alignment = Alignment;
  static constexpr product_sizes sizes{TransposeA, TransposeB, M, N, K, Batch, SharedB, Alignment, RowOfA, Scaled};
};
/// A product of sizes that are known at run time.
template <class Sums, class Input, class Output>
struct bounded_product {
  using sums = Sums;
  using input = Input;
  using output = Output;
  static constexpr bool bounded = true;
  product_sizes sizes;
};
/// The product of operands with these extents, whose sizes `rule(extents...)` returns; the rule has no captures.
template <class Sums, class Input, class Output, class Rule, class... Extents>
constexpr auto product_of([[maybe_unused]] const Rule& rule, const Extents&... of) {
  if constexpr ((Extents::bounded || ...)) {
    return bounded_product<Sums, Input, Output>{rule(of...)};
  } else {
    constexpr product_sizes p = Rule{}(Extents{}...);
    return product<Sums, Input, Output, p.transpose_a, p.transpose_b, p.m, p.n, p.k, p.batch, p.shared_b, p.alignment,
                   p.row_of_a, p.scaled>{};
  }
}

/// Where the factors of a product are.
struct gemm_factors {
  const void *alpha, *beta;
};

/// Descriptors and algorithm of one product. The library expects column-major matrices, so it computes C^T = op(B)^T
/// op(A)^T: a row-major matrix is its transpose in column-major order.
template <class Sums, class Input, class Output>
class prepared_product {
 public:
  explicit prepared_product(context<cuda>& ctx) : library_(&ctx.get<gemm_library>()) {}
  prepared_product(const prepared_product&) = delete;
  prepared_product& operator=(const prepared_product&) = delete;

  /// to = alpha op(a) op(b) + beta c, always of the same sizes. Factors have the type of the sums, and are in GPU
  /// memory if the product is scaled. Returns false, without a result, if the library has no kernel for it, or if
  /// `apart(to)` was faster, which computes the same in several steps.
  template <class Apart = never_apart>
  bool run(context<cuda>& ctx, const product_sizes& of, const Input* a, const Input* b, const Output* c, Output* to,
           gemm_factors by, const Output* bias = nullptr, const Apart& apart = {}) {
    const device_guard guard(ctx.stream().device());
    if (product_.operation == nullptr) describe(of);
    // The heuristics check the bias pointer's alignment, so the first product's bias must be set.
    if (of.besides != epilogue::none) product_.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(bias));
    const auto submit = [&](const cublasLtMatmulAlgo_t& algorithm, void* result) {
      void* const room = ctx.get<workspace>().reserve(ctx, workspace::least);
      return cublasLtMatmul(library_->handle(), product_.operation, by.alpha, b, product_.left, a, product_.right,
                            by.beta, of.accumulate ? c : result, product_.result, result, product_.result, &algorithm,
                            room, workspace::least, ctx.stream().handle());
    };
    if (!chosen_)
      algorithm_ = choose_algorithm(
          ctx, library_->handle(), product_, [&] { return name(of); }, of.m * of.n * of.batch * sizeof(Output), submit,
          apart);
    chosen_ = true;
    if (!algorithm_) return false;
    check(submit(*algorithm_, to), "cublasLtMatmul");
    finish(ctx, "cublasLtMatmul");
    return true;
  }
  /// to = op(a) op(b), or c + it.
  template <class Apart = never_apart>
  bool run(context<cuda>& ctx, const product_sizes& of, const Input* a, const Input* b, const Output* c, Output* to,
           const Output* bias = nullptr, const Apart& apart = {}) {
    using scalar = compute_type<Output>;
    const scalar known[] = {1, 0, 1};
    const scalar* const factors = of.scaled ? static_cast<const scalar*>(library_->factors()) : known;
    return run(ctx, of, a, b, c, to, gemm_factors{factors, factors + (of.accumulate ? 2 : 1)}, bias, apart);
  }

 private:
  static constexpr bool in_tf32 = std::is_same_v<Sums, tf32_products>;

  static std::string name(const product_sizes& of) {
    std::ostringstream text;
    text << (of.transpose_a ? "a^T " : "a ") << (of.transpose_b ? "b^T" : "b") << (of.accumulate ? " + c" : "")
         << (of.besides == epilogue::bias   ? " + bias"
             : of.besides != epilogue::none ? ", bias gradient"
                                            : "")
         << (of.scaled ? ", scaled" : "") << ", " << of.m << " x " << of.k << " x " << of.n;
    if (of.batch > 1)
      text << ", " << of.batch << " times" << (of.shared_a ? " with one a" : "") << (of.shared_b ? " with one b" : "");
    text << ", " << dtype_name<Input>() << (in_tf32 ? " in tf32" : "") << " to " << dtype_name<Output>()
         << ", rows of a " << of.stride_of_a() << " apart, aligned to " << of.alignment;
    return text.str();
  }
  void describe(const product_sizes& of) {
    constexpr bool is_double = std::is_same_v<Output, double>;
    const cublasComputeType_t compute = is_double ? CUBLAS_COMPUTE_64F
                                        : in_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                  : CUBLAS_COMPUTE_32F;
    product_.alignment = of.alignment;
    product_.result_element = sizeof(Output);
    check(cublasLtMatmulDescCreate(&product_.operation, compute, is_double ? CUDA_R_64F : CUDA_R_32F),
          "cublasLtMatmulDescCreate");
    product_.set(CUBLASLT_MATMUL_DESC_TRANSA, of.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    product_.set(CUBLASLT_MATMUL_DESC_TRANSB, of.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (of.besides != epilogue::none)
      product_.set(CUBLASLT_MATMUL_DESC_EPILOGUE,
                   of.besides == epilogue::bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_BGRADA);
    if (of.scaled) product_.set(CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_DEVICE);
    const auto layout = [&](cublasLtMatrixLayout_t& made, cudaDataType_t type, index_t rows, index_t columns,
                            index_t apart,
                            index_t stride) { create_layout(made, type, rows, columns, apart, of.batch, stride); };
    layout(product_.left, cublas_type<Input>(), of.transpose_b ? of.k : of.n, of.transpose_b ? of.n : of.k,
           of.transpose_b ? of.k : of.n, of.shared_b ? 0 : of.k * of.n);
    layout(product_.right, cublas_type<Input>(), of.transpose_a ? of.m : of.k, of.transpose_a ? of.k : of.m,
           of.stride_of_a(), of.shared_a ? 0 : of.m * of.k);
    layout(product_.result, cublas_type<Output>(), of.n, of.m, of.n, of.m * of.n);
  }

  gemm_library* library_;
  gemm_description product_;
  std::optional<cublasLtMatmulAlgo_t> algorithm_;  // empty once chosen: the library has no kernel
  bool chosen_ = false;
};

/// A product of static sizes, which a context finds by its type.
template <class P, bool Accumulate, epilogue Besides>
struct static_product : prepared_product<typename P::sums, typename P::input, typename P::output> {
  using prepared_product<typename P::sums, typename P::input, typename P::output>::prepared_product;
};
/// Products that a context finds by their sizes.
template <class Sums, class Input, class Output>
class sized_products {
 public:
  explicit sized_products(context<cuda>&) {}
  prepared_product<Sums, Input, Output>& of(context<cuda>& ctx, const product_sizes& sizes) {
    return products_.try_emplace(sizes, ctx).first->second;
  }

 private:
  std::map<product_sizes, prepared_product<Sums, Input, Output>> products_;
};

/// Runs product p with an epilogue: to = op(a) op(b), or c + it. Returns false, without a result, if the library has no
/// kernel for both, or `apart(to)` was faster.
template <bool Accumulate, epilogue Besides, class P, class Apart = never_apart>
bool run_product(context<cuda>& ctx, const P& p, const typename P::input* a, const typename P::input* b,
                 const typename P::output* c, typename P::output* to, const typename P::output* bias = nullptr,
                 const Apart& apart = {}) {
  product_sizes of = p.sizes;
  of.accumulate = Accumulate;
  of.besides = Besides;
  if constexpr (P::bounded)
    return ctx.get<sized_products<typename P::sums, typename P::input, typename P::output>>().of(ctx, of).run(
        ctx, of, a, b, c, to, bias, apart);
  else return ctx.get<static_product<P, Accumulate, Besides>>().run(ctx, of, a, b, c, to, bias, apart);
}

/// Runs product p on the context's stream: overwrites c, or adds to it. Products of sizes that are known at run time
/// are not computed in FP8.
template <class P>
void gemm(context<cuda>& ctx, const P& p, const typename P::input* a, const typename P::input* b, typename P::output* c,
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
  const bool done = accumulate ? run_product<true, epilogue::none>(ctx, p, a, b, c, c)
                               : run_product<false, epilogue::none>(ctx, p, a, b, c, c);
  if (!done)
    throw error("cuBLASLt has no kernel for a product of " + std::to_string(p.sizes.m) + " x " +
                std::to_string(p.sizes.k) + " and " + std::to_string(p.sizes.k) + " x " + std::to_string(p.sizes.n) +
                " elements of " + std::string(dtype_name<typename P::input>()));
}

/// Runs product p and adds `bias` (n elements) to every row of c. Returns false if the library has no kernel for both.
template <class P>
bool gemm_bias(context<cuda>& ctx, const P& p, const typename P::input* a, const typename P::input* b,
               typename P::output* c, const typename P::output* bias) {
  if constexpr (std::is_same_v<typename P::output, double> || fits_fp8<P>()) return false;
  else return run_product<false, epilogue::bias>(ctx, p, a, b, c, c, bias);
}
/// Runs product p, whose b is not transposed, and writes the sums of the columns of b to `sums`; overwrites c, or adds
/// to it. Returns false, without a result, if the library has no kernel for both, or if a product and then `sum()`,
/// which writes the sums, were faster when this product was tuned. Without tuning the library's kernel is taken: it
/// saves one reading of b. It was seen to win in a model of 1.5e9 parameters and to lose in one of 1e10
/// (github.com/NVIDIA/CUDALibrarySamples/issues/90).
template <class P, class Sum>
bool gemm_bias_gradient(context<cuda>& ctx, const P& p, const typename P::input* a, const typename P::input* b,
                        typename P::output* c, bool accumulate, typename P::output* sums, const Sum& sum) {
  using T = typename P::output;
  if constexpr (std::is_same_v<T, double> || fits_fp8<P>()) {
    return false;
  } else {
    const auto run = [&](auto add) {
      return run_product<add, epilogue::bias_gradient>(ctx, p, a, b, c, c, sums, [&](void* to) {
        if (!run_product<add, epilogue::none>(ctx, p, a, b, c, static_cast<T*>(to))) return false;
        sum();
        return true;
      });
    };
    return accumulate ? run(std::true_type{}) : run(std::false_type{});
  }
}

/// to = alpha op(a) op(b) + beta c of elements T, summed in float, for optimizers. `to` does not overlap the others; c
/// is not read if beta is 0. All addresses are multiples of memory_request::alignment.
template <class T>
void multiply(context<cuda>& ctx, product_sizes of, const T* a, const T* b, T* to, float alpha = 1, float beta = 0,
              const T* c = nullptr) {
  of.alignment = memory_request::alignment;
  of.accumulate = beta != 0;
  if (!ctx.get<sized_products<float, T, T>>().of(ctx, of).run(ctx, of, a, b, c, to, gemm_factors{&alpha, &beta}))
    throw error("cuBLASLt has no kernel for an optimizer's product of " + std::to_string(of.m) + " x " +
                std::to_string(of.k) + " and " + std::to_string(of.k) + " x " + std::to_string(of.n) + " elements");
}

}  // namespace gradus::cuda_kit
