#pragma once
// One GPT in training: the step that train.cpp runs, written for any device. On the CPU it trains; on gradus::meta the very
// same code computes nothing and says, to the byte, what it would hold.

#include <cstdint>

#include "model.hpp"

namespace gpt {

/// What a run chooses about its steps.
struct step_options {
  double dropout = 0;
  double clip = 1;     ///< largest gradient norm; 0: no limit
  int accumulate = 1;  ///< batches a step
  std::uint64_t seed = 1;
  gr::adamw_options adamw = {};
  gr::region_schedule regions = {};  ///< which parts of the blocks are computed again at backward
};

/// @tparam D     device
/// @tparam C     sizes of the model
/// @tparam Batch sequences at once
/// @tparam Token integers that the ids come in
template <class D, config C, gr::index Batch, class Token = std::uint8_t>
class training {
 public:
  using ids = gr::shape<Batch, C.context>;

  model<gr::on<D>, C> net;
  gr::adamw<float, D> optimizer;

  /// Parameters and optimizer state stay in `persistent`; what a step needs comes from `transient` and goes back.
  constexpr training(gr::context<D>& persistent, gr::context<D>& transient, const step_options& o)
      : optimizer(net, o.adamw), persistent_(persistent), transient_(transient), tape_(transient, o.seed), options_(o) {
    net.dropout = o.dropout;
    net.regions = o.regions;
    gr::init(net, persistent, gr::normal_init{.seed = o.seed, .stddev = 0.02});
  }

  /// Forward and backward of one batch; gradients gather. Returns its loss in nats a token.
  constexpr float add_batch(const Token* inputs, const Token* targets) {
    const auto loss = net.loss(tape_.watch(upload(inputs)), upload(targets));
    const float value = gr::item(loss.value());
    gr::backward(loss, 1.0f / static_cast<float>(options_.accumulate));
    return value;
  }
  /// Clips the gathered gradients and takes the optimizer's step.
  constexpr void update() {
    if (options_.clip > 0) optimizer.clip(transient_, options_.clip);
    optimizer.step(persistent_);
  }
  /// Forgets a step that an exception cut short; the next one starts afresh, with the same parameters.
  constexpr void abandon() {
    tape_.clear();
    optimizer.clear_gradients();
  }
  /// Loss of a batch with nothing recorded.
  constexpr float evaluate(const Token* inputs, const Token* targets) {
    return gr::item(net.loss(upload(inputs), upload(targets)));
  }

  /// Logits of one sequence, with nothing recorded.
  constexpr auto logits(const Token* inputs) {
    return net(gr::from_host<Token, gr::shape<1, C.context>>(transient_, inputs, gr::category::input));
  }

  /// A whole step on no data, for plans.
  constexpr void step() {
    for (int i = 0; i < options_.accumulate; ++i) add_batch(nullptr, nullptr);
    update();
  }

 private:
  constexpr auto upload(const Token* tokens) const {
    return gr::from_host<Token, ids>(transient_, tokens, gr::category::input);
  }

  gr::context<D>& persistent_;
  gr::context<D>& transient_;
  gr::tape<D> tape_;
  step_options options_;
};

}  // namespace gpt
