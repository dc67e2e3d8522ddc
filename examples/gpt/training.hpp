#pragma once
// One GPT in training: the step that train.cpp runs, written for any device. On the CPU it trains; on gradus::meta the
// very same code computes nothing and says, to the byte, what it would hold.

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "model.hpp"

namespace gpt {

/// What a run chooses about its steps.
struct step_options {
  double dropout = 0;
  double clip = 1;     ///< largest gradient norm; 0: no limit
  int accumulate = 1;  ///< batches a step
  std::uint64_t seed = 1;
  gr::adamw_options adamw = {};      ///< other optimizers take its lr and weight_decay
  gr::region_schedule regions = {};  ///< which parts of the blocks are computed again at backward
};

/// Whether an optimizer leaves some parameters to an AdamW of its own.
template <class Settings>
inline constexpr bool has_adamw_inside = requires(Settings s) { s.adamw; };

/// The highest learning rate that a run with an optimizer of these settings has unless told otherwise.
template <class Settings>
constexpr double usual_rate() {
  return Settings{}.lr > 0 ? Settings{}.lr : 1e-2;
}
/// Sets the rate of a step; that of an AdamW inside keeps its proportion.
template <class Settings>
constexpr void set_rate(Settings& s, double lr) {
  s.lr = lr;
  if constexpr (has_adamw_inside<Settings>) s.adamw.lr = lr * (Settings{}.adamw.lr / Settings{}.lr);
}
/// Settings of a run's optimizer.
template <class Settings>
constexpr Settings settings_of(const step_options& o) {
  if constexpr (std::is_same_v<Settings, gr::adamw_options>) {
    return o.adamw;
  } else {
    Settings s;
    set_rate(s, o.adamw.lr);
    s.weight_decay = o.adamw.weight_decay;
    if constexpr (requires { s.momentum; })
      if (s.momentum == 0) s.momentum = 0.9;
    return s;
  }
}

/// @tparam D     device
/// @tparam C     sizes of the model
/// @tparam Batch sequences at once
/// @tparam Token integers that the ids come in
/// @tparam P     precision policy
/// @tparam Optimizer gr::adamw or another
template <class D, config C, gr::index_t Batch, class Token = std::uint8_t, class P = gr::fp32,
          template <class, class, class> class Optimizer = gr::adamw>
class training {
 public:
  using device = D;
  using ids = gr::shape<Batch, C.context>;
  using network = model<gr::on<D, P>, C>;
  using optimizer_type = Optimizer<typename P::store, D, typename P::gradient>;

  /// Whether the loss is multiplied by a scale before backward. The least positive number of f16 is 6e-8, and many
  /// gradients are below it.
  static constexpr bool scales_loss = std::is_same_v<typename P::compute, gr::f16>;

  network net;
  optimizer_type optimizer;

  /// Parameters and optimizer state stay in `persistent`; what a step needs comes from `transient` and goes back.
  constexpr training(gr::context<D>& persistent, gr::context<D>& transient, const step_options& o)
      : optimizer(make_optimizer(net, o)),
        persistent_(persistent),
        transient_(transient),
        tape_(transient, o.seed),
        scaler_(persistent),
        losses_{losses(persistent, batches(o)), losses(persistent, batches(o))},
        options_(o) {
    net.dropout = o.dropout;
    net.regions = o.regions;
    for (int i = 0; i < o.accumulate; ++i) slots_.push_back(slot(persistent));
    // In bf16, updates below 1/256 of a value would be lost. Where the optimizer keeps what rounding takes, none are.
    if constexpr (rounds_stochastically) optimizer.set_rounding(gr::rounding::stochastic, o.seed);
    gr::init(net, persistent, gr::normal_init{.seed = o.seed, .stddev = 0.02});
  }

  using losses = gr::staging_buffer<typename P::reduce, D>;
  /// The loss of a step, on its way to the host: until value() is asked for, neither waits for the other.
  class step_loss {
    friend training;
    losses* values_ = nullptr;
    constexpr explicit step_loss(losses& values) : values_(&values) {}

   public:
    /// Of no step: it has no value.
    constexpr step_loss() = default;
    /// Mean loss of the step's batches, in nats a token. To be asked for before the step after the next one sends its
    /// own.
    constexpr double value() const {
      const auto each = values_->values();
      double sum = 0;
      for (const auto loss : each)
        sum += static_cast<double>(static_cast<float>(loss)) / static_cast<double>(each.size());
      return sum;
    }
  };

  /// Puts a batch where accumulate(i) reads it. Waits for what was put there before, not for this.
  constexpr void load(int i, const Token* inputs, const Token* targets) {
    slot& s = slots_[static_cast<std::size_t>(i)];
    const auto text = s.text.values();
    std::copy_n(inputs, text.size() / 2, text.begin());
    std::copy_n(targets, text.size() / 2, text.begin() + static_cast<std::ptrdiff_t>(text.size() / 2));
    s.text.upload(s.inputs);
    s.text.upload(s.targets, ids::size);
  }
  /// Forward and backward of batch i of a step; gradients accumulate. Waits for nothing.
  constexpr void accumulate(int i) {
    slot& s = slots_[static_cast<std::size_t>(i)];
    const auto loss = net.loss(tape_.watch(s.inputs), s.targets);
    static_assert(std::is_same_v<gr::value_of_t<decltype(loss)>, typename P::reduce>);
    if constexpr (D::computes) gr::device_access<D>::copy(transient_, s.loss.data(), loss.value().data(), s.loss.bytes);
    gr::backward(scaler_.scale(loss), 1.0f / static_cast<float>(options_.accumulate));
  }
  /// Sends the loss of the step whose batches were accumulated to the host.
  constexpr step_loss send_loss() {
    turn_ = 1 - turn_;
    losses& to = losses_[turn_];
    for (gr::index_t i = 0; i < slots_.size(); ++i) to.download(slots_[i].loss, i);
    return step_loss(to);
  }
  /// All of it for one batch. Returns its loss.
  constexpr float add_batch(const Token* inputs, const Token* targets) {
    load(0, inputs, targets);
    accumulate(0);
    return static_cast<float>(gr::item(slots_.front().loss));
  }
  /// Clips the accumulated gradients and takes the optimizer's step. A step whose gradients overflowed because of the
  /// scale changes nothing, and counts in optimizer.skipped().
  constexpr void update() {
    if constexpr (scales_loss) optimizer.unscale(scaler_);
    if (options_.clip > 0 || scales_loss)
      optimizer.clip(transient_, options_.clip > 0 ? options_.clip : std::numeric_limits<double>::infinity());
    optimizer.step(persistent_);
    scaler_.update(persistent_);
  }
  constexpr gr::tape<D>& tape() { return tape_; }
  /// What the loss is multiplied by.
  constexpr double loss_scale() const { return scaler_.now(); }
  /// Steps without overflow since that was changed.
  int clean_steps() const {
    if constexpr (scales_loss) return scaler_.clean_steps();
    else return 0;
  }
  /// Resumes after `batches` of an earlier run: draws and the loss scale are as they were. Parameters and optimizer
  /// come from its checkpoint.
  void resume_after(std::uint32_t batches, [[maybe_unused]] double scale, [[maybe_unused]] int clean) {
    tape_.set_random(options_.seed, batches);
    if constexpr (scales_loss) {
      scaler_.set_value(static_cast<float>(scale));
      scaler_.set_clean_steps(clean);
    }
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

  /// A whole step on no data, for plans.
  constexpr void step() {
    for (int i = 0; i < options_.accumulate; ++i) accumulate(i);
    update();
  }

 private:
  // A batch of a step, and its loss.
  struct slot {
    gr::tensor<Token, ids, D> inputs, targets;
    gr::tensor<typename P::reduce, gr::shape<>, D> loss;
    gr::staging_buffer<Token, D> text;  // inputs, then targets
    constexpr explicit slot(gr::context<D>& ctx)
        : inputs(ctx, gr::category::input),
          targets(ctx, gr::category::input),
          loss(ctx, gr::category::input),
          text(ctx, 2 * ids::size) {}
  };

  constexpr auto upload(const Token* tokens) const {
    return gr::from_host<Token, ids>(transient_, tokens, gr::category::input);
  }

  static constexpr gr::index_t batches(const step_options& o) { return static_cast<gr::index_t>(o.accumulate); }

  static constexpr bool rounds_stochastically =
      std::is_same_v<typename P::store, gr::bf16> && !requires { requires optimizer_type::compensated; };

  static constexpr optimizer_type make_optimizer(network& net, const step_options& o) {
    const auto settings = settings_of<decltype(optimizer_type::options)>(o);
    if constexpr (has_adamw_inside<
                      decltype(optimizer_type::options)>)  // embeddings, which are the head too, are for AdamW
      return optimizer_type(net, settings, [](const gr::param_info& p) {
        return gr::param_settings{.weight_decay = p.is_matrix ? 1.0 : 0.0, .orthogonal = p.name.starts_with("blocks.")};
      });
    else return optimizer_type(net, settings);
  }

  struct no_scaler {
    constexpr explicit no_scaler(gr::context<D>&) {}
    constexpr const auto& scale(const auto& loss) const { return loss; }
    constexpr void update(gr::context<D>&) {}
    constexpr double now() const { return 1; }
  };
  struct f16_scaler : gr::loss_scaler<D> {
    using gr::loss_scaler<D>::loss_scaler;
    constexpr double now() const { return static_cast<double>(gr::item(this->value())); }
  };

  gr::context<D>& persistent_;
  gr::context<D>& transient_;
  std::vector<slot> slots_;
  gr::tape<D> tape_;
  std::conditional_t<scales_loss, f16_scaler, no_scaler> scaler_;
  std::array<losses, 2> losses_;  // in turn: one is read while the other is on its way
  gr::index_t turn_ = 0;
  step_options options_;
};

}  // namespace gpt
