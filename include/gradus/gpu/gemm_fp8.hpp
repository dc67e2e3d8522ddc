#pragma once
// Products in FP8: scales both operands by their largest magnitude, rounds them to 8 bits, and multiplies by cuBLASLt.

#include <cuda_fp8.h>

#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <type_traits>

#include "../core/extent.hpp"
#include "../memory/context.hpp"
#include "../precision/policy.hpp"
#include "device.hpp"
#include "error.hpp"
#include "gemm_choice.hpp"
#include "launch.hpp"
#include "resource.hpp"
#include "rows.hpp"
#include "runs.hpp"
#include "workspace.hpp"

namespace gradus::cuda_kit {

/// 4 bits of exponent and 3 of mantissa, for values.
struct e4m3 {
  static constexpr float largest = 448;
  static constexpr __nv_fp8_interpretation_t format = __NV_E4M3;
  static constexpr cudaDataType_t library_type = CUDA_R_8F_E4M3;
};
/// 5 bits of exponent and 2 of mantissa, for gradients.
struct e5m2 {
  static constexpr float largest = 57344;
  static constexpr __nv_fp8_interpretation_t format = __NV_E5M2;
  static constexpr cudaDataType_t library_type = CUDA_R_8F_E5M2;
};

/// The scale of an operand: maps its largest magnitude to the format's largest number. 1 if that is 0 or not finite.
template <class Format>
__device__ inline float fp8_scale(float largest) {
  return largest > 0 && isfinite(largest) ? fminf(Format::largest / largest, 0x1p120f) : 1.0f;
}

/// Stores the bits of the largest magnitude in `most`, which must be 0: as integers they have the magnitudes' order.
template <class T>
__global__ void __launch_bounds__(block_threads)
    largest_magnitude_kernel(const T* x, unsigned* most, index_t size) {  // must be a multiple of a run
  constexpr int width = vector_width<T>;
  float found = 0;
  for (index_t at = (static_cast<index_t>(blockIdx.x) * block_threads + threadIdx.x) * width; at < size;
       at += static_cast<index_t>(gridDim.x) * block_threads * width) {
    const auto v = load<width, true>(x + at, width);
#pragma unroll
    for (int i = 0; i < width; ++i) found = fmaxf(found, fabsf(static_cast<float>(v.at[i])));
  }
  found = row_max<static_cast<int>(block_threads)>(found);
  if (threadIdx.x == 0) atomicMax(most, __float_as_uint(found));
}

/// The side of a tile. The grid has one dimension, because the others are limited to 65535 blocks.
inline constexpr int fp8_tile = 64;
constexpr index_t fp8_tiles(index_t extent) { return (extent + fp8_tile - 1) / fp8_tile; }

/// Rounds a rows x columns matrix of whole runs of 16, one tile per block, `across` tiles in a row; transposes it if
/// asked. Stores the inverse scale in `unscale`.
template <class Format, bool Transpose, class T>
__global__ void __launch_bounds__(block_threads)
    round_to_fp8_kernel(const T* x, const unsigned* most, std::uint8_t* to, float* unscale, index_t rows,
                        index_t columns, divisor<unsigned> across) {
  constexpr int side = fp8_tile, width = 16;
  static_assert(block_threads == side * side / width);
  const float largest = __uint_as_float(*most), scale = fp8_scale<Format>(largest);
  unsigned tile_row = blockIdx.x;
  const index_t first_column = index_t{across.divide(tile_row)} * side, first_row = index_t{tile_row} * side;
  if (blockIdx.x == 0 && threadIdx.x == 0)
    *unscale = isfinite(largest) ? 1 / scale : largest - largest;  // NaN: infinity must not silently become 448
  const index_t row = first_row + threadIdx.x / (side / width);
  const index_t column = first_column + threadIdx.x % (side / width) * width;
  const bool here = row < rows && column < columns;
  alignas(16) std::uint8_t codes[width] = {};
  if (here) {
    constexpr int part = vector_width<T>;
#pragma unroll
    for (int i = 0; i < width; i += part) {
      const auto v = load<part, true>(x + row * columns + column + i, part);
#pragma unroll
      for (int j = 0; j < part; j += 2) {
        const float2 pair = {static_cast<float>(v.at[j]) * scale, static_cast<float>(v.at[j + 1]) * scale};
        const __nv_fp8x2_storage_t two = __nv_cvt_float2_to_fp8x2(pair, __NV_SATFINITE, Format::format);
        codes[i + j] = static_cast<std::uint8_t>(two & 0xFF);
        codes[i + j + 1] = static_cast<std::uint8_t>(two >> 8);
      }
    }
  }
  if constexpr (!Transpose) {
    if (here) *reinterpret_cast<uint4*>(to + row * columns + column) = *reinterpret_cast<const uint4*>(codes);
  } else {
    __shared__ std::uint8_t tile[side][side + 4];  // by column
#pragma unroll
    for (int i = 0; i < width; ++i)
      tile[threadIdx.x % (side / width) * width + i][threadIdx.x / (side / width)] = codes[i];
    __syncthreads();
    const index_t column_of_x = first_column + threadIdx.x / (side / width);
    const index_t along = first_row + threadIdx.x % (side / width) * width;
    if (column_of_x >= columns || along >= rows) return;
    alignas(16) std::uint8_t run[width];
#pragma unroll
    for (int i = 0; i < width; ++i)
      run[i] = tile[threadIdx.x / (side / width)][threadIdx.x % (side / width) * width + i];
    *reinterpret_cast<uint4*>(to + column_of_x * rows + along) = *reinterpret_cast<const uint4*>(run);
  }
}

/// Whether the library supports product P in FP8: one dense matrix of bf16, extents multiples of 16, to bf16 or float.
template <class P>
constexpr bool fits_fp8() {
  if constexpr (P::bounded) {
    return false;
  } else {
    const bool types = std::is_same_v<typename P::input, bf16> &&
                       (std::is_same_v<typename P::output, bf16> || std::is_same_v<typename P::output, float>);
    const bool sizes = P::batch == 1 && P::m % 16 == 0 && P::n % 16 == 0 && P::k % 16 == 0 && P::alignment >= 16;
    return P::in_fp8 && !P::scaled && types && sizes;
  }
}

/// Descriptors, algorithm and operands of one product in FP8. The library requires both operands contiguous along k.
template <class P, bool Accumulate>
class fp8_gemm {
  using T = typename P::input;
  using first = typename P::sums::first;
  using second = typename P::sums::second;
  static constexpr std::size_t bytes_of_a = P::m * P::k, bytes_of_b = P::k * P::n, numbers = 256;

 public:
  explicit fp8_gemm(context<cuda>&) {}
  fp8_gemm(const fp8_gemm&) = delete;
  fp8_gemm& operator=(const fp8_gemm&) = delete;

  bool run(context<cuda>& ctx, cublasLtHandle_t library, const T* a, const T* b, typename P::output* c) {
    const device_guard guard(ctx.stream().device());
    auto* const room =
        static_cast<std::uint8_t*>(ctx.get<operand_workspace>().reserve(ctx, numbers + bytes_of_a + bytes_of_b));
    auto* const most = reinterpret_cast<unsigned*>(room);
    auto* const unscale = reinterpret_cast<float*>(room) + 2;
    std::uint8_t *const codes_a = room + numbers, *const codes_b = codes_a + bytes_of_a;
    check(cudaMemsetAsync(most, 0, 2 * sizeof(unsigned), ctx.stream().handle()), "cudaMemsetAsync");
    // op(a) is m x k, op(b) is k x n: a is transposed unless its rows have k elements, b if they have n.
    round<first, P::transpose_a, P::transpose_a ? P::k : P::m, P::transpose_a ? P::m : P::k>(ctx, a, most, codes_a,
                                                                                             unscale);
    round<second, !P::transpose_b, P::transpose_b ? P::n : P::k, P::transpose_b ? P::k : P::n>(ctx, b, most + 1,
                                                                                               codes_b, unscale + 1);
    if (product_.operation == nullptr) describe();
    product_.set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, static_cast<const void*>(unscale + 1));
    product_.set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, static_cast<const void*>(unscale));
    const auto submit = [&](const cublasLtMatmulAlgo_t& algorithm, void* to) {
      const float alpha = 1, beta = Accumulate ? 1 : 0;
      void* const work = ctx.get<workspace>().reserve(ctx, workspace::least);
      return cublasLtMatmul(library, product_.operation, &alpha, codes_b, product_.left, codes_a, product_.right, &beta,
                            c, product_.result, to, product_.result, &algorithm, work, workspace::least,
                            ctx.stream().handle());
    };
    if (!chosen_)
      algorithm_ = choose_algorithm(ctx, library, product_, name, P::m * P::n * sizeof(typename P::output), submit);
    chosen_ = true;
    if (!algorithm_) return false;
    check(submit(*algorithm_, c), "cublasLtMatmul");
    finish(ctx, "cublasLtMatmul");
    return true;
  }

 private:
  template <class Format, bool Transpose, index_t Rows, index_t Columns>
  static void round(context<cuda>& ctx, const T* x, unsigned* most, std::uint8_t* to, float* unscale) {
    const auto all = flat_blocks(Rows * Columns, vector_width<T>);
    launch(ctx, &largest_magnitude_kernel<T>, all < 1024 ? all : 1024u, block_threads, x, most, Rows * Columns);
    constexpr index_t across = fp8_tiles(Columns), tiles = across * fp8_tiles(Rows);
    static_assert(tiles < (index_t{1} << 31), "fp8: a matrix may have at most 2^31 tiles of 64 x 64");
    launch(ctx, &round_to_fp8_kernel<Format, Transpose, T>, static_cast<unsigned>(tiles), block_threads, x,
           static_cast<const unsigned*>(most), to, unscale, Rows, Columns, divisor<unsigned>(across));
  }
  static std::string name() {
    std::ostringstream text;
    text << "a b" << (Accumulate ? " + c" : "") << ", " << P::m << " x " << P::k << " x " << P::n << ", fp8 ("
         << (std::is_same_v<first, e4m3> ? "e4m3" : "e5m2") << " and "
         << (std::is_same_v<second, e4m3> ? "e4m3" : "e5m2") << ") to " << dtype_name<typename P::output>();
    return text.str();
  }
  void describe() {
    product_.alignment = 16;
    product_.result_element = sizeof(typename P::output);
    check(cublasLtMatmulDescCreate(&product_.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
    product_.set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    product_.set(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
    const auto layout = [](cublasLtMatrixLayout_t& made, cudaDataType_t type, index_t rows, index_t columns) {
      check(cublasLtMatrixLayoutCreate(&made, type, rows, columns, static_cast<std::int64_t>(rows)),
            "cublasLtMatrixLayoutCreate");
    };
    layout(product_.left, second::library_type, P::k, P::n);
    layout(product_.right, first::library_type, P::k, P::m);
    layout(product_.result, std::is_same_v<typename P::output, float> ? CUDA_R_32F : CUDA_R_16BF, P::n, P::m);
  }

  gemm_description product_;
  std::optional<cublasLtMatmulAlgo_t> algorithm_;  // empty once chosen: the library has no kernel
  bool chosen_ = false;
};

}  // namespace gradus::cuda_kit
