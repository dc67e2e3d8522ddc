// Streams and memory of another library.
#include <atomic>
#include <chrono>
#include <thread>

#include <gradus/interop/dlpack.hpp>
#include <gradus/interop/mdspan.hpp>

#include "../support/message_of.hpp"
#include "device.hpp"

namespace {

constexpr int count = 1013;

__global__ void write_multiples(float* to, float factor) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) to[i] = factor * static_cast<float>(i);
}

template <class To, class From>
__global__ void transpose_spans(To to, From from) {
  const int i = static_cast<int>(blockIdx.x), j = static_cast<int>(threadIdx.x);
  to(j, i) = from(i, j);
}

__device__ int launches_counted;
__global__ void count_launch() { ++launches_counted; }

/// A stream and memory that the library did not create.
struct foreign_library {
  cudaStream_t stream = nullptr;
  float* memory = nullptr;

  foreign_library() {
    gr::cuda_kit::check(cudaStreamCreate(&stream), "cudaStreamCreate");
    gr::cuda_kit::check(cudaMalloc(&memory, count * sizeof(float)), "cudaMalloc");
  }
  ~foreign_library() {
    CHECK(cudaFree(memory) == cudaSuccess);
    CHECK(cudaStreamDestroy(stream) == cudaSuccess);  // nobody else did
  }
  void write(float factor) {
    write_multiples<<<(count + 255) / 256, 256, 0, stream>>>(memory, factor);
    gr::cuda_kit::check(cudaGetLastError(), "write_multiples");
  }
  std::vector<float> read(const float* from) {
    std::vector<float> found(count);
    gr::cuda_kit::check(cudaMemcpyAsync(found.data(), from, count * sizeof(float), cudaMemcpyDeviceToHost, stream),
                        "cudaMemcpyAsync");
    gr::cuda_kit::check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    return found;
  }
};

// A tensor of another library, in its memory.
struct foreign_tensor {
  std::int64_t shape[1] = {count};
  int deleted = 0;
  gr::dlpack::managed_tensor_versioned managed{};

  foreign_tensor(float* memory, int device) {
    managed.version = {1, 0};
    managed.dl_tensor = {memory, {2, device}, 1, {2, 32, 1}, shape, nullptr, 0};
    managed.manager_ctx = this;
    managed.deleter = [](gr::dlpack::managed_tensor_versioned* self) {
      ++static_cast<foreign_tensor*>(self->manager_ctx)->deleted;
    };
  }
};

}  // namespace

TEST_CASE("work of the library and of the program runs in a borrowed stream in the order of its submission") {
  if (no_gpu()) return;
  foreign_library theirs;
  auto stream = gr::cuda_stream::borrow(theirs.stream);
  CHECK(stream.handle() == theirs.stream);
  gr::device_resource memory(stream.device());
  gr::context<gr::cuda> ctx{stream, memory};
  auto x = gr::empty<float, gr::shape<count>>(ctx);
  theirs.write(3);
  gr::device_access<gr::cuda>::copy(ctx, x.data(), theirs.memory, x.bytes);
  const auto y = x + 1.0f;
  theirs.write(5);  // after the copy
  const auto found = theirs.read(y.data());
  for (int i = 0; i < count; ++i) REQUIRE(found[static_cast<std::size_t>(i)] == 3.0f * static_cast<float>(i) + 1.0f);
}

TEST_CASE("a step in a borrowed stream is a graph like any other") {
  if (no_gpu()) return;
  foreign_library theirs;
  auto stream = gr::cuda_stream::borrow(theirs.stream);
  gr::device_resource memory;
  gr::basic_pool_resource<gr::cuda_stream> pool(memory);
  gr::context<gr::cuda> ctx{stream, pool};
  auto x = gr::zeros<float, gr::shape<count>>(ctx);
  gr::step_graph graph{ctx};
  for (int i = 0; i < 4; ++i)
    graph.run([&] {
      const auto next = x + 1.0f;
      gr::device_access<gr::cuda>::copy(ctx, x.data(), next.data(), x.bytes);
    });
  CHECK(graph.captures() == 3);
  CHECK(theirs.read(x.data()) == std::vector<float>(count, 4.0f));
}

TEST_CASE("operations in a borrowed stream are part of a capture of the program's own") {
  if (no_gpu()) return;
  foreign_library theirs;
  {
    auto stream = gr::cuda_stream::borrow(theirs.stream);
    gr::device_resource memory;
    gr::basic_pool_resource<gr::cuda_stream> pool(memory);
    gr::context<gr::cuda> ctx{stream, pool};
    auto x = gr::full<float, gr::shape<16, 16>>(ctx, 1.0f);
    const auto step = [&] {
      const auto next = gr::softmax(gr::matmul(x, x)) + x;
      gr::device_access<gr::cuda>::copy(ctx, x.data(), next.data(), x.bytes);
    };
    step();
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t launched = nullptr;
    gr::cuda_kit::check(cudaStreamBeginCapture(theirs.stream, cudaStreamCaptureModeThreadLocal), "begin");
    step();
    gr::cuda_kit::check(cudaStreamEndCapture(theirs.stream, &graph), "end");
    gr::cuda_kit::check(cudaGraphInstantiate(&launched, graph, 0), "cudaGraphInstantiate");
    for (int i = 0; i < 3; ++i) gr::cuda_kit::check(cudaGraphLaunch(launched, theirs.stream), "cudaGraphLaunch");
    CHECK(gr::to_host(x) == std::vector<float>(256, 1.0f + 4.0f / 16));  // rows are alike, so each softmax is 1 / 16
    gr::cuda_kit::check(cudaGraphExecDestroy(launched), "cudaGraphExecDestroy");
    gr::cuda_kit::check(cudaGraphDestroy(graph), "cudaGraphDestroy");
  }
}

TEST_CASE("the end of a borrowed stream waits for its work, and the stream goes on") {
  if (no_gpu()) return;
  foreign_library theirs;
  std::atomic<bool> done{false};
  {
    const auto stream = gr::cuda_stream::borrow(theirs.stream);
    gr::cuda_kit::check(cudaLaunchHostFunc(
                            theirs.stream,
                            [](void* flag) {
                              std::this_thread::sleep_for(std::chrono::milliseconds(1));
                              *static_cast<std::atomic<bool>*>(flag) = true;
                            },
                            &done),
                        "cudaLaunchHostFunc");
  }
  CHECK(done.load());
  theirs.write(2);
  CHECK(theirs.read(theirs.memory)[1] == 2.0f);
}

TEST_CASE("a default stream is not borrowed") {
  if (no_gpu()) return;
  for (const cudaStream_t stream : {cudaStream_t{}, cudaStreamLegacy, cudaStreamPerThread})
    CHECK(gradus_test::message_of([&] { static_cast<void>(gr::cuda_stream::borrow(stream)); }) ==
          "cuda_stream::borrow(stream): the default stream cannot be borrowed; create one by cudaStreamCreate");
}

TEST_CASE("a borrowed tensor on the GPU is the program's memory, and its end waits for the stream") {
  if (no_gpu()) return;
  foreign_library theirs;
  auto stream = gr::cuda_stream::borrow(theirs.stream);
  gr::device_resource memory;
  gr::context<gr::cuda> ctx{stream, memory};
  struct ended {
    cudaStream_t stream;
    bool idle = false;
  } end{theirs.stream};
  std::vector<float> doubled;
  {
    const auto x = gr::borrow<float, gr::shape<count>>(
        ctx, theirs.memory,
        [](void* argument) {
          auto& e = *static_cast<ended*>(argument);
          e.idle = cudaStreamQuery(e.stream) == cudaSuccess;
        },
        &end);
    theirs.write(3);
    const auto y = x + x;
    doubled = theirs.read(y.data());
    theirs.write(4);
    CHECK_FALSE(end.idle);
  }
  CHECK(end.idle);
  CHECK(doubled[7] == 42.0f);
}

TEST_CASE("tensors go out of the GPU's context by DLPack, and come in") {
  if (no_gpu()) return;
  foreign_library theirs;
  gpu g;
  using vector = gr::shape<count>;
  auto* const out = gr::to_dlpack(gr::full<float, vector>(g.ctx, 2.0f));
  CHECK(out->dl_tensor.device.device_type == 2);
  CHECK(out->dl_tensor.device.device_id == 0);
  const auto back = gr::from_dlpack<float, vector>(g.ctx, out);
  CHECK(gr::to_host(back + back) == std::vector<float>(count, 4.0f));

  theirs.write(1);
  gr::cuda_kit::check(cudaStreamSynchronize(theirs.stream), "cudaStreamSynchronize");
  foreign_tensor foreign(theirs.memory, 0);
  {
    const auto in = gr::from_dlpack<float, vector>(g.ctx, &foreign.managed);
    CHECK(in.data() == theirs.memory);
    CHECK(gr::to_host(in * 2.0f)[5] == 10.0f);
    CHECK(foreign.deleted == 0);
  }
  CHECK(foreign.deleted == 1);
}

TEST_CASE("a DLPack tensor of another device is refused") {
  if (no_gpu()) return;
  gpu g;
  foreign_tensor foreign(nullptr, 1);
  const auto refusal = [&] {
    return gradus_test::message_of(
        [&] { static_cast<void>(gr::from_dlpack<float, gr::shape<count>>(g.ctx, &foreign.managed)); });
  };
  CHECK(refusal() == "from_dlpack<f32, shape<1013>>: the tensor is on GPU 1, the context on GPU 0");
  foreign.managed.dl_tensor.device = {1, 0};
  CHECK(refusal() == "from_dlpack<f32, shape<1013>>: the tensor is on the CPU, the context on GPU 0");
  CHECK(foreign.deleted == 0);
}

TEST_CASE("a kernel without arguments can be launched") {
  if (no_gpu()) return;
  gpu g;
  int before = 0, after = 0;
  gr::cuda_kit::check(cudaMemcpyFromSymbol(&before, launches_counted, sizeof before), "cudaMemcpyFromSymbol");
  gr::launch(g.ctx, &count_launch, 1, 1);
  g.stream.synchronize();
  gr::cuda_kit::check(cudaMemcpyFromSymbol(&after, launches_counted, sizeof after), "cudaMemcpyFromSymbol");
  CHECK(after == before + 1);
}

TEST_CASE("kernels take views as spans of libcu++, with their extents in the type") {
  if (no_gpu()) return;
  gpu g;
  const auto x = gr::from_values<float, gr::shape<2, 3>>(g.ctx, {1, 2, 3, 4, 5, 6});
  auto y = gr::empty<float, gr::shape<3, 2>>(g.ctx);
  const auto from = gr::as_cuda_mdspan(x.view());
  const auto to = gr::as_cuda_mdspan(y.view());
  static_assert(decltype(from)::static_extent(1) == 3 && sizeof from == sizeof(float*));
  static_assert(std::is_same_v<decltype(from)::reference, const float&>);
  gr::launch(g.ctx, &transpose_spans<std::remove_const_t<decltype(to)>, std::remove_const_t<decltype(from)>>, 2, 3, to,
             from);
  CHECK(gr::to_host(y) == std::vector<float>{1, 4, 2, 5, 3, 6});
  const auto part = gr::from_values<float, gr::shape<gr::upto<5>, 3>>(g.ctx, {1, 2, 3, 4, 5, 6}, 2);
  CHECK(gr::as_cuda_mdspan(part.view()).extent(0) == 2);
}
