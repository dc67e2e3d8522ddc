#pragma once
// One GPT in training: the step that train.cpp runs, written for any device. On the CPU it trains; on gradus::meta the very
// same code computes nothing and says, to the byte, what it would hold.

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

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
/// @tparam P     precision policy
template <class D, config C, gr::index Batch, class Token = std::uint8_t, class P = gr::fp32>
class training {
 public:
  using ids = gr::shape<Batch, C.context>;
  using network = model<gr::on<D, P>, C>;

  /// What the loss is multiplied by before backward, and the gradients are divided by afterwards. The least positive number of f16
  /// is 6e-8, and many gradients are below it.
  static constexpr double loss_scale = std::is_same_v<typename P::compute, gr::f16> ? 1024 : 1;

  network net;
  decltype(gr::adamw(std::declval<network&>(), gr::adamw_options{})) optimizer;

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
    const auto value = static_cast<float>(gr::item(loss.value()));
    gr::backward(loss, static_cast<float>(loss_scale / options_.accumulate));
    return value;
  }
  /// Clips the gathered gradients and takes the optimizer's step. A step whose gradients overflowed because of the scale is
  /// skipped; then this returns false.
  constexpr bool update() {
    if constexpr (loss_scale != 1) optimizer.scale_gradients(1 / loss_scale);
    if (options_.clip > 0 || loss_scale != 1) {
      const double norm =
          optimizer.clip(transient_, options_.clip > 0 ? options_.clip : std::numeric_limits<double>::infinity());
      if (loss_scale != 1 && !std::isfinite(norm)) {
        optimizer.clear_gradients();
        return false;
      }
    }
    optimizer.step(persistent_);
    return true;
  }
  /// Forgets a step that an exception cut short; the next one starts afresh, with the same parameters.
  constexpr void abandon() {
    tape_.clear();
    optimizer.clear_gradients();
  }
  /// Loss of a batch with nothing recorded.
  constexpr float evaluate(const Token* inputs, const Token* targets) {
    return static_cast<float>(gr::item(net.loss(upload(inputs), upload(targets))));
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
