#pragma once
// What training steps have in common, whatever the model and its batches: options, the optimizer, the loss scale, and
// losses on their way to the host.

#include <array>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include <gradus/gradus.hpp>

namespace gpt {

namespace gr = gradus;

struct step_options {
  double dropout = 0;
  double clip = 1;     ///< largest gradient norm; 0: no limit
  int accumulate = 1;  ///< micro-batches a step
  std::uint64_t seed = 1;
  gr::adamw_options adamw = {};      ///< other optimizers take its lr and weight_decay
  gr::region_schedule regions = {};  ///< what backward recomputes
};

/// Whether an optimizer (Muon) updates some parameters by an AdamW of its own.
template <class Settings>
inline constexpr bool has_adamw_inside = requires(Settings s) { s.adamw; };

/// The default learning rate of an optimizer; 1e-2 if its lr is 0.
template <class Settings>
constexpr double usual_rate() {
  return Settings{}.lr > 0 ? Settings{}.lr : 1e-2;
}
/// Sets the learning rate, and in proportion that of an AdamW inside.
template <class Settings>
constexpr void set_rate(Settings& s, double lr) {
  s.lr = lr;
  if constexpr (has_adamw_inside<Settings>) s.adamw.lr = lr * (Settings{}.adamw.lr / Settings{}.lr);
}
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

/// A model and what trains it. A derived class has the batches: it calls add_gradients() for each, then update().
/// @tparam Network   model with the members `dropout` and `regions`, and blocks under the name `blocks`
/// @tparam D         device
/// @tparam P         precision policy
template <class Network, class D, class P, template <class, class, class> class Optimizer>
class model_training {
 public:
  using device = D;
  using network = Network;
  using optimizer_type = Optimizer<typename P::store, D, typename P::gradient>;

  /// Whether the loss is scaled before backward: many gradients are below 6e-8, the least positive number of f16.
  static constexpr bool scales_loss = std::is_same_v<typename P::compute, gr::f16>;

  network net;
  optimizer_type optimizer;

  using losses = gr::staging_buffer<typename P::reduce, D>;
  /// The loss of a step, on its way to the host.
  class step_loss {
    friend model_training;
    losses* values_;
    constexpr explicit step_loss(losses& values) : values_(&values) {}

   public:
    /// Waits for the mean loss of the step's micro-batches, in nats. Valid until the second send_loss() after it.
    constexpr double value() const {
      const auto each = values_->values();
      double sum = 0;
      for (const auto loss : each)
        sum += static_cast<double>(static_cast<float>(loss)) / static_cast<double>(each.size());
      return sum;
    }
  };

  /// Submits the copy of the step's loss to the host.
  constexpr step_loss send_loss() {
    turn_ = 1 - turn_;
    losses& to = losses_[turn_];
    for (gr::index_t i = 0; i < loss_of_.size(); ++i) to.download(loss_of_[i], i);
    return step_loss(to);
  }
  /// Measures the norm of the gradients and takes the optimizer's step, whose kernel clips them as it reads them
  /// (optim/step_inputs.hpp). With a loss scale, a step whose gradients overflowed changes nothing.
  constexpr void update() {
    if constexpr (scales_loss) optimizer.unscale(scaler_);
    if (options_.clip > 0 || scales_loss)
      optimizer.clip(transient_, options_.clip > 0 ? options_.clip : std::numeric_limits<double>::infinity());
    optimizer.step(persistent_);
    scaler_.update(persistent_);
  }
  constexpr gr::tape<D>& tape() { return tape_; }
  constexpr double loss_scale() const { return scaler_.now(); }
  /// Steps without overflow since the loss scale changed.
  int clean_steps() const {
    if constexpr (scales_loss) return scaler_.clean_steps();
    else return 0;
  }
  /// Restores random draws and the loss scale of a run that has taken `batches` micro-batches.
  void resume_after(std::uint32_t batches, [[maybe_unused]] double scale, [[maybe_unused]] int clean) {
    tape_.set_random(options_.seed, batches);
    if constexpr (scales_loss) {
      scaler_.set_value(static_cast<float>(scale));
      scaler_.set_clean_steps(clean);
    }
  }
  /// Drops the gradients of a step that is not finished.
  constexpr void abandon() {
    tape_.clear();
    optimizer.clear_gradients();
  }

 protected:
  gr::context<D>& persistent_;
  gr::context<D>& transient_;
  const step_options options_;

  constexpr model_training(gr::context<D>& persistent, gr::context<D>& transient, const step_options& o)
      : optimizer(make_optimizer(net, o)),
        persistent_(persistent),
        transient_(transient),
        options_(o),
        tape_(transient, o.seed),
        scaler_(persistent),
        losses_{losses(persistent, batches(o)), losses(persistent, batches(o))} {
    net.dropout = o.dropout;
    net.regions = o.regions;
    for (gr::index_t i = 0; i < batches(o); ++i) loss_of_.emplace_back(persistent, gr::category::input);
    // In bf16, updates below 1/256 of a value would round to nothing.
    if constexpr (rounds_stochastically) optimizer.set_rounding(gr::rounding::stochastic, o.seed);
    gr::init(net, persistent, gr::normal_init{.seed = o.seed, .stddev = 0.02});
  }

  /// Submits backward of the loss of micro-batch i; its gradients are added to those of the others.
  constexpr void add_gradients(int i, const auto& loss) { add_gradients(i, loss, loss); }
  /// The same of `minimised`, where the run reports `loss`, which lacks an auxiliary loss.
  constexpr void add_gradients(int i, const auto& loss, const auto& minimised) {
    static_assert(std::is_same_v<gr::value_of_t<decltype(loss)>, typename P::reduce>);
    auto& kept = loss_of_[static_cast<std::size_t>(i)];
    if constexpr (D::computes) gr::device_access<D>::copy(transient_, kept.data(), loss.value().data(), kept.bytes);
    gr::backward(scaler_.scale(minimised), 1.0f / static_cast<float>(options_.accumulate));
  }
  /// Waits for the loss of micro-batch i.
  constexpr float loss_of(int i) const { return static_cast<float>(gr::item(loss_of_[static_cast<std::size_t>(i)])); }

 private:
  static constexpr gr::index_t batches(const step_options& o) { return static_cast<gr::index_t>(o.accumulate); }

  static constexpr bool rounds_stochastically =
      std::is_same_v<typename P::store, gr::bf16> && !requires { requires optimizer_type::compensated; };

  static constexpr optimizer_type make_optimizer(network& net, const step_options& o) {
    const auto settings = settings_of<decltype(optimizer_type::options)>(o);
    if constexpr (has_adamw_inside<decltype(optimizer_type::options)>)  // Muon for the blocks' matrices
      return optimizer_type(net, settings, [](const gr::param_info& p) {
        return gr::param_settings{.weight_decay = p.is_matrix ? 1.0 : 0.0,
                                  .orthogonal = p.name.starts_with("blocks.") && p.rank == 2};
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

  gr::tape<D> tape_;
  std::conditional_t<scales_loss, f16_scaler, no_scaler> scaler_;
  std::vector<gr::tensor<typename P::reduce, gr::shape<>, D>> loss_of_;
  std::array<losses, 2> losses_;  // by turns: one is read while the other is on its way
  gr::index_t turn_ = 0;
};

}  // namespace gpt
