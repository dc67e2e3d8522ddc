// Lesson 12: a GPT in one file. It reads a text as bytes, learns to predict the next one, and writes. The text is this
// file; name another: 12_gpt book.txt

#include <array>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <gradus/generate/token_window.hpp>
#include <gradus/gradus.hpp>
#include <gradus/io/text_file.hpp>

namespace gr = gradus;

// Radford et al. 2019 (GPT-2). Every shape is part of a type: a product of sizes that do not fit does not compile.
template <class X>
struct gpt {
  using device = typename X::device;
  static constexpr gr::index_t layers = 2, heads = 4, width = 64, context = 64, vocabulary = 256;  // a token is a byte
  template <gr::index_t Texts>
  using cache = gr::nn::key_value_cache<X, layers, Texts, heads, context, width / heads>;

  gr::nn::embedding<X, vocabulary, width> tokens;
  gr::param<X, context, width> positions;
  std::array<gr::nn::block<X, width, heads, layers>, layers> blocks;
  gr::nn::layer_norm<X, width> norm;
  GRADUS_MEMBERS(tokens, positions, blocks, norm)

  // [..., width] -> logits [..., 256]: the token table is the head, too.
  auto head(const auto& x) const { return gr::matmul<gr::transpose{.b = true}>(x, tokens.weight); }

  // Training, [B, 64] -> [B, 64, width].
  auto hidden(const auto& ids) const {
    auto x = tokens(ids) + positions;
    for (const auto& block : blocks) x = block(std::move(x));
    return norm(std::move(x));
  }
  // Writing: the same for a few tokens that follow those in the cache.
  template <class Ids, class Cache>
  auto hidden(const Ids& ids, Cache& past, gr::index_t count) const {
    auto x = tokens(ids) + gr::embedding(past.template positions<Ids::shape::extent(1)>(), positions);
    for (gr::index_t i = 0; i < layers; ++i) x = blocks[i](std::move(x), past.layer(i, count));
    past.advance(count);
    return norm(std::move(x));
  }
};
using language_model = gpt<gr::on<gr::cpu, gr::fp32>>;  // gr::bf16_mixed: products in 16 bits

// Batch `number`: windows at random places, and as targets the byte after each byte.
struct windows {
  static constexpr gr::index_t batch = 16;
  std::array<std::uint8_t, batch * language_model::context> inputs, targets;

  windows(const std::string& text, std::uint32_t number) {
    for (gr::index_t row = 0; row < batch; ++row) {
      const std::size_t at = gr::random_key{1, number}.words(row)[0] % (text.size() - language_model::context);
      for (gr::index_t t = 0; t < language_model::context; ++t) {
        inputs[row * language_model::context + t] = static_cast<std::uint8_t>(text[at + t]);
        targets[row * language_model::context + t] = static_cast<std::uint8_t>(text[at + t + 1]);
      }
    }
  }
};

int main(int argc, char** argv) {
  using ids = gr::shape<windows::batch, language_model::context>;
  constexpr int steps = 300;
  const std::string text = gr::read_text(argc > 1 ? argv[1] : __FILE__);
  gr::stream stream;
  gr::host_resource heap;
  gr::pool_resource pool(heap);
  gr::context ctx{stream, pool};

  language_model net;
  gr::init(net, ctx, gr::normal_init{.seed = 1, .stddev = 0.02});
  gr::adamw optimizer{net, {.weight_decay = 0.1}};
  const gr::warmup_cosine rate{.peak = 3e-3, .low = 3e-4, .warmup = 20, .total = steps};
  gr::tape tape{ctx};
  for (std::uint32_t step = 0; step < steps; ++step) {
    const windows w(text, step);
    const auto inputs = gr::from_host<std::uint8_t, ids>(ctx, w.inputs.data());
    const auto targets = gr::from_host<std::uint8_t, ids>(ctx, w.targets.data());
    auto loss = gr::linear_cross_entropy<language_model::vocabulary>(net.hidden(tape.watch(inputs)), net.tokens.weight,
                                                                     targets);
    if (step % 50 == 0 || step + 1 == steps) std::printf("step %3u  loss %.3f\n", step, gr::item(loss.value()));
    gr::backward(loss);
    optimizer.clip(ctx, 1.0);
    optimizer.options.lr = rate(step);
    optimizer.step(ctx);
  }

  gr::token_window<language_model> window(net, ctx);
  gr::generate(window, gr::text_tokenizer(), text.substr(0, 20), 200, {.rule = {.temperature = 0.5}},
               [](auto bytes) { return std::fwrite(bytes.data(), 1, bytes.size(), stdout) == bytes.size(); });
  std::printf("\n");
  return 0;
}
