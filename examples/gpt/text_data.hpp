#pragma once
// A run's text, as batches of tokens, and what tells the run from others.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <gradus/data/batches.hpp>
#include <gradus/data/dataset.hpp>
#include <gradus/run/run.hpp>

#include "config.hpp"
#include "example_data.hpp"
#include "memory.hpp"
#include "options.hpp"

namespace gpt {

inline constexpr std::size_t a_validation = 8192, last_validation = 32768;  ///< tokens

/// The run's tokens.
class text_data {
 public:
  using windows = gr::token_windows<token, sizes.context>;
  static constexpr std::size_t batch_tokens = batch_size * sizes.context;

  explicit text_data(gr::dataset opened) : files(std::move(opened)) {}

  bool bytes() const { return files.bytes(); }
  const gr::tokenizer* tokenizer() const { return files.tokenizer(); }
  const std::string& identity() const { return identity_; }
  /// "1.20 MB of text", "0.35M tokens"
  std::string size_text() const {
    return line("%.2f%s", static_cast<double>(files.tokens()) / 1e6, bytes() ? " MB of text" : "M tokens");
  }
  /// What to say of the files; see example_data.
  static std::vector<std::string> notes() { return {}; }
  static constexpr double positions_a_batch() { return static_cast<double>(batch_tokens); }

  gr::dataset files;
  windows train{files.train(), sizes.vocabulary}, validation{files.validation(), sizes.vocabulary};
  std::string identity_ = std::to_string(train.tokens()) + " + " + std::to_string(validation.tokens()) +
                          " tokens, FNV-1a " + std::to_string(files.fingerprint());

  /// Micro-batch `number` of the run; any thread may make it.
  auto batch(const options& o, std::uint64_t number) const {
    if (o.order == "shuffled") return train.shuffled_batch<batch_size>(o.seed, number);
    const auto each = static_cast<std::uint64_t>(o.accumulate);
    return train.random_batch<batch_size>(o.seed, static_cast<std::uint32_t>(number / each),
                                          static_cast<std::uint32_t>(number % each));
  }
  /// All positions of a micro-batch predict something.
  static constexpr double share(std::uint64_t) { return 1; }
  static constexpr double share_of(const auto&) { return 1; }
  /// The number of batches that hold about `tokens` validation tokens, or all if there are fewer.
  std::size_t validation_batches(std::size_t tokens) const {
    return std::max<std::size_t>(std::min(tokens, validation.tokens()) / batch_tokens, 1);
  }
  auto validation_batch(std::size_t part, std::size_t of) const {
    return validation.spread_batch<batch_size>(part, of);
  }
  /// Bytes of text a token of those batches stands for; 0: unknown.
  double bytes_a_token(std::size_t tokens) const;
  /// Warns, once, that a file is not any more the one that was opened.
  void warn_if_replaced(gr::run& run) {
    const std::string replaced = warned_ || !run.leads() ? "" : files.replaced_files();
    if (replaced.empty()) return;
    run.warn(replaced +
             ": rewritten, replaced or removed since it was opened; the run continues with what it opened, and can be "
             "resumed with nothing else");
    warned_ = true;
  }
  /// Whether the model's tokens can be shown as text.
  bool readable() const { return bytes() || tokenizer() != nullptr; }
  static constexpr const gr::chat_format* chat_format() { return nullptr; }

 private:
  bool warned_ = false;
};

/// What a run trains on.
using run_data = std::conditional_t<packed, example_data, text_data>;

/// What must be the same when a run is resumed.
gr::run_metadata identity_of(const options& o, const run_data& data);
/// What the ranks of a run must have in common: its identity, and flags that change what is computed.
gr::config_entries shared_settings(const options& o, const gr::run_metadata& identity);

/// Adds the load of experts, by block, to a report.
void add_load(const std::vector<std::vector<double>>& load, gr::validation& to);

/// The mean loss of about `tokens` tokens, in windows spread evenly over the validation data, which ranks divide;
/// nothing if the run was asked to end.
template <class Trainer, class Memory>
std::optional<gr::validation> validate(Trainer& t, Memory& memory, run_data& data, std::size_t tokens, gr::run& run) {
  data.warn_if_replaced(run);
  const std::size_t batches = data.validation_batches(tokens);
  memory.use(evaluation_plan);
  const auto loss = run.mean(batches, [&](std::size_t i) {
    const auto batch = data.validation_batch(i, batches);
    const double share = run_data::share_of(batch), one = t.evaluate(batch);
    return std::array{one * share, share, one < std::log(2.0) ? share : 0};
  });
  memory.use(training_plan);
  if (!loss) return std::nullopt;
  const auto& [sum, all, preferred] = *loss;
  gr::validation found{.loss = sum / all};
  if (preferences) found.note = line("the better answer is preferred in %.0f %%", 100 * preferred / all);
  else if (packed) found.note = line("perplexity %.3f", std::exp(found.loss));
  if (const double bytes = data.bytes_a_token(tokens); bytes > 0)
    found.bits_per_byte = found.loss / bytes / std::log(2.0);
  if constexpr (requires { t.net.expert_load(); }) add_load(t.net.expert_load(), found);
  return found;
}

}  // namespace gpt
