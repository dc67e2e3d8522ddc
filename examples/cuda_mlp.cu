// A two-layer network learns to tell two spirals apart, on the GPU. It is the CPU's lesson with another device in the
// type: the model, the loop and the optimizer are the same. Exits with 77 where there is no GPU.
#include <cmath>
#include <cstdio>
#include <gradus/cuda.hpp>
#include <vector>

namespace gr = gradus;

constexpr std::size_t points = 512;
constexpr std::size_t width = 64;

template <class X>
struct mlp {
  gr::param<X, 2, width> w1;
  gr::param<X, width> b1;
  gr::param<X, width, 2> w2;
  gr::param<X, 2> b2;
  GRADUS_MEMBERS(w1, b1, w2, b2)

  auto operator()(auto x) const { return gr::linear(gr::tanh(gr::linear(x, w1, b1)), w2, b2); }
};

// Point i lies on spiral i % 2, turned against the other by half a turn.
void make_spirals(std::vector<float>& xy, std::vector<int>& spiral) {
  for (std::size_t i = 0; i < points; ++i) {
    const float along = static_cast<float>(i / 2) / (points / 2);
    const float angle = 9.0f * along + (i % 2 == 0 ? 0.0f : 3.14159265f);
    xy.push_back((0.2f + 1.8f * along) * std::cos(angle));
    xy.push_back((0.2f + 1.8f * along) * std::sin(angle));
    spiral.push_back(static_cast<int>(i % 2));
  }
}

void train() {
  gr::cuda_stream stream;
  gr::device_resource memory;
  gr::context ctx{stream, memory};
  using X = gr::on<gr::cuda>;

  std::vector<float> xy;
  std::vector<int> spiral;
  make_spirals(xy, spiral);
  const auto inputs = gr::from_host<float, gr::shape<points, 2>>(ctx, xy.data(), gr::category::input);
  const auto labels = gr::from_host<int, gr::shape<points>>(ctx, spiral.data(), gr::category::input);

  mlp<X> net;
  gr::init(net, ctx, gr::xavier_normal{.seed = 7});
  gr::adamw optimizer{net, {.lr = 2e-2, .weight_decay = 0}};
  gr::tape tape{ctx};
  for (int step = 0; step <= 1000; ++step) {
    auto loss = gr::cross_entropy(net(tape.watch(inputs)), labels);
    if (step % 200 == 0) std::printf("step %4d  loss %.4f\n", step, static_cast<double>(gr::item(loss.value())));
    gr::backward(loss);
    optimizer.step(ctx);
  }

  const auto scores = gr::to_host(net(inputs));
  std::size_t right = 0;
  for (std::size_t i = 0; i < points; ++i) right += (scores[2 * i + 1] > scores[2 * i]) == (spiral[i] == 1) ? 1u : 0u;
  std::printf("%zu of %zu points told right\n", right, points);
}

int main() {
  if (const auto reason = gr::cuda_unavailable_reason(); !reason.empty()) {
    std::printf("skipped: %s\n", reason.c_str());
    return 77;
  }
  try {
    train();
  } catch (const gr::error& problem) {
    std::fprintf(stderr, "cuda_mlp: %s\n", problem.what());
    return 1;
  }
}
