// Contexts on two GPUs, and on one that is not current in the thread that uses it.
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "device.hpp"

namespace {

/// True, and counted, where there are not two GPUs.
bool one_gpu() {
  if (no_gpu()) return true;
  if (gr::cuda_device::count() > 1) return false;
  std::puts("gradus skipped: 1 (one GPU)");
  return true;
}

struct on_gpu {
  gr::cuda_stream stream;
  gr::device_resource memory;
  gr::basic_pool_resource<gr::cuda_stream> pool{memory};
  gr::context<gr::cuda> ctx{stream, pool};
  explicit on_gpu(int number) : stream(gr::cuda_device{number}), memory(gr::cuda_device{number}) {}
};

/// Products, sums, a sort, scratch memory and an optimizer: what launches kernels and what asks libraries.
template <class X>
struct model {
  gr::param<X, 64, 32> table;
  gr::param<X, 32, 48> w;
  gr::param<X, 48> b;
  GRADUS_MEMBERS(table, w, b)
};
std::vector<float> trained(gr::context<gr::cuda>& ctx, bool as_graph) {
  model<gr::on<gr::cuda, gr::bf16_mixed>> net;
  gr::init(net, ctx, gr::he_normal{.seed = 5});
  gr::muon<float, gr::cuda> optimizer(net);
  gr::tape<gr::cuda> tape(ctx, 3);
  const std::vector<std::int32_t> tokens{5, 60, 5, 0, 31, 7, 8, 8}, classes{1, 2, 3, 40, 5, 6, 7, 8};
  const auto x = gr::from_host<std::int32_t, gr::shape<8>>(ctx, tokens.data());
  const auto y = gr::from_host<std::int32_t, gr::shape<8>>(ctx, classes.data());
  gr::step_graph graph{ctx, tape, optimizer};
  const auto step = [&] {
    gr::backward(
        gr::cross_entropy(gr::linear(gr::dropout(gr::embedding(tape.watch(x), net.table), 0.25), net.w, net.b), y));
    optimizer.clip(ctx, 1.0);
    optimizer.step(ctx);
  };
  for (int i = 0; i < 3; ++i) {
    if (as_graph) graph.run(step);
    else step();
  }
  std::vector<float> found = gr::to_host(net.table.value());
  for (const float v : gr::to_host(net.w.value())) found.push_back(v);
  return found;
}

}  // namespace

TEST_CASE("contexts of two GPUs compute the same in one thread, whichever is current, and leave that as it was") {
  if (one_gpu()) return;
  on_gpu first(0), second(1);
  for (const bool as_graph : {false, true}) {
    const auto expected = trained(first.ctx, as_graph);
    CHECK(trained(second.ctx, as_graph) == expected);
    CHECK(gr::cuda_device::current().number == 0);
    gr::cuda_kit::check(cudaSetDevice(1), "cudaSetDevice");
    CHECK(trained(first.ctx, as_graph) == expected);
    CHECK(trained(second.ctx, as_graph) == expected);
    CHECK(gr::cuda_device::current().number == 1);
    gr::cuda_kit::check(cudaSetDevice(0), "cudaSetDevice");
  }
}

TEST_CASE("a context on the second GPU may be used by another thread, in which the first one is current") {
  if (one_gpu()) return;
  gr::cuda_kit::check(cudaSetDevice(1), "cudaSetDevice");
  gpu here;  // made on what is current
  CHECK(here.stream.device().number == 1);
  std::vector<float> there;
  std::thread([&] {
    CHECK(gr::cuda_device::current().number == 0);
    CHECK_NOTHROW(there = trained(here.ctx, false));
  }).join();
  CHECK(trained(here.ctx, false) == there);
  gr::cuda_kit::check(cudaSetDevice(0), "cudaSetDevice");
}

TEST_CASE("a stream waits for a mark of another GPU's, and a mark can move from one to the other") {
  if (one_gpu()) return;
  on_gpu first(0), second(1);
  gr::cuda_event mark;
  first.stream.record(mark);
  second.stream.wait(mark);
  second.stream.record(mark);
  mark.synchronize();
  CHECK(mark.done());
  first.stream.wait(mark);
  CHECK(gr::item(gr::full<float, gr::shape<>>(first.ctx, 2.5f)) == 2.5f);
}

TEST_CASE("products are tuned on the context's own GPU") {
  if (one_gpu()) return;
  on_gpu second(1);
  const auto file = std::filesystem::temp_directory_path() / ("gradus-products-" + std::to_string(std::rand()));
  gr::tune_products(second.ctx, file.string());
  const auto a = gr::full<float, gr::shape<32, 32>>(second.ctx, 0.5f);
  CHECK(gr::to_host(gr::matmul(a, a)) == std::vector<float>(32 * 32, 8.0f));
  CHECK(std::filesystem::file_size(file) > 0);
  gr::tape<gr::cuda> tape{second.ctx};  // a bias's gradient is timed, too
  const auto w = tape.variable(a);
  const auto b = tape.variable(gr::full<float, gr::shape<32>>(second.ctx, 0.5f));
  gr::backward(gr::sum(gr::linear(tape.watch(a), w, b)));
  CHECK(gr::to_host(w.gradient()) == std::vector<float>(32 * 32, 16.0f));
  CHECK(gr::to_host(b.gradient()) == std::vector<float>(32, 32.0f));
  std::filesystem::remove(file);
}

TEST_CASE("a GPU that is not there is refused by its number") {
  if (no_gpu()) return;
  CHECK_THROWS_WITH_AS(gr::cuda_stream(gr::cuda_device{64}),
                       doctest::Contains("cuda_stream: there is no GPU 64 here: the "), gr::error);
  CHECK_THROWS_WITH_AS(gr::device_resource(gr::cuda_device{-1}), doctest::Contains("there is no GPU -1 here"),
                       gr::error);
}

TEST_CASE("a borrowed stream is on the GPU it was created on, whichever is current") {
  if (one_gpu()) return;
  cudaStream_t foreign = nullptr;
  {
    const gr::cuda_kit::device_guard guard(gr::cuda_device{1});
    gr::cuda_kit::check(cudaStreamCreate(&foreign), "cudaStreamCreate");
  }
  {
    const auto stream = gr::cuda_stream::borrow(foreign);
    CHECK(stream.device().number == 1);
    CHECK(gr::cuda_device::current().number == 0);
  }
  gr::cuda_kit::check(cudaStreamDestroy(foreign), "cudaStreamDestroy");
}
