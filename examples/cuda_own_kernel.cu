// Kernels of your own, and CUB, in an operation that the library differentiates, records and replays as a graph. The
// operation divides a matrix by its norm; the weights of a network keep their scale that way (weight normalisation,
// Salimans and Kingma 2016). Exits with 77 where there is no GPU.
#include <cstdio>
#include <cub/device/device_reduce.cuh>
#include <gradus/cuda.hpp>
#include <gradus/memory/measured_trace.hpp>
#include <gradus/plan/placement.hpp>

namespace gr = gradus;

using shape = gr::shape<61, 67>;
using matrix = gr::tensor<float, shape, gr::cuda>;
using scalar = gr::tensor<float, gr::shape<>, gr::cuda>;

// y = x / |x|. The squared norm is read on the GPU, where CUB left it: the host waits for nothing.
__global__ void unit_kernel(float* y, const float* x, const float* square) {
  const auto i = static_cast<gr::index_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < shape::size) y[i] = x[i] * rsqrtf(*square);
}
// dx = (dy - y (dy . y)) / |x|: dy without its part along y.
__global__ void unit_gradient_kernel(float* dx, const float* dy, const float* y, const float* along,
                                     const float* square) {
  const auto i = static_cast<gr::index_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < shape::size) dx[i] = (dy[i] - y[i] * *along) * rsqrtf(*square);
}
constexpr unsigned threads = 256, blocks = (shape::size + threads - 1) / threads;

// CUB says how much scratch it needs, and gets it from the context.
scalar dot(const matrix& a, const matrix& b) {
  auto& ctx = a.owner();
  const matrix products = a * b;
  scalar sum(ctx);
  std::size_t bytes = 0;
  const auto reduce = [&](void* room) {
    const cudaError_t status =
        cub::DeviceReduce::Sum(room, bytes, products.data(), sum.data(), matrix::size, ctx.stream().handle());
    if (status != cudaSuccess) throw gr::error(std::string("cub::DeviceReduce::Sum: ") + cudaGetErrorString(status));
  };
  reduce(nullptr);
  reduce(gr::scratch<char>(ctx, bytes));
  return sum;
}

auto unit(const auto& x) {
  return gr::custom_op(
      [](const matrix& v) {
        const scalar square = dot(v, v);
        matrix y(v.owner());
        gr::launch(v.owner(), &unit_kernel, blocks, threads, y.data(), v.data(), square.data());
        return y;
      },
      [](const matrix& dy, const matrix& y, const matrix& v) {
        const scalar along = dot(dy, y), square = dot(v, v);
        matrix dv(v.owner());
        gr::launch(v.owner(), &unit_gradient_kernel, blocks, threads, dv.data(), dy.data(), y.data(), along.data(),
                   square.data());
        return dv;
      },
      x);
}

struct model {
  gr::param<gr::on<gr::cuda>, 61, 67> w;
  GRADUS_MEMBERS(w)
};

// A matrix learns to be a multiple of another one.
int train() {
  gr::cuda_stream stream;
  gr::device_resource memory;
  gr::context persistent{stream, memory};
  const auto target = unit(gr::normal<float, shape>(persistent, gr::random_key{.seed = 1}));
  auto loss = gr::zeros<float, gr::shape<>>(persistent);
  model net;
  gr::init(net, persistent, gr::normal_init{.seed = 2, .stddev = 1});
  gr::sgd optimizer{net, {.lr = 200}};
  const auto step = [&](gr::tape<gr::cuda>& tape, gr::context<gr::cuda>& transient) {
    const auto wanted = tape.watch(target);
    const auto w = gr::watch(net.w, wanted) * 1.0f;  // in the memory of the step, where unit() finds room beside it
    const auto difference = unit(w) - wanted;
    const auto found = gr::sum(difference * difference);
    gr::device_access<gr::cuda>::copy(transient, loss.data(), found.value().data(), loss.bytes);
    gr::backward(found);
    optimizer.step(persistent);
  };

  // The first step is traced. The others have its memory at the same addresses, so that their graph can be replayed.
  gr::step_trace trace;
  {
    gr::basic_trace_resource<gr::cuda_stream> traced{memory};
    gr::context<gr::cuda> transient{stream, traced};
    gr::tape tape{transient};
    traced.start(trace);
    step(tape, transient);
    traced.finish();
  }
  gr::basic_planned_resource<gr::cuda_stream> planned(gr::make_plan(trace), memory, stream);
  gr::context<gr::cuda> transient{stream, planned};
  gr::tape tape{transient};
  gr::step_graph graph{transient, tape, optimizer};
  for (int i = 1; i <= 50; ++i) {
    graph.run([&] { step(tape, transient); });
    if (i % 10 == 0) std::printf("step %2d  loss %.2e\n", i, static_cast<double>(gr::item(loss)));
  }
  std::printf("kernels and copies: %zu, captures: %zu\n", graph.nodes(), graph.captures());
  return gr::item(loss) < 1e-3f && graph.captures() == 1 ? 0 : 1;
}

int main() {
  if (const auto reason = gr::cuda_unavailable_reason(); !reason.empty()) {
    std::printf("skipped: %s\n", reason.c_str());
    return 77;
  }
  try {
    return train();
  } catch (const gr::error& problem) {
    std::fprintf(stderr, "cuda_own_kernel: %s\n", problem.what());
    return 1;
  }
}
