#pragma once
// A training step with or without the techniques of techniques.hpp, for any device.

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
        return gr::param_settings{.weight_decay = p.rank >= 2 ? 1.0 : 0.0, .orthogonal = p.name.starts_with("blocks.")};
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
  static constexpr gr::index micro_batches = T.accumulate ? S.accumulate : 1;
  static constexpr gr::index batch = S.batch / micro_batches;
  static_assert(S.batch % micro_batches == 0, "the batch must be a whole number of micro-batches");
  using token = std::uint16_t;
  using precision =
      std::conditional_t<T.bf16, std::conditional_t<T.bf16_weights, gr::bf16_pure, gr::bf16_mixed>, gr::fp32>;
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
    net.regions = o.regions;
    if constexpr (is_fused && std::is_same_v<typename precision::store, gr::bf16>)
      if constexpr (!requires { requires decltype(optimizer)::compensated; })
        optimizer.set_rounding(gr::rounding::stochastic, o.seed);
    gr::init(net, persistent, gr::normal_init{.seed = o.seed, .stddev = 0.02});
  }

  /// Forward and backward of a micro-batch. Returns its loss in nats a token.
  float add_batch(const token* inputs, const token* targets) {
    using ids = gr::shape<batch, S.context>;
    const auto on_device = gr::from_host<token, ids>(transient_, targets, gr::category::input);
    const auto loss = net.loss(tape_.watch(gr::from_host<token, ids>(transient_, inputs, gr::category::input)),
                               on_device, entries(targets));
    const auto value = static_cast<float>(gr::item(loss.value()));
    // The unfused optimizer divides the sum of the gradients.
    gr::backward(loss, is_fused ? 1.0f / static_cast<float>(micro_batches) : 1.0f);
    return value;
  }
  void update() {
    if constexpr (is_fused) optimizer.clip(transient_, most_gradient_norm);
    optimizer.step(persistent_);
  }
  /// The rate of a step, from 0 to 1 of the optimizer's own.
  void set_rate(double share) { optimizer.options.lr = rate_ * share; }

  /// A whole step on no data, for plans.
  void step() {
    for (gr::index i = 0; i < micro_batches; ++i) add_batch(nullptr, nullptr);
    update();
  }

 private:
  // Where the targets' logits are among all, for a loss of elementary operations.
  auto entries([[maybe_unused]] const token* targets) const {
    if constexpr (T.fused_loss || T.fused_operations) return 0;
    else {
      constexpr gr::index rows = batch * S.context;
      std::vector<std::int32_t> at(rows);
      if constexpr (D::computes)
        for (gr::index i = 0; i < rows; ++i) at[i] = static_cast<std::int32_t>(i * network::rows + targets[i]);
      return gr::from_host<std::int32_t, gr::shape<rows>>(transient_, at.data(), gr::category::input);
    }
  }

  double rate_;
  gr::context<D>& persistent_;
  gr::context<D>& transient_;
  gr::tape<D> tape_;
};

}  // namespace bench
