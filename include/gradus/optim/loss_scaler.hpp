#pragma once
// A factor of the loss that keeps small gradients in the range of f16.

#include <cstddef>
#include <cstdint>
#include <utility>

#include "../core/config.hpp"
#include "../ops/elementwise/elementwise.hpp"
#include "../tensor/creation.hpp"
#include "step_inputs.hpp"

namespace gradus {

/// Settings of loss_scaler, with the defaults of PyTorch's GradScaler.
struct loss_scaler_options {
  double init_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  std::int32_t growth_interval = 2000;  ///< steps in a row without overflow before the scale grows
};

/// A factor of the loss that keeps small gradients in the range of f16, by the rules of PyTorch's GradScaler: it falls
/// when a gradient overflows, and that step is skipped; it grows after many steps without overflow. The scale and the
/// overflow flag lie on the device, so the host waits for neither:
///
///     backward(scaler.scale(loss));   // of each batch
///     optimizer.unscale(scaler);
///     optimizer.clip(ctx, 1.0);       // optional; the norm of the unscaled gradients
///     optimizer.step(ctx);            // changes nothing if a gradient was infinite or NaN
///     scaler.update(ctx);
template <class D>
class loss_scaler {
 public:
  loss_scaler_options options;

  /// Allocates 12 bytes of `ctx`.
  constexpr explicit loss_scaler(context<D>& ctx, loss_scaler_options o = {})
      : options(o),
        scale_(full<float, shape<>>(ctx, static_cast<float>(o.init_scale), category::optimizer_state)),
        counts_(ctx, sizeof(loss_scale_counts), category::optimizer_state) {
    if constexpr (D::computes) device_access<D>::zero(ctx, counts_.data(), counts_.bytes());
  }

  /// The loss times the scale: the argument of backward().
  template <class Loss>
  GRADUS_OF_BUILD constexpr auto scale(Loss&& loss) const {
    return std::forward<Loss>(loss) * scale_;
  }
  /// Updates the scale. Call it once after the step, or after the steps of all optimizers that unscale by this.
  GRADUS_OF_BUILD constexpr void update(context<D>& ctx) {
    ++changes_;
    if constexpr (D::computes)
      kernel<op::update_loss_scale, D>::forward(
          ctx, op::update_loss_scale{options.growth_factor, options.backoff_factor, options.growth_interval},
          scale_.data(), counts());
  }
  /// The scale, on the device; item() reads it.
  constexpr const tensor<float, shape<>, D>& value() const { return scale_; }
  /// Sets the scale, such as an earlier run's.
  constexpr void set_value(float scale) {
    ++changes_;
    device_access<D>::upload(scale_.owner(), scale_.data(), &scale, sizeof scale);
  }
  /// Steps without overflow since the scale last changed; waits for the device.
  constexpr std::int32_t clean_steps() const { return read().clean_steps; }
  constexpr void set_clean_steps(std::int32_t steps) {
    const loss_scale_counts host{steps, 0};
    if constexpr (D::computes) device_access<D>::upload(counts_.owner(), counts_.data(), &host, sizeof host);
  }
  /// Calls that may have changed the scale.
  constexpr std::size_t changes() const { return changes_; }
  /// For kernels of a step.
  loss_scale_counts* counts() const { return static_cast<loss_scale_counts*>(counts_.data()); }

 private:
  constexpr loss_scale_counts read() const {
    loss_scale_counts host{};
    if constexpr (D::computes) device_access<D>::download(counts_.owner(), &host, counts_.data(), sizeof host);
    return host;
  }
  tensor<float, shape<>, D> scale_;
  buffer<D> counts_;
  std::size_t changes_ = 0;
};

template <class D>
loss_scaler(context<D>&, loss_scaler_options = {}) -> loss_scaler<D>;

}  // namespace gradus
