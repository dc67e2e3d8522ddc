#pragma once
// A training step with or without the techniques of techniques.hpp, for any device.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "model.hpp"
#include "unfused_adamw.hpp"

namespace bench {

struct step_options {
  std::uint64_t seed = 1;
  gr::region_schedule regions = {};
};

/// An optimizer of the library, as an argument of `training`.
template <template <class, class, class> class Optimizer>
struct fused {
  template <sizes S, class Network, class D, class P>
  static auto make(Network& net, double) {
    using type = Optimizer<typename P::store, D, typename P::gradient>;
    using settings = decltype(type::options);
    settings s;
    if (!(s.lr > 0)) s.lr = 1e-2;
    if constexpr (requires { s.momentum; })
      if (s.momentum == 0) s.momentum = 0.9;
    if constexpr (requires { s.adamw; })  // for the matrices of the blocks alone
      return type(net, s, [](const gr::param_info& p) {
        return gr::param_settings{.weight_decay = p.is_matrix ? 1.0 : 0.0, .orthogonal = p.name.starts_with("blocks.")};
      });
    else return type(net, s);
  }
};
/// unfused_adamw, likewise.
struct unfused {
  template <sizes S, class Network, class D, class P>
  static auto make(Network& net, double gradient_scale) {
    return unfused_adamw<Network, S, D>(net, gradient_scale);
  }
};
/// The optimizer that techniques ask for.
template <techniques T>
using optimizer_of = std::conditional_t<!T.fused_optimizer, unfused,
                                        std::conditional_t<T.optimizer_8bit, fused<gr::adamw_8bit>, fused<gr::adamw>>>;

/// @tparam T model_part() of the techniques: others are the caller's
template <class D, sizes S, techniques T, class Optimizer>
class training {
 public:
  using device = D;
  static constexpr gr::index_t micro_batches = T.accumulate ? S.accumulate : 1;
  static constexpr gr::index_t batch = S.batch / micro_batches;
  static_assert(S.batch % micro_batches == 0, "the batch must be a whole number of micro-batches");
  using token = std::uint16_t;
  using of_floats = std::conditional_t<T.tf32, gr::tf32, gr::fp32>;
  using precision =
      std::conditional_t<T.bf16, std::conditional_t<T.bf16_weights, gr::bf16_pure, gr::bf16_mixed>, of_floats>;
  using loss_value = typename precision::reduce;
  using network = model<gr::on<D, precision>, S, T>;
  static constexpr bool is_fused = !std::is_same_v<Optimizer, unfused>;

  network net;
  decltype(Optimizer::template make<S, network, D, precision>(std::declval<network&>(), 1.0)) optimizer;

  training(gr::context<D>& persistent, gr::context<D>& transient, const step_options& o)
      : optimizer(Optimizer::template make<S, network, D, precision>(net, 1.0 / static_cast<double>(micro_batches))),
        rate_(optimizer.options.lr),
        persistent_(persistent),
        transient_(transient),
        tape_(transient, o.seed) {
    for (gr::index_t i = 0; i < micro_batches; ++i) batches_.emplace_back(persistent);
    net.regions = o.regions;
    if constexpr (is_fused && std::is_same_v<typename precision::store, gr::bf16>)
      if constexpr (!requires { requires decltype(optimizer)::compensated; })
        optimizer.set_rounding(gr::rounding::stochastic, o.seed);
    gr::init(net, persistent, gr::normal_init{.seed = o.seed, .stddev = 0.02});
  }

  /// Puts micro-batch i of a step where accumulate(i) reads it.
  void load(gr::index_t i, const token* inputs, const token* targets) {
    micro_batch& b = batches_[i];
    const auto text = b.text.values();
    std::copy_n(inputs, rows, text.begin());
    std::copy_n(targets, rows, text.begin() + rows);
    b.text.upload(b.inputs);
    b.text.upload(b.targets, rows);
    if constexpr (takes_entries) {
      const auto at = b.places.values();
      for (gr::index_t r = 0; r < rows; ++r) at[r] = static_cast<std::int32_t>(r * network::rows + targets[r]);
      b.places.upload(b.entries);
    }
  }
  /// Forward and backward of micro-batch i. Waits for nothing.
  void accumulate(gr::index_t i) {
    micro_batch& b = batches_[i];
    const auto loss = net.loss(tape_.watch(b.inputs), b.targets, b.entries);
    if constexpr (D::computes)
      gr::device_access<D>::copy(transient_, b.loss.data(), std::as_const(loss.value()).data(), b.loss.bytes);
    // The unfused optimizer divides the sum of the gradients.
    gr::backward(loss, is_fused ? 1.0f / static_cast<float>(micro_batches) : 1.0f);
  }
  /// The loss of micro-batch i, in nats a token; waits for it.
  loss_value loss(gr::index_t i) const { return gr::item(batches_[i].loss); }
  /// Sends the losses of a step to `to`.
  void send_losses(gr::staging_buffer<loss_value, D>& to) const {
    for (gr::index_t i = 0; i < micro_batches; ++i) to.download(batches_[i].loss, i);
  }
  void update() {
    if constexpr (is_fused) optimizer.clip(transient_, most_gradient_norm);
    optimizer.step(persistent_);
  }
  gr::tape<D>& tape() { return tape_; }
  /// The rate of a step, from 0 to 1 of the optimizer's own.
  void set_rate(double share) { optimizer.options.lr = rate_ * share; }

  /// A whole step on no data, for plans.
  void step() {
    for (gr::index_t i = 0; i < micro_batches; ++i) accumulate(i);
    update();
  }

 private:
  using ids = gr::shape<batch, S.context>;
  static constexpr gr::index_t rows = ids::size;
  // A loss of elementary operations is told where the targets' logits are among all.
  static constexpr bool takes_entries = !T.fused_loss && !T.fused_operations;
  struct micro_batch {
    gr::tensor<token, ids, D> inputs, targets;
    gr::tensor<std::int32_t, gr::shape<takes_entries ? rows : 1>, D> entries;
    gr::tensor<loss_value, gr::shape<>, D> loss;
    gr::staging_buffer<token, D> text;  // inputs, then targets
    gr::staging_buffer<std::int32_t, D> places;
    explicit micro_batch(gr::context<D>& ctx)
        : inputs(ctx, gr::category::input),
          targets(ctx, gr::category::input),
          entries(ctx, gr::category::input),
          loss(ctx, gr::category::input),
          text(ctx, 2 * rows),
          places(ctx, takes_entries ? rows : 1) {}
  };

  double rate_;
  gr::context<D>& persistent_;
  gr::context<D>& transient_;
  gr::tape<D> tape_;
  std::vector<micro_batch> batches_;
};

}  // namespace bench
