// The code of README.md.
#include <doctest/doctest.h>

#include <gradus/gradus.hpp>
#include <vector>

namespace gr = gradus;

// [mlp]
template <class X>  // X: the device it lives on, and its precision
struct mlp {        // a model is a plain struct
  gr::nn::linear<X, 784, 256> hidden;
  gr::nn::linear<X, 256, 10> output;
  GRADUS_MEMBERS(hidden, output)

  constexpr auto operator()(auto x) const { return output(gr::gelu(hidden(std::move(x)))); }
};

// [/mlp]

// [peak]
constexpr std::size_t bytes_of_a_step() {
  gr::meta_stream stream;
  gr::accounting memory;  // hands out no bytes, and counts them all
  gr::context ctx{stream, memory};
  mlp<gr::on<gr::meta>> net;
  gr::init(net, ctx, gr::normal_init{});
  gr::adamw optimizer{net};
  gr::tape tape{ctx};
  auto images = gr::empty<float, gr::shape<64, 784>>(ctx);
  auto labels = gr::empty<std::int32_t, gr::shape<64>>(ctx);
  gr::backward(gr::cross_entropy(net(tape.watch(images)), labels));
  optimizer.step(ctx);
  return memory.peak_bytes();
}
static_assert(bytes_of_a_step() < 4 << 20);
// [/peak]

namespace {

struct batch {
  gr::tensor<float, gr::shape<64, 784>> images;
  gr::tensor<std::int32_t, gr::shape<64>> labels;
};

// Pictures of noise; a class is brighter in its own rows of the picture.
batch make_batch(gr::context<gr::cpu>& ctx, std::uint32_t number) {
  batch b{gr::uniform<float, gr::shape<64, 784>>(ctx, {1, number, 0}), gr::empty<std::int32_t, gr::shape<64>>(ctx)};
  for (gr::index_t i = 0; i < 64; ++i) {
    const gr::index_t label = i % 10;
    b.labels(i) = static_cast<std::int32_t>(label);
    for (gr::index_t p = 0; p < 78; ++p) b.images(i, label * 78 + p) += 1;
  }
  return b;
}

// Trains a fresh model, and returns the share of the first batch that it then tells right.
template <class X>
double train(gr::context<gr::cpu>& ctx, const std::vector<batch>& batches) {
  // [mlp]
  mlp<gr::on<gr::cpu>> net;
  gr::init(net, ctx, gr::he_normal{.seed = 7});
  gr::adamw optimizer{net, {.lr = 1e-3}};
  gr::tape tape{ctx};
  for (const auto& [images, labels] : batches) {  // tensors of shape<64, 784> and shape<64>
    auto loss = gr::cross_entropy(net(tape.watch(images)), labels);
    gr::backward(loss);
    optimizer.step(ctx);
  }
  // [/mlp]
  const auto found = gr::argmax<1>(net(batches[0].images));
  int right = 0;
  for (gr::index_t i = 0; i < 64; ++i) right += found(i) == batches[0].labels(i);
  return right / 64.0;
}

}  // namespace

TEST_CASE("the README's model learns") {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  std::vector<batch> batches;
  for (std::uint32_t i = 0; i < 40; ++i) batches.push_back(make_batch(ctx, i));
  CHECK(train<gr::on<gr::cpu>>(ctx, batches) > 0.9);
}

TEST_CASE("a step takes the memory that was known when it was compiled, to the byte") {
  gr::stream stream;
  gr::host_resource heap;
  gr::stats_resource memory(heap);
  gr::context ctx{stream, memory};
  mlp<gr::on<gr::cpu>> net;
  gr::init(net, ctx, gr::normal_init{});
  gr::adamw optimizer{net};
  gr::tape tape{ctx};
  const auto [images, labels] = make_batch(ctx, 0);
  gr::backward(gr::cross_entropy(net(tape.watch(images)), labels));
  optimizer.step(ctx);
  CHECK(memory.all().peak == bytes_of_a_step());
}
