// A Llama beside that of Hugging Face's transformers: logits, greedy text from the cache, and training.
// tests/parity/make_model_fixtures.py made the folders: grouped queries, and Llama 3's scaling of rotary positions.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <vector>

#include <gradus/generate/token_window.hpp>

#include "gpt/training.hpp"
#include "llama/huggingface.hpp"

namespace gr = gradus;
namespace fs = std::filesystem;

namespace {

constexpr gr::index_t context = 48, vocabulary = 67;
template <gr::index_t Tied>
constexpr llama::config sizes{.layers = 2,
                              .heads = 4,
                              .width = 64,
                              .context = context,
                              .vocabulary = vocabulary,
                              .kv_heads = 2,
                              .hidden = 96,
                              .tied = Tied};
fs::path folder_of(gr::index_t tied) { return fs::path(GRADUS_TEST_DATA) / "llama" / (tied == 1 ? "tied" : "untied"); }

template <class Precision, gr::index_t Tied>
struct loaded {
  gr::stream stream;
  gr::host_resource heap;
  gr::context<gr::cpu> ctx{stream, heap};
  llama::model<gr::on<gr::cpu, Precision>, sizes<Tied>> net;
  gr::safetensors_file recorded{folder_of(Tied) / "recorded.safetensors"};

  loaded() { load_huggingface(net, ctx, folder_of(Tied)); }
};

template <class Precision, gr::index_t Tied>
double largest_difference() {
  loaded<Precision, Tied> l;
  const auto tokens = l.recorded.template read<std::int32_t>("tokens");
  const auto wanted = l.recorded.template read<float>("logits");
  const auto found = l.net(gr::from_host<std::int32_t, gr::shape<3, context>>(l.ctx, tokens.data()));
  constexpr gr::index_t columns = sizes<Tied>.padded_vocabulary();
  double worst = 0;
  for (std::size_t row = 0; row < 3 * context; ++row)
    for (std::size_t i = 0; i < vocabulary; ++i)
      worst = std::max(worst, std::abs(static_cast<double>(static_cast<float>(found.data()[row * columns + i])) -
                                       static_cast<double>(wanted[row * vocabulary + i])));
  return worst;
}

template <gr::index_t Tied>
void check_greedy() {
  loaded<gr::fp32, Tied> l;
  const auto wanted = l.recorded.template read<std::int32_t>("greedy");
  gr::token_window window(l.net, l.ctx);
  window.begin(std::vector<std::int32_t>(wanted.begin(), wanted.begin() + 5));
  for (std::size_t i = 5; i < wanted.size(); ++i) {
    const auto logits = window.logits();
    const auto next = static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
    REQUIRE(next == wanted[i]);
    window.add({next});
  }
}

template <gr::index_t Tied>
void check_losses() {
  gr::stream stream;
  gr::host_resource heap;
  gr::context<gr::cpu> ctx{stream, heap};
  gpt::training<gr::cpu, sizes<Tied>, 2> t(ctx, ctx, {.clip = 1, .adamw = {.lr = 1e-3, .weight_decay = 0.1}});
  load_huggingface(t.net, ctx, folder_of(Tied));
  gr::safetensors_file recorded(folder_of(Tied) / "recorded.safetensors");
  const auto batches = recorded.read<std::int32_t>("batches");  // [steps, 2, context + 1]
  const auto losses = recorded.read<float>("losses");
  for (std::size_t step = 0; step < losses.size(); ++step) {
    std::vector<std::uint8_t> inputs, targets;
    for (std::size_t text = 2 * step; text < 2 * step + 2; ++text)
      for (std::size_t i = 0; i < context; ++i) {
        inputs.push_back(static_cast<std::uint8_t>(batches[text * (context + 1) + i]));
        targets.push_back(static_cast<std::uint8_t>(batches[text * (context + 1) + i + 1]));
      }
    CAPTURE(step);
    CHECK(std::abs(t.add_batch(inputs.data(), targets.data()) - losses[step]) < 1e-4f);
    t.update();
  }
}

}  // namespace

TEST_CASE("a Llama has the logits of transformers', with a tied head and with its own") {
  CHECK(largest_difference<gr::fp32, 1>() < 1e-4);
  CHECK(largest_difference<gr::fp32, 0>() < 1e-4);
  CHECK(largest_difference<gr::bf16_mixed, 1>() < 2e-2);
  CHECK(largest_difference<gr::bf16_mixed, 0>() < 2e-2);
}

TEST_CASE("a Llama writes the likeliest text that transformers writes, from the cache") {
  check_greedy<1>();
  check_greedy<0>();
}

TEST_CASE("20 training steps of a Llama have the losses of transformers' and PyTorch's AdamW") {
  check_losses<1>();
  check_losses<0>();
}
