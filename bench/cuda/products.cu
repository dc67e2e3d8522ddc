// The matrix products of a GPT-2 block, each with all algorithms that cuBLASLt suggests, up to 16, and with the
// epilogues that it could take over: one JSON object an algorithm. "same_bits" says whether two runs agree, "reduction"
// is how parts of a split k are added up (cublasLtReductionScheme_t).
//
//   bench_cuda_products [TOKENS [WIDTH]]     65536 tokens of GPT-2 124M's width, 768
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <gradus/cuda.hpp>
#include <string>
#include <vector>

namespace gr = gradus;
namespace kit = gradus::cuda_kit;

namespace {

/// C = op(A) op(B) of row-major matrices: op(A) is m x k, op(B) is k x n.
struct product {
  std::string name, besides;
  bool transpose_a, transpose_b;
  gr::index_t m, n, k;
  cublasLtEpilogue_t epilogue;
  bool to_float;  // a gradient of weights
};

/// Forward, and both gradients, of each linear layer of a block.
std::vector<product> products_of(gr::index_t tokens, gr::index_t width) {
  struct layer {
    const char* name;
    gr::index_t in, out;
    bool gelu_after, gelu_before;
  };
  std::vector<product> all;
  for (const layer& l : {layer{"qkv", width, 3 * width, false, false},
                         {"proj", width, width, false, false},
                         {"fc", width, 4 * width, true, false},
                         {"fc_proj", 4 * width, width, false, true}}) {
    const auto add = [&](const char* which, const char* besides, bool ta, bool tb, gr::index_t m, gr::index_t n,
                         gr::index_t k, cublasLtEpilogue_t epilogue) {
      all.push_back({std::string(l.name) + ' ' + which, besides, ta, tb, m, n, k, epilogue, ta});
    };
    const auto forward = [&](const char* besides, cublasLtEpilogue_t epilogue) {
      add("forward", besides, false, false, tokens, l.out, l.in, epilogue);
    };
    forward("none", CUBLASLT_EPILOGUE_DEFAULT);
    forward("bias", CUBLASLT_EPILOGUE_BIAS);
    if (l.gelu_after) forward("bias and gelu", CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
    const auto dx = [&](const char* besides, cublasLtEpilogue_t epilogue) {
      add("dx", besides, false, true, tokens, l.in, l.out, epilogue);
    };
    dx("none", CUBLASLT_EPILOGUE_DEFAULT);
    if (l.gelu_before) {
      dx("gelu's gradient", CUBLASLT_EPILOGUE_DGELU);
      dx("gelu's and bias's gradient", CUBLASLT_EPILOGUE_DGELU_BGRAD);
    }
    const auto dw = [&](const char* besides, cublasLtEpilogue_t epilogue) {
      add("dw", besides, true, false, l.in, l.out, tokens, epilogue);
    };
    dw("none", CUBLASLT_EPILOGUE_DEFAULT);
    dw("bias's gradient", CUBLASLT_EPILOGUE_BGRADA);
  }
  return all;
}

__global__ void fill_kernel(gr::bf16* to, gr::index_t n, std::uint64_t seed) {
  for (gr::index_t i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x; i < n;
       i += std::uint64_t{gridDim.x} * blockDim.x) {
    std::uint64_t bits = (i + seed) * 0x9E3779B97F4A7C15u;
    bits = (bits ^ bits >> 29) * 0xBF58476D1CE4E5B9u;
    to[i] = static_cast<gr::bf16>(static_cast<float>(static_cast<std::int32_t>(bits >> 32)) * 0x1p-31f);
  }
}
__global__ void count_differences_kernel(const std::uint32_t* a, const std::uint32_t* b, gr::index_t n, unsigned* to) {
  for (gr::index_t i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x; i < n;
       i += std::uint64_t{gridDim.x} * blockDim.x)
    if (a[i] != b[i]) atomicAdd(to, 1u);
}

class bench {
 public:
  bench(gr::index_t tokens, gr::index_t width) {
    const gr::index_t most = 4 * width * std::max(tokens, width);
    for (void** memory : {&a_, &b_, &aux_, &results_[0], &results_[1]}) allocate(memory, most * sizeof(gr::bf16));
    for (void** memory : {&bias_[0], &bias_[1]}) allocate(memory, 4 * width * sizeof(float));
    allocate(reinterpret_cast<void**>(&count_), sizeof(unsigned));
    for (void* memory : {a_, b_, aux_})
      fill_kernel<<<1024, 256, 0, stream_.handle()>>>(static_cast<gr::bf16*>(memory), most,
                                                      reinterpret_cast<std::uintptr_t>(memory));
    fill_kernel<<<1, 256, 0, stream_.handle()>>>(static_cast<gr::bf16*>(bias_[0]), 4 * width, 1);
    kit::check(cudaGetLastError(), "fill_kernel");
    kit::check(cublasLtCreate(&library_), "cublasLtCreate");
  }
  bench(const bench&) = delete;
  bench& operator=(const bench&) = delete;
  ~bench() {
    for (void* memory : memory_) static_cast<void>(cudaFree(memory));
    static_cast<void>(cublasLtDestroy(library_));
  }

  void run(const product& p) {
    kit::gemm_description d;
    describe(d, p);
    std::array<cublasLtMatmulHeuristicResult_t, 16> found{};
    const int count = suggestions(d, found);
    if (count == 0) print(p, -1, "\"us\": null");
    for (int i = 0; i < count; ++i) measure(d, p, i, found[static_cast<std::size_t>(i)]);
  }

 private:
  static constexpr std::size_t room_bytes = std::size_t{32} << 20;

  void allocate(void** to, std::size_t bytes) {
    kit::check(cudaMalloc(to, bytes), "cudaMalloc");
    memory_.push_back(*to);
  }
  // The library has column-major matrices: it computes C^T = op(B)^T op(A)^T.
  void describe(kit::gemm_description& d, const product& p) {
    kit::check(cublasLtMatmulDescCreate(&d.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
    d.set(CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    d.set(CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    d.set(CUBLASLT_MATMUL_DESC_EPILOGUE, p.epilogue);
    if (p.epilogue != CUBLASLT_EPILOGUE_DEFAULT && p.epilogue != CUBLASLT_EPILOGUE_DGELU)
      d.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias_[0]);
    if (p.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS || p.epilogue == CUBLASLT_EPILOGUE_DGELU ||
        p.epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD) {
      d.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux_);
      d.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, static_cast<std::int64_t>(p.n));
    }
    const auto layout = [](cublasLtMatrixLayout_t& made, cudaDataType_t type, gr::index_t rows, gr::index_t columns) {
      kit::check(cublasLtMatrixLayoutCreate(&made, type, rows, columns, static_cast<std::int64_t>(rows)),
                 "cublasLtMatrixLayoutCreate");
    };
    layout(d.left, CUDA_R_16BF, p.transpose_b ? p.k : p.n, p.transpose_b ? p.n : p.k);
    layout(d.right, CUDA_R_16BF, p.transpose_a ? p.m : p.k, p.transpose_a ? p.k : p.m);
    layout(d.result, p.to_float ? CUDA_R_32F : CUDA_R_16BF, p.n, p.m);
  }
  int suggestions(const kit::gemm_description& d, std::array<cublasLtMatmulHeuristicResult_t, 16>& found) {
    cublasLtMatmulPreference_t preference = nullptr;
    kit::check(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    kit::check(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room_bytes,
                                                    sizeof(room_bytes)),
               "cublasLtMatmulPreferenceSetAttribute");
    int count = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(library_, d.operation, d.left, d.right, d.result, d.result, preference,
                                       static_cast<int>(found.size()), found.data(), &count);
    static_cast<void>(cublasLtMatmulPreferenceDestroy(preference));
    return status == CUBLAS_STATUS_SUCCESS ? count : 0;
  }
  void measure(kit::gemm_description& d, const product& p, int number, const cublasLtMatmulHeuristicResult_t& of) {
    const float alpha = 1, beta = 0;
    const auto submit = [&](int which) {
      const bool writes_bias = p.epilogue == CUBLASLT_EPILOGUE_BGRADA || p.epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD;
      if (writes_bias) d.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias_[which]);
      return cublasLtMatmul(library_, d.operation, &alpha, b_, d.left, a_, d.right, &beta, results_[which], d.result,
                            results_[which], d.result, &of.algo, room_.data(), room_bytes, stream_.handle());
    };
    if (of.state != CUBLAS_STATUS_SUCCESS || submit(0) != CUBLAS_STATUS_SUCCESS) {
      print(p, number, "\"us\": null");
      return;
    }
    std::array<float, 5> took{};
    kit::gpu_stopwatch watch(stream_);
    for (float& ms : took) {
      watch.start();
      static_cast<void>(submit(1));
      ms = watch.milliseconds();
    }
    std::sort(took.begin(), took.end());
    const double us = 1e3 * static_cast<double>(took[2]);
    const auto setting = [&](cublasLtMatmulAlgoConfigAttributes_t which) {
      std::uint32_t value = 0;
      std::size_t written = 0;
      static_cast<void>(cublasLtMatmulAlgoConfigGetAttribute(&of.algo, which, &value, sizeof(value), &written));
      return value;
    };
    char text[300];
    std::snprintf(text, sizeof text,
                  "\"us\": %.2f, \"tflops\": %.1f, \"id\": %u, \"tile\": %u, \"stages\": %u, \"split_k\": %u, "
                  "\"reduction\": %u, \"workspace\": %zu, \"same_bits\": %s",
                  us, 2e-6 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) / us,
                  setting(CUBLASLT_ALGO_CONFIG_ID), setting(CUBLASLT_ALGO_CONFIG_TILE_ID),
                  setting(CUBLASLT_ALGO_CONFIG_STAGES_ID), setting(CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
                  setting(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME), of.workspaceSize, same_bits(p) ? "true" : "false");
    print(p, number, text);
  }
  /// Whether the last of the timed runs has the bits of the first one.
  bool same_bits(const product& p) {
    kit::check(cudaMemsetAsync(count_, 0, sizeof(unsigned), stream_.handle()), "cudaMemsetAsync");
    const auto compare = [&](void* const* of, std::size_t bytes) {
      count_differences_kernel<<<1024, 256, 0, stream_.handle()>>>(
          static_cast<const std::uint32_t*>(of[0]), static_cast<const std::uint32_t*>(of[1]), bytes / 4, count_);
      kit::check(cudaGetLastError(), "count_differences_kernel");
    };
    const std::size_t element = p.to_float ? sizeof(float) : sizeof(gr::bf16);
    compare(results_, p.m * p.n * element);
    if (p.epilogue == CUBLASLT_EPILOGUE_BGRADA || p.epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD)
      compare(bias_, p.n * element);
    unsigned differences = 0;
    kit::check(cudaMemcpyAsync(&differences, count_, sizeof differences, cudaMemcpyDeviceToHost, stream_.handle()),
               "cudaMemcpyAsync");
    stream_.synchronize();
    return differences == 0;
  }
  static void print(const product& p, int number, const char* text) {
    std::printf("{\"product\": \"%s\", \"epilogue\": \"%s\", \"m\": %zu, \"n\": %zu, \"k\": %zu, \"number\": %d, %s}\n",
                p.name.c_str(), p.besides.c_str(), static_cast<std::size_t>(p.m), static_cast<std::size_t>(p.n),
                static_cast<std::size_t>(p.k), number, text);
    std::fflush(stdout);
  }

  gr::cuda_stream stream_;
  gr::device_resource heap_;
  gr::context<gr::cuda> ctx_{stream_, heap_};
  gr::buffer<gr::cuda> room_{ctx_, room_bytes, gr::category::temporary};
  std::vector<void*> memory_;
  void *a_ = nullptr, *b_ = nullptr, *aux_ = nullptr, *results_[2] = {}, *bias_[2] = {};
  unsigned* count_ = nullptr;
  cublasLtHandle_t library_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  if (const auto reason = gr::cuda_unavailable_reason(); !reason.empty()) {
    std::printf("skipped: %s\n", reason.c_str());
    return 77;
  }
  try {
    const auto size = [&](int i, unsigned long otherwise) {
      return static_cast<gr::index_t>(argc > i ? std::strtoul(argv[i], nullptr, 10) : otherwise);
    };
    const gr::index_t tokens = size(1, 65536), width = size(2, 768);
    if (tokens % 8 != 0 || width % 8 != 0 || tokens == 0 || width == 0)
      throw gr::error("tokens and the width must be multiples of 8");
    bench on(tokens, width);
    for (const product& p : products_of(tokens, width)) on.run(p);
  } catch (const gr::error& problem) {
    std::fprintf(stderr, "bench_cuda_products: %s\n", problem.what());
    return 1;
  }
}
