#include "device.hpp"
#include "losses_cases.hpp"

TEST_CASE(
    "cross-entropy on the GPU has the CPU's value and gradient, over its logits or beside them, whole or in chunks "
    "with the head") {
  if (no_gpu()) return;
  agree(&losses_on_cpu, [](auto& r) { losses_cases(r); });
}

TEST_CASE(
    "a loss of 16 bits counts its targets as integers: gradients of more than it has numbers for are as exact as "
    "ever") {
  if (no_gpu()) return;
  gpu g;
  constexpr gr::index_t rows = 2051;  // 2048 in bf16
  const auto logits = gr::zeros<float, gr::shape<rows, 3>>(g.ctx);
  auto gradient = gr::empty<float, gr::shape<rows, 3>>(g.ctx, gr::category::temporary);
  auto row_losses = gr::empty<double, gr::shape<rows>>(g.ctx, gr::category::temporary);
  auto loss = gr::empty<gr::bf16, gr::shape<>>(g.ctx, gr::category::temporary);
  const auto targets = gr::full<int, gr::shape<rows>>(g.ctx, 1);
  gr::kernel<gr::op::cross_entropy<3>, gr::cuda>::forward(g.ctx, -1, gr::as_matrix(logits.extents()), loss.data(),
                                                          gradient.data(), row_losses.data(), logits.data(),
                                                          targets.data());
  const auto found = gr::to_host(gradient);
  CHECK(found[0] == doctest::Approx(1.0 / 3 / rows).epsilon(1e-6));
  CHECK(found[1] == doctest::Approx(-2.0 / 3 / rows).epsilon(1e-6));
  CHECK(static_cast<float>(gr::item(loss)) == doctest::Approx(std::log(3.0)).epsilon(4e-3));
}
