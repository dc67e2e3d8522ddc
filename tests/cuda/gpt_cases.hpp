#pragma once
// The GPT of examples/gpt, as it is, trained for some steps.
#include <cstdlib>
#include <gradus/memory/memory_plan.hpp>
#include <gradus/optim/adamw.hpp>
#include <gradus/optim/loss_scaler.hpp>

#include "../../examples/gpt/model.hpp"
#include "cases.hpp"

inline constexpr gpt::config small_gpt{.layers = 2, .heads = 3, .width = 48, .context = 32, .vocabulary = 61};

/// A step of two small batches of a model of sizes C, with dropout and clipping. What lives from step to step is from
/// one context, the rest from another.
template <class P, class D, auto C = small_gpt>
struct gpt_training {
  using device = D;
  static constexpr gr::index_t batches = 2;
  using ids = gr::shape<2, C.context>;
  using tokens = gr::tensor<std::uint16_t, ids, D>;

  gpt::model_of<gr::on<D, P>, C> net;
  gr::context<D>& kept;
  gr::context<D>& freed;
  gr::adamw<float, D> optimizer;
  gr::loss_scaler<D> scaler;
  gr::tape<D> tape;
  tokens inputs[batches], targets[batches];
  gr::tensor<float, gr::shape<batches>, D> losses;
  gr::tensor<double, gr::shape<>, D> norm;

  constexpr gpt_training(gr::context<D>& persistent, gr::context<D>& transient, bool recompute = false)
      : kept(persistent),
        freed(transient),
        optimizer(net, {.lr = 3e-3, .weight_decay = 0.1}),
        scaler(persistent),
        tape(transient, 17),
        losses(gr::zeros<float, gr::shape<batches>>(persistent)) {
    net.dropout = 0.1;
    if (recompute) net.regions = gr::region_schedule::every_block(C.layers);
    gr::init(net, kept, gr::normal_init{.seed = 5, .stddev = 0.08});
    for (gr::index_t b = 0; b < batches; ++b) {
      inputs[b] = gr::zeros<std::uint16_t, ids>(kept, gr::category::input);
      targets[b] = gr::zeros<std::uint16_t, ids>(kept, gr::category::input);
    }
  }
  /// Tokens that mostly follow from the one before.
  void load(runner<D>& r) {
    for (gr::index_t b = 0; b < batches; ++b) {
      const auto drawn = r.template random<float>(ids::size + 1, 0, 1);
      std::vector<std::uint16_t> text(ids::size + 1);
      for (std::size_t i = 1; i < text.size(); ++i)
        text[i] = static_cast<std::uint16_t>(drawn[i] < 0.1f ? drawn[i] * 600
                                                             : static_cast<float>((text[i - 1] * 5 + 3) % 61));
      inputs[b] = gr::from_host<std::uint16_t, ids>(kept, text.data(), gr::category::input);
      targets[b] = gr::from_host<std::uint16_t, ids>(kept, text.data() + 1, gr::category::input);
    }
  }
  constexpr void step() {
    constexpr bool scaled = std::is_same_v<P, gr::fp16_mixed>;
    constexpr float share = 1.0f / batches;
    for (gr::index_t b = 0; b < batches; ++b) {
      auto loss = net.loss(tape.watch(inputs[b]), targets[b]);
      if constexpr (D::computes)
        gr::device_access<D>::copy(freed, losses.data() + b, std::as_const(loss.value()).data(), sizeof(float));
      if constexpr (scaled) gr::backward(scaler.scale(loss), share);
      else gr::backward(loss, share);
    }
    if constexpr (scaled) optimizer.unscale(scaler);
    static_cast<void>(optimizer.clip(freed, 1.0));
    optimizer.step(kept);
    if constexpr (scaled) scaler.update(kept);
  }
};

/// As many as GRADUS_TEST_GPT_STEPS says.
inline int gpt_steps() {
  const char* const asked = std::getenv("GRADUS_TEST_GPT_STEPS");
  return asked == nullptr ? 4 : std::atoi(asked);
}

template <class P, auto C = small_gpt, class D>
void gpt_case(runner<D>& r, const std::string& name, double tolerance) {
  gpt_training<P, D, C> training(r.ctx(), r.ctx());
  for (int step = 0; step < gpt_steps(); ++step) {
    training.load(r);
    training.step();
    r.keep(name + ": losses of step " + std::to_string(step), gr::to_host(training.losses), tolerance);
  }
  r.keep(name + ": token table", gr::to_host(training.net.tokens.weight.value()), 30 * tolerance);
  r.keep(name + ": scale", gr::to_host(training.scaler.value()), 1e-9);
}

template <class D>
void gpt_cases(runner<D>& r) {
  gpt_case<gr::fp32>(r, "fp32", 2.5e-5);
  gpt_case<gr::bf16_mixed>(r, "bf16_mixed", 1e-2);
  gpt_case<gr::bf16_stream>(r, "bf16_stream", 1e-2);
  gpt_case<gr::fp16_mixed>(r, "fp16_mixed", 1e-2);
}

// Computed in the .cpp file.
std::vector<record> gpt_on_cpu(unsigned seed);
/// Memory of a step in bf16_mixed, as it is planned.
gr::memory_plan plan_of_gpt(bool recompute);
