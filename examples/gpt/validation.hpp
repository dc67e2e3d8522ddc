#pragma once
// How good a model in training is, on data that it does not learn from.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <string>

#include <gradus/data/batches.hpp>
#include <gradus/data/dataset.hpp>

#include "config.hpp"
#include "training.hpp"

namespace gpt {

using trainer = training<device, sizes, batch_size, token, precision, optimizer>;
using windows = gr::token_windows<token, sizes.context>;

/// The run has failed: its parameters are not worth saving.
struct diverged : gr::error {
  using error::error;
};

/// Throws diverged if a loss says that the parameters are no longer worth saving.
inline void check_finite(const char* what, double loss, long long step) {
  if (!std::isfinite(loss))
    throw diverged(std::string("the ") + what + " is no longer finite at step " + std::to_string(step) +
                   "; try a lower --lr");
}

/// Batches of about so many tokens, and of no more than there are.
inline std::size_t batches_of(const windows& judged, std::size_t tokens) {
  return std::max<std::size_t>(std::min(tokens, judged.tokens()) / trainer::ids::size, 1);
}

/// Mean loss over about `tokens` tokens, or all where there are fewer, in windows spread evenly over the data, with
/// nothing recorded and no dropout. NaN if `stop` says before the end that it is not to go on.
inline double validation_loss(trainer& t, const windows& judged, std::size_t tokens,
                              const std::function<bool()>& stop) {
  const std::size_t batches = batches_of(judged, tokens);
  double sum = 0;
  for (std::size_t part = 0; part < batches; ++part) {
    if (stop()) return std::nan("");
    const auto batch = judged.spread_batch<batch_size>(part, batches);
    sum += static_cast<double>(t.evaluate(batch.inputs.data(), batch.targets.data()));
  }
  return sum / static_cast<double>(batches);
}

/// How many bytes of text a token of those that validation_loss looks at stands for; 0 where nobody knows.
inline double bytes_a_token(const gr::dataset& data, const windows& judged, std::size_t tokens) {
  if (data.bytes()) return 1;
  if (data.tokenizer() == nullptr) return 0;
  const std::size_t batches = batches_of(judged, tokens);
  std::size_t bytes = 0;
  for (std::size_t part = 0; part < batches; ++part)
    for (const token t : judged.spread_batch<batch_size>(part, batches).targets)
      bytes += data.tokenizer()->bytes_of(static_cast<gr::bpe_tokenizer::token>(t)).size();
  return static_cast<double>(bytes) / static_cast<double>(batches * trainer::ids::size);
}

}  // namespace gpt
