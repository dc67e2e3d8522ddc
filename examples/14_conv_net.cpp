// Lesson 14: a convolutional net. Residual blocks with batch norm learn to name pictures of 28 x 28, in batches of up
// to 64 that are moved and mirrored at random, and are then asked about pictures that they have not seen.
//
//   14_conv_net                                                          on shapes that it draws itself
//   14_conv_net TRAIN_IMAGES TRAIN_LABELS TEST_IMAGES TEST_LABELS        on IDX files: Fashion-MNIST's, MNIST's

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <gradus/data/augment.hpp>
#include <gradus/data/idx.hpp>
#include <gradus/data/sample_batches.hpp>
#include <gradus/gradus.hpp>
#include <string>
#include <utility>
#include <vector>

namespace gr = gradus;
namespace nn = gr::nn;

using X = gr::on<gr::cpu>;
using byte = std::uint8_t;
constexpr gr::index_t most = 64, side = 28, classes = 10;
using images = gr::shape<gr::upto<most>, 1, side, side>;

// Two convolutions beside a shorter way for the gradient (He et al., "Deep Residual Learning", 2015).
template <gr::index_t In, gr::index_t Out, gr::index_t Stride>
struct residual_block {
  nn::conv2d<X, In, Out, 3, gr::conv{.stride = Stride, .padding = 1}, nn::no_bias> first;
  nn::batch_norm<X, Out> first_norm;
  nn::conv2d<X, Out, Out, 3, gr::conv{.padding = 1}, nn::no_bias> second;
  nn::batch_norm<X, Out> second_norm;
  nn::conv2d<X, In, Out, 1, gr::conv{.stride = Stride}, nn::no_bias> shortcut;
  nn::batch_norm<X, Out> shortcut_norm;
  GRADUS_MEMBERS(first, first_norm, second, second_norm, shortcut, shortcut_norm)

  auto operator()(const auto& x) const {
    return gr::relu(second_norm(second(gr::relu(first_norm(first(x))))) + shortcut_norm(shortcut(x)));
  }
};

struct conv_net {
  nn::conv2d<X, 1, 16, 3, gr::conv{.padding = 1}, nn::no_bias> stem;
  nn::batch_norm<X, 16> stem_norm;
  residual_block<16, 16, 1> fine;    // of 14 x 14
  residual_block<16, 32, 2> coarse;  // of 7 x 7
  nn::linear<X, 32, classes> head;
  GRADUS_MEMBERS(stem, stem_norm, fine, coarse, head)

  auto operator()(const auto& x) const {  // [B, 1, 28, 28] -> scores [B, 10]
    const auto pooled = gr::max_pool2d<gr::pool{.size = 2}>(gr::relu(stem_norm(stem(x))));
    return head(gr::mean<2, 3>(coarse(fine(pooled))));
  }
};

struct pictures {
  gr::host_array<byte> images, labels;
};
// A shape for each class, of a random size at a random place, under noise.
byte drawn(gr::index_t shape, float x, float y, float size) {
  const float far = std::max(std::abs(x), std::abs(y)), round = std::sqrt(x * x + y * y);
  const bool near = far < size;
  const auto stripe = [&](float v) { return std::fmod(v + 100, 5.0f) < 2.5f; };
  const bool ink[classes] = {round < size,
                             round < size && round > size - 2.5f,
                             near,
                             near && far > size - 2.5f,
                             near && std::min(std::abs(x), std::abs(y)) < 1.5f,
                             near && std::abs(std::abs(x) - std::abs(y)) < 2,
                             near && stripe(x),
                             near && stripe(y),
                             near && stripe(x) == stripe(y),
                             near && y > 2 * std::abs(x) - size};
  return ink[shape] ? 200 : 40;
}
pictures draw(gr::index_t count, std::uint64_t seed) {
  pictures all{{{count, side, side}, {}}, {{count}, {}}};
  for (gr::index_t i = 0; i < count; ++i) {
    const gr::random_key key{.seed = seed, .step = static_cast<std::uint32_t>(i)};
    const auto words = key.words(0);
    const float size = 5 + 4 * gr::uniform_float(words[1]), room = side / 2 - size;
    const float left = side / 2 + room * (2 * gr::uniform_float(words[2]) - 1);
    const float top = side / 2 + room * (2 * gr::uniform_float(words[3]) - 1);
    all.labels.values.push_back(static_cast<byte>(words[0] % classes));
    for (gr::index_t p = 0; p < side * side; ++p) {
      const float x = static_cast<float>(p % side) - left, y = static_cast<float>(p / side) - top;
      const auto noise = static_cast<int>(key.words(1 + p)[0] % 241) - 120;
      const int light = drawn(words[0] % classes, x, y, size) + noise;
      all.images.values.push_back(static_cast<byte>(std::clamp(light, 0, 255)));
    }
  }
  return all;
}
pictures read(const std::string& image_file, const std::string& label_file) {
  pictures all{gr::read_idx<byte>(image_file), gr::read_idx<byte>(label_file)};
  const auto& extents = all.images.extents;
  if (extents.size() != 3 || extents[1] != side || extents[2] != side) {
    std::string found;
    for (const gr::index_t e : extents) found += (found.empty() ? "" : " x ") + std::to_string(e);
    throw gr::error(image_file + ": holds " + found + " bytes; pictures are N x 28 x 28");
  }
  for (std::size_t i = 0; i < all.labels.values.size(); ++i)
    if (all.labels.values[i] >= classes)
      throw gr::error(label_file + ": label " + std::to_string(i) + " is " + std::to_string(all.labels.values[i]) +
                      "; labels are 0 to 9");
  return all;
}

// Bytes as a tensor of numbers from -1 to 1.
auto to_tensor(gr::context<gr::cpu>& ctx, const gr::host_array<byte>& from) {
  std::vector<float> values(from.values.begin(), from.values.end());
  for (float& v : values) v = v / 127.5f - 1;
  return gr::from_values<float, images>(ctx, values, from.extents[0]);
}

void run(const pictures& seen, const pictures& unseen, std::uint32_t epochs) {
  gr::stream stream;
  gr::host_resource heap;
  gr::pool_resource pool(heap);
  gr::context ctx{stream, pool};
  conv_net net;
  gr::init(net, ctx, gr::he_normal{.seed = 1});
  std::printf("%zu parameters, %zu pictures to learn from\n", gr::parameter_count(net), seen.labels.values.size());
  gr::sgd optimizer{net, {.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-4}};
  const gr::sample_batches batches(seen.images, seen.labels, {.batch = most});
  const auto steps = static_cast<std::uint32_t>(epochs * batches.batches());
  const gr::warmup_cosine rate{.peak = 0.1, .low = 1e-4, .warmup = 0.1 * steps, .total = 1.0 * steps};
  gr::tape tape{ctx};
  for (std::uint32_t step = 0; step < steps; ++step) {
    const auto batch = batches.shuffled_batch(/*seed=*/7, step);  // 64 rows, and in an epoch's last batch fewer
    const gr::random_key key{.seed = 7, .step = step};
    const auto x = to_tensor(ctx, gr::shift_and_flip(batch.inputs, {.shift = 2, .flip = true}, key));
    const std::vector<std::int32_t> labels(batch.targets.values.begin(), batch.targets.values.end());
    const auto targets = gr::from_values<std::int32_t, gr::shape<gr::upto<most>>>(ctx, labels, batch.rows());
    // A recorded batch norm normalises by the batch, and remembers a tenth of its mean and variance.
    const auto loss = gr::cross_entropy(net(tape.watch(x)), targets);
    gr::backward(loss);
    optimizer.options.lr = rate(step);
    optimizer.step(ctx);
    if ((step + 1) % batches.batches() == 0)
      std::printf("epoch %zu: loss %.3f of its last %zu pictures\n", (step + 1) / batches.batches(),
                  static_cast<double>(gr::item(loss.value())), batch.rows());
  }

  const gr::sample_batches asked(unseen.images, unseen.labels, {.batch = most});
  std::size_t right = 0;
  for (std::uint64_t number = 0; number < asked.batches(); ++number) {
    const auto batch = asked.batch(number);
    // A plain x: batch norms use what they remember, so an answer does not depend on the others of its batch.
    const auto answers = gr::argmax<1>(net(to_tensor(ctx, batch.inputs)));
    for (gr::index_t i = 0; i < batch.rows(); ++i) right += answers(i) == batch.targets.values[i] ? 1 : 0;
  }
  std::printf("accuracy %.3f on %zu pictures that it has not seen\n",
              static_cast<double>(right) / static_cast<double>(asked.samples()), asked.samples());
}

int main(int argc, char** argv) {
  try {
    if (argc == 1) {
      run(draw(2000, 1), draw(500, 2), /*epochs=*/5);
    } else if (argc == 5) {
      run(read(argv[1], argv[2]), read(argv[3], argv[4]), /*epochs=*/4);
    } else {
      throw gr::error("usage: 14_conv_net [TRAIN_IMAGES TRAIN_LABELS TEST_IMAGES TEST_LABELS]");
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return 1;
  }
  return 0;
}
