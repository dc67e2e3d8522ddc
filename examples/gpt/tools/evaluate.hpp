#pragma once
// The loss of a model on a whole text.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "../architecture.hpp"

namespace gpt {

/// The result of evaluate().
struct evaluation {
  std::size_t predicted = 0;  ///< tokens: all of the text but the first
  double nats = 0;            ///< of all of them together

  double loss() const { return nats / static_cast<double>(predicted); }
  double perplexity() const { return std::exp(loss()); }
};

/// The loss of predicting every token of a text but the first from those before it, in windows of the model's context
/// end to end: the first token of a window sees nothing but itself. `Batch` windows are computed at a time. Throws
/// gradus::error for a text of fewer than two tokens, for a token outside the vocabulary, and for a loss that is not
/// finite.
template <gr::index_t Batch, class Net>
evaluation evaluate(const Net& net, gr::context<gr::cpu>& ctx, std::span<const std::int32_t> text) {
  using window = gr::shape<Batch, Net::context>;
  if (text.size() < 2)
    throw gr::error("evaluate: a text must have two tokens at least, not " + std::to_string(text.size()));
  evaluation found;
  std::array<std::int32_t, window::size> ids{}, targets{};
  for (std::size_t at = 0; at + 1 < text.size();) {
    const std::size_t count = std::min<std::size_t>(window::size, text.size() - 1 - at);
    ids.fill(0);
    targets.fill(-1);  // which counts for nothing
    std::ranges::copy(text.subspan(at, count), ids.begin());
    std::ranges::copy(text.subspan(at + 1, count), targets.begin());
    const auto mean = net.loss(gr::from_host<std::int32_t, window>(ctx, ids.data(), gr::category::input),
                               gr::from_host<std::int32_t, window>(ctx, targets.data(), gr::category::input));
    found.nats += static_cast<double>(gr::item(mean)) * static_cast<double>(count);
    if (!std::isfinite(found.nats))
      throw gr::error("the loss is not finite: the model's parameters are damaged, or its training diverged");
    found.predicted += count;
    at += count;
  }
  return found;
}

}  // namespace gpt
