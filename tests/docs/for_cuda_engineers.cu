// The code of docs/guide/for-cuda-engineers.md.
#include <doctest/doctest.h>

#include <cstdint>
#include <gradus/cuda.hpp>
#include <gradus/gpu/nvtx.hpp>
#include <gradus/interop/dlpack.hpp>
#include <gradus/interop/mdspan.hpp>
#include <vector>

namespace gr = gradus;

namespace {

constexpr gr::index_t rows = 6, columns = 10;

// [kernel]
using matrix = cuda::std::mdspan<float, cuda::std::extents<gr::index_t, rows, columns>>;

__global__ void scale_rows(matrix x, float factor) {
  extern __shared__ float sums[];
  const gr::index_t i = blockIdx.x, j = threadIdx.x;
  sums[j] = x(i, j);
  __syncthreads();
  float sum = 0;
  for (gr::index_t k = 0; k < columns; ++k) sum += sums[k];
  x(i, j) *= factor / sum;
}
// [/kernel]

bool no_gpu() {
  if (gr::cuda_available()) return false;
  std::puts("gradus skipped: 1 (no GPU)");
  return true;
}

}  // namespace

TEST_CASE("the library works in the program's stream, on its memory, with its kernels") {
  if (no_gpu()) return;
  cudaStream_t my_stream = nullptr;
  gr::cuda_kit::check(cudaStreamCreate(&my_stream), "cudaStreamCreate");
  float* my_memory = nullptr;
  gr::cuda_kit::check(cudaMallocAsync(&my_memory, rows * columns * sizeof(float), my_stream), "cudaMallocAsync");
  {
    // [stream]
    auto stream = gr::cuda_stream::borrow(my_stream);
    gr::device_resource memory{stream.device()};  // cudaMallocAsync, from a pool of its own
    gr::context<gr::cuda> ctx{stream, memory};
    // [/stream]
    // [borrow]
    auto x = gr::borrow<float, gr::shape<rows, columns>>(ctx, my_memory);
    gr::device_access<gr::cuda>::fill(ctx, x.data(), 2.0f, x.size);  // runs in my_stream
    // [/borrow]
    // [launch]
    gr::launch_with_shared(ctx, &scale_rows, rows, columns, columns * sizeof(float), gr::as_cuda_mdspan(x.view()),
                           5.0f);
    auto* partial = gr::scratch<float>(ctx, rows * columns);  // for the next kernels, until another operation runs
    // [/launch]
    CHECK(partial != nullptr);
    CHECK(gr::to_host(x) == std::vector<float>(rows * columns, 0.5f));
    // [nvtx]
    gr::nvtx_ranges ranges;
    ctx.observe(&ranges);  // "matmul, forward", "matmul, backward", ...
    // [/nvtx]
    CHECK(gr::item(gr::sum(x)) == 30.0f);
    ctx.observe(nullptr);
  }
  gr::cuda_kit::check(cudaFreeAsync(my_memory, my_stream), "cudaFreeAsync");
  gr::cuda_kit::check(cudaStreamDestroy(my_stream), "cudaStreamDestroy");
}

TEST_CASE("tensors go to another library and come back") {
  if (no_gpu()) return;
  gr::cuda_stream stream;
  gr::device_resource memory;
  gr::context<gr::cuda> ctx{stream, memory};
  auto x = gr::ones<float, gr::shape<2, 3>>(ctx);
  // [dlpack]
  auto* theirs = gr::to_dlpack(x);  // a DLManagedTensorVersioned; its deleter lets x's memory go
  auto y = gr::from_dlpack<float, gr::shape<2, 3>>(ctx, theirs);
  // [/dlpack]
  CHECK(y.data() == x.data());
}
