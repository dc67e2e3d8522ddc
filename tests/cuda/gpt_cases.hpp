#pragma once
// The GPT of examples/gpt, as it is, trained for some steps.
#include <gpt/model.hpp>
#include <gradus/optim/adamw.hpp>
#include <gradus/optim/loss_scaler.hpp>

#include "cases.hpp"

inline constexpr gpt::config small_gpt{.layers = 2, .heads = 3, .width = 48, .context = 32, .vocabulary = 61};
inline constexpr gr::index gpt_batch = 3, gpt_micro_batches = 2;

/// Tokens that mostly follow from the one before.
template <class D>
std::vector<std::uint16_t> follow(runner<D>& r, std::size_t n) {
  const auto drawn = r.template random<float>(n, 0, 1);
  std::vector<std::uint16_t> tokens(n);
  for (std::size_t i = 1; i < n; ++i)
    tokens[i] = drawn[i] < 0.1f ? static_cast<std::uint16_t>(drawn[i] * 600)
                                : static_cast<std::uint16_t>((tokens[i - 1] * 5u + 3u) % 61u);
  return tokens;
}

template <class P, class D>
void gpt_case(runner<D>& r, const std::string& name, int steps, double tolerance, bool scaled) {
  auto& ctx = r.ctx();
  using ids = gr::shape<gpt_batch, small_gpt.context>;
  gpt::model<gr::on<D, P>, small_gpt> net;
  net.dropout = 0.1;
  gr::init(net, ctx, gr::normal_init{.seed = 5, .stddev = 0.08});
  gr::adamw optimizer{net, {.lr = 3e-3, .weight_decay = 0.1}};
  gr::loss_scaler scaler{ctx};
  gr::tape tape{ctx, 17};
  for (int step = 0; step < steps; ++step) {
    double loss_of_step = 0;
    for (gr::index micro = 0; micro < gpt_micro_batches; ++micro) {
      const auto text = follow(r, ids::size + 1);
      const auto inputs = gr::from_host<std::uint16_t, ids>(ctx, text.data(), gr::category::input);
      const auto targets = gr::from_host<std::uint16_t, ids>(ctx, text.data() + 1, gr::category::input);
      auto loss = net.loss(tape.watch(inputs), targets);
      loss_of_step += static_cast<double>(gr::item(loss.value())) / gpt_micro_batches;
      constexpr float share = 1.0f / gpt_micro_batches;
      if (scaled) gr::backward(scaler.scale(loss), share);
      else gr::backward(loss, share);
    }
    r.keep(name + ": loss of step " + std::to_string(step), std::vector<double>{loss_of_step}, tolerance);
    if (scaled) optimizer.unscale(scaler);
    const double norm = optimizer.clip(ctx, 1.0);
    r.keep(name + ": norm of step " + std::to_string(step), std::vector<double>{norm}, 20 * tolerance);
    optimizer.step(ctx);
    if (scaled) scaler.update(ctx);
  }
  if (scaled) r.keep(name + ": scale", gr::to_host(scaler.value()), 1e-9);
}

template <class D>
void gpt_cases(runner<D>& r) {
  gpt_case<gr::fp32>(r, "fp32", 20, 2.5e-5, false);
  gpt_case<gr::bf16_mixed>(r, "bf16_mixed", 20, 1e-2, false);
  gpt_case<gr::fp16_mixed>(r, "fp16_mixed", 20, 1e-2, true);
}

// Computed in the .cpp file.
std::vector<record> gpt_on_cpu(unsigned seed);
