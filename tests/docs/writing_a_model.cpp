// The code of docs/guide/writing-a-model.md.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <gradus/gradus.hpp>
#include <gradus/run/checkpoint.hpp>
#include <gradus/run/model_file.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace gr = gradus;

// [model]
template <class X>
struct gated_layer {
  gr::param<X, 64, 32> weight;             // a matrix: drawn by the initialiser
  gr::param<X, 32> bias;                   // a vector: starts at zero
  gr::param<X, 32> gain{gr::start::ones};  // unless it says otherwise
  GRADUS_MEMBERS(weight, bias, gain)

  constexpr auto operator()(const auto& x) const { return gain * gr::sigmoid(gr::linear(x, weight, bias)); }
};
// [/model]

// [nested]
template <class X>
struct classifier {
  gated_layer<X> input;
  std::array<gr::nn::mlp<X, 32>, 3> blocks;
  gr::nn::linear<X, 32, 2> head;
  double dropout = 0.1;  // no parameter: not named below
  GRADUS_MEMBERS(input, blocks, head)

  constexpr auto operator()(const auto& x) const {
    auto h = gr::dropout(input(x), dropout);
    for (const auto& block : blocks) h = h + block(h);
    return head(h);
  }
};
// [/nested]

// [state]
template <class X>
struct batch_norm {
  gr::param<X, 32> gain{gr::start::ones};
  gr::state<X, 32> mean;                       // starts at zero
  gr::state<X, 32> variance{gr::start::ones};  // unless it says otherwise
  GRADUS_MEMBERS(gain, mean, variance)

  constexpr auto operator()(const auto& x) const {
    if constexpr (gr::is_recorded<decltype(x)>) {  // training: by the batch
      const auto m = gr::mean<0>(x);
      const auto d = x - m;
      const auto v = gr::mean<0>(d * d);
      mean.update(x, mean + 0.1f * (m - mean));
      variance.update(x, variance + 0.1f * (v - variance));
      return gain * d / gr::sqrt(v + 1e-5f);
    } else {
      return gain * (x - mean) / gr::sqrt(variance + 1e-5f);
    }
  }
};
// [/state]

// A classifier with another head, and something that no file has.
template <class X>
struct larger_classifier {
  gated_layer<X> input;
  std::array<gr::nn::mlp<X, 32>, 3> blocks;
  gr::nn::linear<X, 32, 3> head;
  gr::param<X, 5> more;
  GRADUS_MEMBERS(input, blocks, head, more)
};
// [grouped_attention]
template <class X>
struct grouped_attention {  // 4 heads of queries share 2 of keys and values
  gr::nn::linear<X, 32, 32> queries, projection;
  gr::nn::linear<X, 32, 16> keys, values;
  GRADUS_MEMBERS(queries, keys, values, projection)

  auto operator()(const auto& x, const auto& lengths) const {
    const auto q = gr::rope<4>(queries(x));
    const auto k = gr::rope<2>(keys(x));
    return projection(gr::attention<4>(q, k, values(x), {.causal = true, .key_lengths = lengths, .window = 128}));
  }
};
// [/grouped_attention]

// [character_lstm]
template <class X>
struct character_lstm {  // predicts the next of 64 characters
  gr::nn::embedding<X, 64, 32> characters;
  gr::nn::lstm<X, 32, 48, 2> lstm;
  gr::nn::linear<X, 48, 64> head;
  GRADUS_MEMBERS(characters, lstm, head)

  /// Ids [B, T], which follow those that led to `state` -> logits [B, T, 64], and the next state.
  auto operator()(const auto& ids, const auto& state) const {
    auto [y, next] = lstm(characters(ids), state, {.dropout = 0.1});
    return std::pair(head(std::move(y)), std::move(next));
  }
};
// [/character_lstm]
// [mixture]
template <class X>
struct sparse_gpt {
  std::array<gr::nn::mixture_block<X, 32, 4, 8, 2>, 3> blocks;  // width 32, 4 heads, 2 of 8 experts
  gr::region_schedule regions;
  GRADUS_MEMBERS(blocks)

  auto operator()(const auto& x) const {  // the residual stream and the auxiliary loss
    return gr::chain(blocks, std::tuple{x, gr::nn::no_auxiliary_loss(x)}, regions,
                     [](const auto& block, auto v) { return block(std::move(v)); });
  }
};
// [/mixture]

namespace {

using X = gr::on<gr::cpu>;
constexpr gr::index_t batch_size = 32;

struct fixture {
  gr::stream stream;
  gr::host_resource heap;
  gr::context<gr::cpu> ctx{stream, heap};

  // Points around 0; the class is which half of the axes is larger in sum.
  gr::tensor<float, gr::shape<batch_size, 64>> points(std::uint32_t number) {
    return gr::normal<float, gr::shape<batch_size, 64>>(ctx, {1, number, 0});
  }
  gr::tensor<std::int32_t, gr::shape<batch_size>> classes(const gr::tensor<float, gr::shape<batch_size, 64>>& points) {
    auto c = gr::empty<std::int32_t, gr::shape<batch_size>>(ctx);
    for (gr::index_t i = 0; i < batch_size; ++i) {
      float sum = 0;
      for (gr::index_t j = 0; j < 64; ++j) sum += j < 32 ? points(i, j) : -points(i, j);
      c(i) = sum > 0;
    }
    return c;
  }
};

}  // namespace

TEST_CASE_FIXTURE(fixture, "parameters have the names of the members") {
  std::string list;
  // [names]
  classifier<X> net;
  gr::init(net, ctx, gr::he_normal{.seed = 7});
  gr::for_each_param(net, [&](std::string_view name, auto& p) {
    list += std::string(name) + " " + std::to_string(p.size()) + "\n";  // input.weight 2048, input.bias 32, ...
  });
  // [/names]
  CHECK(list.starts_with("input.weight 2048\ninput.bias 32\ninput.gain 32\nblocks.0.up.weight 4096\n"));
  CHECK(list.ends_with("head.weight 64\nhead.bias 2\n"));
}

TEST_CASE_FIXTURE(fixture, "no query attends to what is behind a sequence's length") {
  grouped_attention<X> layer;
  gr::init(layer, ctx, gr::he_normal{.seed = 7});
  const auto x = gr::normal<float, gr::shape<1, 6, 32>>(ctx, {1, 0, 0});
  const auto some = gr::to_host(layer(x, gr::full<std::int32_t, gr::shape<1>>(ctx, 4)));
  const auto all = gr::to_host(layer(x, gr::full<std::int32_t, gr::shape<1>>(ctx, 6)));
  CHECK(std::equal(some.begin(), some.begin() + 4 * 32, all.begin()));
  CHECK_FALSE(std::equal(some.begin() + 4 * 32, some.end(), all.begin() + 4 * 32));
}

TEST_CASE_FIXTURE(fixture, "the training loop, and inference") {
  // [loop]
  classifier<X> net;
  gr::init(net, ctx, gr::he_normal{.seed = 7});
  gr::adamw optimizer{net, {.lr = 3e-3, .weight_decay = 0.01}};
  gr::warmup_cosine schedule{.peak = 3e-3, .low = 3e-4, .warmup = 20, .total = 300};
  gr::tape tape{ctx, 7};  // 7: the seed of what is drawn while training (dropout)
  for (std::uint32_t step = 0; step < 300; ++step) {
    auto x = points(step);
    auto loss = gr::cross_entropy(net(tape.watch(x)), classes(x));
    if (step % 100 == 0) std::printf("step %3u  loss %.4f\n", step, gr::item(loss.value()));
    gr::backward(loss);
    optimizer.clip(ctx, 1.0);  // the joint norm of all gradients, at most 1
    optimizer.options.lr = schedule(step);
    optimizer.step(ctx);  // and the gradients are forgotten
  }
  // [/loop]

  // [inference]
  auto x = points(1000);
  auto best = gr::argmax<1>(net(x));  // x is a plain tensor, and so is what comes out
  // [/inference]
  const auto wanted = classes(x);
  int right = 0;
  for (gr::index_t i = 0; i < batch_size; ++i) right += best(i) == wanted(i);
  CHECK(right >= 26);
}

TEST_CASE_FIXTURE(fixture, "accumulating over batches gives the gradient of the whole") {
  classifier<X> net;
  net.dropout = 0;
  gr::init(net, ctx, gr::he_normal{.seed = 7});
  gr::adamw optimizer{net, {.lr = 1e-3}};
  gr::tape tape{ctx};
  std::vector<gr::tensor<float, gr::shape<batch_size, 64>>> parts{points(0), points(1)};

  // The gradient of the mean over both parts at once.
  const auto whole = gr::concat<0>(parts[0], parts[1]);
  const auto both = gr::concat<0>(classes(parts[0]), classes(parts[1]));
  gr::backward(gr::cross_entropy(net(tape.watch(whole)), both));
  const auto wanted = net.head.weight.gradient();
  gr::visit_params(net, [](auto& p) { p.clear_gradient(); });

  // [accumulate]
  for (const auto& x : parts) {  // 2 parts of a batch
    auto loss = gr::cross_entropy(net(tape.watch(x)), classes(x));
    gr::backward(loss, 1.0f / 2);  // the gradient of half the loss is added
  }
  // [/accumulate]
  const auto found = net.head.weight.gradient();
  for (gr::index_t i = 0; i < found.size; ++i)
    CHECK(found.values()[i] == doctest::Approx(wanted.values()[i]).epsilon(1e-3));
  // [accumulate]
  optimizer.step(ctx);
  // [/accumulate]
  CHECK_FALSE(net.head.weight.gradient());
}

TEST_CASE_FIXTURE(fixture,
                  "sums over unequal numbers of targets, divided by the number of all, give the whole's gradient") {
  classifier<X> net;
  net.dropout = 0;
  gr::init(net, ctx, gr::he_normal{.seed = 7});
  gr::tape tape{ctx};
  std::vector<gr::tensor<float, gr::shape<batch_size, 64>>> parts{points(0), points(1)};
  std::vector<decltype(classes(parts[0]))> labels{classes(parts[0]), classes(parts[1])};
  for (gr::index_t i = 0; i + 2 < batch_size; ++i) labels[1].values()[i] = -1;
  gr::backward(
      gr::cross_entropy(net(tape.watch(gr::concat<0>(parts[0], parts[1]))), gr::concat<0>(labels[0], labels[1])));
  const auto wanted = net.head.weight.gradient();
  gr::visit_params(net, [](auto& p) { p.clear_gradient(); });

  // [accumulate_unequal]
  auto all = gr::count_targets(labels[0]) + gr::count_targets(labels[1]);  // targets of -1 do not count
  for (std::size_t i = 0; i < 2; ++i) {
    auto logits = net(tape.watch(parts[i]));
    gr::backward(gr::cross_entropy<gr::reduction::sum>(logits, labels[i]) / all);
  }
  // [/accumulate_unequal]
  const auto found = net.head.weight.gradient();
  for (gr::index_t i = 0; i < found.size; ++i)
    CHECK(found.values()[i] == doctest::Approx(wanted.values()[i]).epsilon(1e-3));
}

TEST_CASE_FIXTURE(fixture, "dropout is on where values are traced") {
  // [dropout]
  gr::tape tape{ctx, 7};
  auto x = gr::ones<float, gr::shape<1000>>(ctx);
  auto in_training = gr::dropout(tape.watch(x), 0.25);  // about 250 zeros, the others 1 / 0.75
  auto in_use = gr::dropout(x, 0.25);                   // x itself
  // [/dropout]
  CHECK(std::abs(std::ranges::count(in_training.value().values(), 0.0f) - 250) < 60);
  CHECK(gr::item(gr::sum(in_use)) == 1000);

  const auto first = gr::to_host(in_training.value());
  tape.clear();
  // [redraw]
  tape.set_random(7, 0);  // seed and step: the same draws again
  // [/redraw]
  CHECK(gr::to_host(gr::dropout(tape.watch(x), 0.25).value()) == first);
}

TEST_CASE_FIXTURE(fixture, "gradients of inputs, and of chosen values") {
  classifier<X> net;
  net.dropout = 0;
  gr::init(net, ctx, gr::he_normal{.seed = 7});
  gr::tape tape{ctx};
  const auto picture = points(0);
  const auto labels = classes(picture);

  // [input]
  auto x = tape.variable(picture);  // variable: its gradient is wanted
  auto loss = gr::cross_entropy(net(x), labels);
  gr::backward(loss);
  auto saliency = gr::abs(x.gradient());  // readable until the tape is used again
  // [/input]
  CHECK(gr::item(gr::sum(saliency)) > 0);
  gr::visit_params(net, [](auto& p) { p.clear_gradient(); });

  // [gradients]
  auto y = tape.variable(picture);
  auto [dw, dy] = gr::gradients(gr::cross_entropy(net(y), labels), net.head.weight, y);
  // [/gradients]
  CHECK(gr::to_host(dy) == gr::to_host(x.value() * 0.0 + dy));
  CHECK(dw.size == 64);
  CHECK_FALSE(net.head.weight.gradient());  // it stayed as it was
  CHECK(net.head.bias.gradient());          // it was not named, so it accumulated
  gr::visit_params(net, [](auto& p) { p.clear_gradient(); });

  // [frozen]
  auto h = gr::linear(tape.watch(picture), net.input.weight.value(), net.input.bias.value());  // constants
  auto logits = gr::linear(h, net.head.weight, net.head.bias);                                 // trained
  gr::backward(gr::cross_entropy(logits, labels));
  // [/frozen]
  CHECK_FALSE(net.input.weight.gradient());
  CHECK(net.head.weight.gradient());

  gr::param<gr::on<gr::cpu>> scale;
  scale.set(gr::full<float, gr::shape<>>(ctx, 2));
  // [watch]
  auto scaled = [&](const auto& u) {
    auto s = gr::watch(scale, u);
    return u * gr::exp(s);  // gr::exp(scale) alone would not be recorded
  };
  // [/watch]
  gr::backward(gr::sum(scaled(tape.watch(gr::full<float, gr::shape<3>>(ctx, 5)))));
  CHECK(gr::item(scale.gradient()) == doctest::Approx(15 * std::exp(2.0)));
}

// [functor]
struct swish {
  double beta;
  template <class T>
  GRADUS_HD auto operator()(const T& x) const {
    using gr::math::exp;
    return x / (T(1) + exp(-T(beta) * x));
  }
};
// [/functor]

// [custom]
/// The value of x, with a gradient that is turned round on its way back (Ganin and Lempitsky 2015).
auto reverse_gradient(const auto& x, double strength) {
  return gr::custom_op(
      [](const auto& v) { return v; },
      [strength](const auto& gradient, const auto& /*output*/, const auto& /*v*/) { return -strength * gradient; }, x);
}
// [/custom]

TEST_CASE_FIXTURE(fixture, "operations of one's own") {
  gr::tape tape{ctx};
  const auto values = gr::from_values<float, gr::shape<3>>(ctx, {-1, 0, 2});
  auto x = tape.variable(values);
  // [map]
  auto y = gr::map(swish{1.5}, x);  // recorded, fused into one pass, differentiable
  // [/map]
  gr::backward(gr::sum(y));
  CHECK(x.gradient()(1) == doctest::Approx(0.5));

  auto z = tape.variable(values);
  gr::backward(gr::sum(reverse_gradient(z, 0.1)));
  CHECK(z.gradient()(2) == doctest::Approx(-0.1));

  // [gradcheck]
  auto at = gr::uniform<double, gr::shape<2, 3>>(ctx, {.seed = 1}, -2, 2);
  gr::gradcheck_result result = gr::gradcheck([](const auto& v) { return gr::map(swish{1.5}, v); }, at);
  CHECK_MESSAGE(result.ok, result.message);
  // [/gradcheck]
}

TEST_CASE_FIXTURE(fixture, "a model goes to a file and comes back") {
  const auto path = std::filesystem::temp_directory_path() /
                    ("gradus_docs_" + std::to_string(std::random_device{}()) + ".safetensors");
  classifier<X> net, loaded;
  gr::init(net, ctx, gr::he_normal{.seed = 7});
  // [save]
  gr::save(net, path);
  // [/save]
  // [load]
  gr::load(loaded, ctx, path);
  // [/load]
  std::filesystem::remove(path);
  const auto x = points(0);
  CHECK(gr::to_host(net(x)) == gr::to_host(loaded(x)));
}

TEST_CASE_FIXTURE(fixture, "a state follows the batches, and inference reads it") {
  batch_norm<X> norm;
  gr::init(norm, ctx, gr::he_normal{});
  gr::tape tape{ctx};
  const auto x = gr::normal<float, gr::shape<64, 32>>(ctx, {.seed = 1}, 2, 3);
  for (int i = 0; i < 60; ++i) gr::backward(gr::sum(norm(tape.watch(x))));
  const auto y = norm(x), of_batch = norm(tape.watch(x)).value();
  for (gr::index_t i = 0; i < y.size; ++i) CHECK(y.data()[i] == doctest::Approx(of_batch.data()[i]).epsilon(0.02));
}

TEST_CASE_FIXTURE(fixture, "parts of a model are frozen") {
  classifier<X> net;
  gr::init(net, ctx, gr::he_normal{.seed = 7});
  // [freeze]
  gr::freeze(net.input);             // a part of the model, or one parameter
  gr::freeze(net, "blocks.*.bias");  // by name; * stands for anything. Returns how many
  gr::freeze(net, [](std::string_view name) { return name.starts_with("blocks.0."); });
  gr::unfreeze(net, "blocks.0.*");
  // [/freeze]
  CHECK(net.input.gain.is_frozen());
  CHECK_FALSE(net.blocks[0].up.weight.is_frozen());
}

namespace {
template <class Place>
struct net_of {
  gr::nn::linear<Place, 6, 5> hidden;
  gr::nn::linear<Place, 5, 4> output;
  GRADUS_MEMBERS(hidden, output)
};
}  // namespace

TEST_CASE_FIXTURE(fixture, "a model has adapters in place of trained weights") {
  // [adapters]
  net_of<gr::nn::adapted<gr::cpu, gr::bf16_mixed, 8>> tuned;  // adapters of rank 8
  gr::nn::add_adapters(tuned, [](std::string_view layer) { return layer != "output"; }, {.alpha = 16});
  gr::init(tuned, ctx, gr::normal_init{});
  gr::adamw optimizer{tuned, {.lr = 2e-4}};
  // [/adapters]
  CHECK(optimizer.parameters().total_size() == 8 * (6 + 5));
}

TEST_CASE_FIXTURE(fixture, "a model is copied, and loaded in part") {
  const auto path = std::filesystem::temp_directory_path() /
                    ("gradus_docs_" + std::to_string(std::random_device{}()) + ".safetensors");
  classifier<X> net, other;
  larger_classifier<X> larger;
  gr::init(net, ctx, gr::he_normal{.seed = 7});
  gr::init(other, ctx, gr::he_normal{.seed = 8});
  gr::init(larger, ctx, gr::he_normal{.seed = 9});
  // [copy]
  gr::copy(net, other);  // of the same names and shapes; element types and devices may differ
  // [/copy]
  const auto x = points(0);
  CHECK(gr::to_host(net(x)) == gr::to_host(other(x)));
  gr::save(net, path);
  // [partial]
  const gr::load_report report = gr::load(larger, ctx, path, {.strict = false});
  std::printf("%s", report.to_string().c_str());  // loaded: ..., missing in the file: ..., one line each
  // [/partial]
  std::filesystem::remove(path);
  CHECK(report.missing == std::vector<std::string>{"more"});
  CHECK(report.other_shape == std::vector<std::string>{"head.weight", "head.bias"});
  CHECK(gr::to_host(larger.input.weight.value()) == gr::to_host(net.input.weight.value()));
}

TEST_CASE_FIXTURE(fixture, "a run goes to a file and goes on") {
  const auto path = std::filesystem::temp_directory_path() /
                    ("gradus_docs_" + std::to_string(std::random_device{}()) + ".safetensors");
  const auto x = points(0);
  std::vector<float> saved;
  {
    classifier<X> net;
    gr::init(net, ctx, gr::he_normal{.seed = 7});
    gr::adamw optimizer(net);
    const int step = 120;
    // [checkpoint]
    gr::run_metadata metadata;
    metadata.set("step", step);
    gr::write_checkpoint(path, ctx, net, optimizer, metadata);
    // [/checkpoint]
    saved = gr::to_host(net(x));
  }
  classifier<X> net;
  gr::init(net, ctx, gr::he_normal{.seed = 8});
  gr::adamw optimizer(net);
  gr::tape tape{ctx};
  // [resume]
  const gr::run_metadata metadata = gr::read_checkpoint(path, ctx, net, optimizer);
  const auto step = metadata.number<std::uint32_t>("step");
  tape.set_random(42, step);  // dropout draws as it would have
  // [/resume]
  std::filesystem::remove(path);
  CHECK(step == 120);
  CHECK(gr::to_host(net(x)) == saved);
}

TEST_CASE_FIXTURE(fixture, "an LSTM learns a text in windows, and writes one character at a time") {
  const std::vector<std::uint8_t> text = [] {
    std::vector<std::uint8_t> cycle(8 * 16 * 12 + 1);
    for (std::size_t i = 0; i < cycle.size(); ++i) cycle[i] = static_cast<std::uint8_t>(i % 7);
    return cycle;
  }();
  character_lstm<X> net;
  gr::init(net, ctx, gr::xavier_normal{.seed = 7});
  gr::adamw optimizer{net, {.lr = 1e-2}};
  gr::tape tape{ctx};
  float last = 0;
  using ids = gr::shape<8, 16>;
  // Eight texts side by side: window number w of each, moved by `ahead` characters.
  const auto window = [&](std::size_t w, std::size_t ahead) {
    std::vector<std::uint8_t> at;
    for (std::size_t b = 0; b < 8; ++b)
      for (std::size_t t = 0; t < 16; ++t) at.push_back(text[b * 16 * 12 + w * 16 + t + ahead]);
    return gr::from_values<std::uint8_t, ids>(ctx, at);
  };
  for (int epoch = 0; epoch < 8; ++epoch) {
    // [truncated]
    auto state = net.lstm.zero_state<8>(ctx);
    for (std::size_t w = 0; w < 12; ++w) {
      const auto [logits, next] = net(tape.watch(window(w, 0)), state);
      auto loss = gr::cross_entropy(logits, window(w, 1));
      state = gr::detach(next);  // the next window continues from here, without gradients into this one
      gr::backward(loss);
      optimizer.step(ctx);
      last = gr::item(loss.value());
    }
    // [/truncated]
  }
  CHECK(last < 0.1f);
  std::vector<int> written;
  // [write]
  auto state = net.lstm.zero_state<1>(ctx);
  auto id = gr::from_values<std::int32_t, gr::shape<1, 1>>(ctx, {0});
  for (int i = 0; i < 10; ++i) {
    auto [logits, next] = net(id, state);
    id = gr::cast<std::int32_t>(gr::argmax<-1>(logits));
    written.push_back(gr::item(id));
    state = std::move(next);
  }
  // [/write]
  CHECK(written == std::vector<int>{1, 2, 3, 4, 5, 6, 0, 1, 2, 3});
}

TEST_CASE_FIXTURE(fixture, "a mixture of experts has an auxiliary loss, and counts the tokens of each expert") {
  sparse_gpt<X> net;
  gr::init(net, ctx, gr::normal_init{.seed = 7});
  gr::tape tape{ctx};
  const auto [y, loss] = net(tape.watch(gr::normal<float, gr::shape<2, 9, 32>>(ctx, {.seed = 1})));
  gr::backward(gr::mean(y * y) + loss);
  for (const auto& block : net.blocks) {
    CHECK(gr::item(gr::sum(gr::cast<float>(block.mixture.load.value()))) == 36);
    CHECK(block.mixture.router.gradient());
  }
}
