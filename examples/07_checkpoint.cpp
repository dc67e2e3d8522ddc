// Lesson 7: trading time for memory. What runs in a checkpoint region keeps only its input; backward runs it again. The
// gradients are the same, bit for bit, also where numbers are drawn at random.

#include <cstdio>
#include <gradus/gradus.hpp>

namespace gr = gradus;
using X = gr::on<gr::cpu>;

// Eight layers, each 512 wide. `policy` says what each layer keeps.
struct deep {
  std::array<gr::nn::linear<X, 512, 512>, 8> layers;
  GRADUS_MEMBERS(layers)

  template <class Policy>
  auto operator()(auto x, const Policy& policy) const {
    for (const auto& layer : layers)
      x = gr::checkpoint(
          policy, [&layer](auto v) { return v + gr::dropout(gr::gelu(layer(v)), 0.1); }, std::move(x));
    return x;
  }
};

int main() {
  gr::stream stream;
  gr::host_resource heap;
  gr::stats_resource memory(heap);
  gr::context ctx{stream, memory};
  deep net;
  gr::init(net, ctx, gr::xavier_normal{.seed = 1});
  const auto x = gr::normal<float, gr::shape<256, 512>>(ctx, {.seed = 2});

  // The gradient of the first weight, and how many bytes of activations there were at once.
  const auto train = [&](const char* name, const auto& policy) {
    gr::tape tape{ctx, 7};
    memory.reset_peak();
    gr::backward(gr::mean(net(tape.watch(x), policy)));
    auto gradient = gr::to_host(net.layers[0].weight.gradient());
    gr::clear_gradients(net);
    std::printf("%-26s %5.1f MiB of activations\n", name,
                static_cast<double>(memory.of(gr::category::activation).peak) / (1 << 20));
    return gradient;
  };
  const auto all = train("keep all", gr::save_all{});
  const auto none = train("keep nothing", gr::save_none{});
  const auto products = train("keep matrix products", gr::save_only<gr::op::matmul>{});
  const auto costly = train("keep what takes long", gr::save_costly<100>{});  // 100 operations a kept byte or more
  std::printf("the gradients are %s\n",
              all == none && all == products && all == costly ? "the same bits" : "different");
  return all == none && all == products && all == costly ? 0 : 1;
}
