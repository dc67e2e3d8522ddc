// Kernels that fail while they run, and what is said of them. Such a failure ends all work of a process on the GPU, so
// each happens in a process of its own: this program again, with the one test case that otherwise is skipped. And sizes
// that kernels do not take, which are errors before a launch.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "../support/message_of.hpp"
#include "device.hpp"

namespace {

__global__ void failing_kernel(float* to) {
  to[threadIdx.x] = 0;
  if (threadIdx.x == 7) __trap();
}

/// The identity, whose gradient fails.
auto failing_gradient(const auto& x) {
  return gr::custom_op([](const auto& v) { return v; },
                       [](const auto& dy, const auto&, const auto&) {
                         auto dx = gr::empty<float, gr::shape<32>>(dy.owner());
                         gr::launch(dy.owner(), &failing_kernel, 1, 32, dx.data());
                         return dx;
                       },
                       x);
}

std::string read_all(std::FILE* from) {
  std::string text;
  for (int c = std::fgetc(from); c != EOF; c = std::fgetc(from)) text += static_cast<char>(c);
  return text;
}
/// What the case below prints, with the environment variable set to `waits`.
std::string said_by_failing_step(const std::string& waits) {
  std::FILE* const child =
      popen(("GRADUS_CUDA_SYNC=" + waits + " /proc/$PPID/exe -ns -tc='*in a child*' 2>&1").c_str(), "r");
  REQUIRE(child != nullptr);
  const std::string text = read_all(child);
  pclose(child);
  const std::size_t at = text.find("said: ");
  return at == std::string::npos ? text : text.substr(at + 6, text.find('\n', at) - at - 6);
}

}  // namespace

TEST_CASE("in a child process, a step fails" * doctest::skip()) {
  if (no_gpu()) return;
  gpu g;
  gr::tape tape{g.ctx};
  const auto x = tape.variable(gr::zeros<float, gr::shape<32>>(g.ctx));
  std::printf("said: %s\n", gradus_test::message_of([&] {
                              gr::backward(gr::sum(failing_gradient(x)));
                              g.stream.synchronize();
                            }).c_str());
  std::fflush(stdout);
  std::_Exit(0);  // nothing can be freed any more
}

TEST_CASE("with GRADUS_CUDA_SYNC=1 the error of a failed kernel names it, its operation and the phase") {
  if (no_gpu()) return;
  const std::string said = said_by_failing_step("1");
  CHECK_MESSAGE(said.starts_with("failing_kernel failed in custom (backward): "), said);
  CHECK_MESSAGE(said.ends_with(")"), said);
}

TEST_CASE("without it a later call reports the error, and says how the kernel is found") {
  if (no_gpu()) return;
  const std::string said = said_by_failing_step("");
  CHECK_MESSAGE(said.find("failing_kernel") == std::string::npos, said);
  CHECK_MESSAGE(
      said.ends_with("; an earlier kernel failed: run again with GRADUS_CUDA_SYNC=1, which names it, or under "
                     "compute-sanitizer"),
      said);
}

TEST_CASE("a stream waits for kernels if the environment said so when it was created, but not in a capture") {
  if (no_gpu()) return;
  CHECK_FALSE(gr::cuda_stream{}.waits_for_kernels());
  setenv("GRADUS_CUDA_SYNC", "1", 1);
  gpu g;
  setenv("GRADUS_CUDA_SYNC", "0", 1);
  CHECK_FALSE(gr::cuda_stream{}.waits_for_kernels());
  unsetenv("GRADUS_CUDA_SYNC");
  CHECK(g.stream.waits_for_kernels());
  gr::basic_pool_resource<gr::cuda_stream> pool(g.memory);
  gr::context<gr::cuda> ctx{g.stream, pool};
  auto x = gr::zeros<float, gr::shape<16, 16>>(ctx);
  bool waited = true;
  gr::step_graph graph{ctx};
  for (int i = 0; i < 3; ++i)
    graph.run([&] {
      waited = g.stream.waits_for_kernels();
      const auto next = gr::matmul(x, x) + 1.0f;
      gr::device_access<gr::cuda>::copy(ctx, x.data(), next.data(), x.bytes);
    });
  CHECK_FALSE(waited);
  CHECK(graph.captures() == 2);
  CHECK(gr::to_host(x)[3] == 16 * 17.0f * 17.0f + 1);
}

TEST_CASE("a kernel that needs more shared memory than the GPU has is refused with both numbers") {
  if (no_gpu()) return;
  gpu g;
  auto x = gr::zeros<float, gr::shape<32>>(g.ctx);
  const std::string said = gradus_test::message_of(
      [&] { gr::launch_with_shared(g.ctx, &failing_kernel, 1, 32, std::size_t{300} << 10, x.data()); });
  CHECK_MESSAGE(said.starts_with("launch of failing_kernel: a block needs 307200 bytes of shared memory, and the "),
                said);
  CHECK_MESSAGE(said.ends_with(" has " + std::to_string(g.stream.block_memory()) +
                               ": use smaller blocks, such as narrower heads, or a GPU with more"),
                said);
  gr::launch(g.ctx, &failing_kernel, 1, 1, x.data());  // that one was not stuck
  CHECK(gr::to_host(x)[0] == 0);
}

TEST_CASE("a GPU below compute capability 8.0 is refused in one sentence") {
  CHECK(gr::cuda_kit::too_old(7, 5, "Tesla T4") ==
        "the Tesla T4 has compute capability 7.5, and gradus needs 8.0 (A100, RTX 30) or more: use another GPU, or "
        "gradus::cpu");
  CHECK(gr::cuda_kit::too_old(8, 0, "A100").empty());
}

TEST_CASE("an allocation in a capture is refused: from the driver, of scratch memory, of pinned memory") {
  if (no_gpu()) return;
  gpu g;
  gr::context<gr::cuda> plain{g.stream, g.memory};
  gr::pinned_gpu_resource pinned;
  gr::context<gr::cuda> on_host{g.stream, pinned};
  const auto said = [&](const auto& f) {
    gr::step_graph graph{g.ctx};
    graph.run([] {});
    const std::string text = gradus_test::message_of([&] { graph.run(f); });
    CHECK(cudaStreamSynchronize(g.stream.handle()) == cudaSuccess);  // the stream is as it was
    const std::string reason =
        ", and cannot allocate: run the step once before it is captured, with a pool, which keeps its memory, or "
        "planned memory";
    CHECK_MESSAGE(text.ends_with(reason), text);
    return text.substr(0, text.find(": a captured step asked "));
  };
  CHECK(said([&] { gr::zeros<float, gr::shape<32>>(plain); }) == "device_resource");
  CHECK(said([&] { gr::scratch<float>(plain, 1 << 20); }) == "GPU memory");
  CHECK(said([&] { gr::zeros<float, gr::shape<32>>(on_host); }) == "pinned host memory");
}

TEST_CASE("a grouped convolution of 2^31 positions is an error, and not one of the rest of 2^32") {
  if (no_gpu()) return;
  gpu g;
  using on_gpu = gr::kernel<gr::op::convolution, gr::cuda>;
  constexpr gr::accumulate_in<float> in{};
  constexpr gr::index_t side = gr::index_t{1} << 12;
  constexpr gr::detail::conv_axis axis{side, 1, side, 1, 0, 1};
  float* const none = nullptr;
  for (const gr::index_t batch : {gr::index_t{1} << 7, gr::index_t{1} << 8}) {  // 2^31, and 2^32, which wraps to 0
    const gr::detail::conv_sizes of{batch, 2, 2, 2, axis, axis};
    const std::string said = "conv: a GPU takes fewer than 2^31 positions (images x height x width) per call, here " +
                             std::to_string(batch * side * side) + "; split the batch";
    const auto check = [&](const auto& f) { CHECK(gradus_test::message_of(f) == said); };
    check([&] { on_gpu::forward(in, g.ctx, of, none, false, none, none, none); });
    check([&] { on_gpu::backward(gr::gradient_of<0>{}, in, g.ctx, of, none, false, none, none, none); });
    check([&] { on_gpu::backward(gr::gradient_of<1>{}, in, g.ctx, of, none, false, none, none, none); });
  }
}

TEST_CASE("grouped_matmul of more tiles than a GPU launches is an error") {
  if (no_gpu()) return;
  gpu g;
  using on_gpu = gr::kernel<gr::op::grouped_matmul, gr::cuda>;
  constexpr gr::accumulate_in<float> in{};
  float* const none = nullptr;
  const std::int32_t* const offsets = nullptr;
  constexpr gr::group_sizes many{gr::index_t{1} << 31, 64, 8, 8};
  const auto said = [](const std::string& tiles) {
    return "grouped_matmul: a GPU takes fewer than 2^31 tiles per call, here " + tiles + "; split the rows or groups";
  };
  CHECK(gradus_test::message_of([&] { on_gpu::forward(in, g.ctx, none, none, none, offsets, many); }) ==
        said("2147483651"));
  CHECK(gradus_test::message_of([&] {
          on_gpu::backward(gr::gradient_of<0>{}, in, g.ctx, none, false, none, none, offsets, many);
        }) == said("2147483651"));
  CHECK(gradus_test::message_of([&] {
          on_gpu::backward(gr::gradient_of<1>{}, in, g.ctx, none, false, none, none, offsets, many);
        }) == said("2147483648"));
}
