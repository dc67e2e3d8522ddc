#pragma once
// Writing text with a model: the next byte is drawn from its probabilities, and so on.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config.hpp"

namespace gpt {

struct sampling {
  double temperature = 0.8;  ///< below 1: likelier choices become likelier still; 0: always the likeliest
  int top_k = 0;             ///< choose among this many; 0: among all
  std::uint64_t seed = 1;
};

/// Draws an id in proportion to exp(logit / temperature) among the top_k largest; `draw` is uniform in [0, 1).
inline std::size_t choose(std::span<const float> logits, const sampling& how, double draw) {
  if (!std::ranges::all_of(logits, [](float x) { return std::isfinite(x); }))
    throw gr::error("the model's logits are not finite: its parameters are damaged, or its training diverged");
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>{}, [&](std::size_t i) { return logits[i]; });
  if (how.temperature == 0) return order.front();
  if (how.top_k > 0 && static_cast<std::size_t>(how.top_k) < order.size())
    order.resize(static_cast<std::size_t>(how.top_k));

  std::vector<double> weights;
  weights.reserve(order.size());
  for (const std::size_t i : order)
    weights.push_back(std::exp(static_cast<double>(logits[i] - logits[order.front()]) / how.temperature));
  double left = draw * std::accumulate(weights.begin(), weights.end(), 0.0);
  for (std::size_t i = 0; i < order.size(); ++i) {
    left -= weights[i];
    if (left < 0) return order[i];
  }
  return order.back();  // rounding
}

/// Writes `count` bytes that follow `prompt`, handing over each as it comes; ends early if `emit` returns false.
/// `logits_of(bytes)` gives the logits [1, context, vocabulary] of a window of bytes: every byte written is a forward pass over
/// the whole context, on plain tensors.
template <class Logits>
void generate(const Logits& logits_of, std::string_view prompt, int count, const sampling& how,
              const std::function<bool(char)>& emit) {
  std::string text(prompt.empty() ? "\n" : prompt);
  for (int i = 0; i < count; ++i) {
    // The last `context` bytes; a shorter text is padded behind, where causal attention does not look.
    const std::size_t known = std::min<std::size_t>(text.size(), sizes.context);
    std::vector<token> window(sizes.context);
    std::transform(text.end() - static_cast<std::ptrdiff_t>(known), text.end(), window.begin(),
                   [](char c) { return static_cast<token>(static_cast<unsigned char>(c)); });
    const auto logits = logits_of(window.data());
    const auto* next = logits.data() + (known - 1) * sizes.padded_vocabulary();
    std::vector<float> row(gr::byte_tokenizer::vocabulary);
    std::transform(next, next + row.size(), row.begin(), [](auto logit) { return static_cast<float>(logit); });
    const gr::random_key key{how.seed, static_cast<std::uint32_t>(i), 0};
    const double draw = gr::uniform_float(key.words(0)[0]);
    text += static_cast<char>(choose(row, how, draw));
    if (!emit(text.back())) return;
  }
}

}  // namespace gpt
