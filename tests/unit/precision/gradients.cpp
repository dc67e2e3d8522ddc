// What 16-bit gradients lose, and what they do not.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "../../support/operands.hpp"

namespace gr = gradus;
using gradus_test::workplace;

TEST_CASE("a scaled loss keeps the small gradients of logits in f16") {
  workplace at;
  gr::tape tape(at.ctx);
  const auto logits = tape.variable(gr::full<gr::f16, gr::shape<4096, 512>>(at.ctx, gr::f16(0.0f)));
  const auto targets = gr::zeros<std::int32_t, gr::shape<4096>>(at.ctx);
  const auto [g] = gr::gradients(gr::cross_entropy(logits, targets) * 65536.0, logits);
  const double small = 65536.0 / 512 / 4096;  // without the scale 4.8e-7, of which f16 has 3 bits
  CHECK(static_cast<double>(static_cast<float>(g(17, 5))) == doctest::Approx(small).epsilon(1e-3));
  CHECK(static_cast<double>(static_cast<float>(g(17, 0))) == doctest::Approx(small - 16).epsilon(1e-3));
  const auto few = tape.variable(gr::full<gr::f16, gr::shape<4, 8>>(at.ctx, gr::f16(0.0f)));
  const auto [unscaled] = gr::gradients(gr::cross_entropy(few, gr::zeros<std::int32_t, gr::shape<4>>(at.ctx)), few);
  CHECK(static_cast<float>(unscaled(3, 5)) == 1.0f / 32);
}

namespace {
// The gradient of a 16 x 8 parameter under policy P, as doubles. The parameter has bf16 values under every policy.
template <class P, class Loss>
std::vector<double> gradient_under(const Loss& loss) {
  workplace at;
  gr::param<gr::on<gr::cpu, P>, 16, 8> w;
  const auto values = gr::cast<gr::bf16>(gr::normal<float, gr::shape<16, 8>>(at.ctx, {.seed = 1}));
  w.set(gr::cast<typename decltype(w)::value_type>(values));
  gr::tape tape{at.ctx};
  gr::backward(loss(at.ctx, tape, w));
  std::vector<double> found;
  for (const auto& v : gr::to_host(w.gradient())) found.push_back(static_cast<double>(static_cast<float>(v)));
  return found;
}
template <class Loss>
void check_rounded_once(const Loss& loss) {
  const auto wanted = gradient_under<gr::bf16_mixed>(loss);
  const auto check = [&](const std::vector<double>& found) {
    double worst = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i)
      worst = std::max(worst, std::abs(found[i] - wanted[i]) / std::abs(wanted[i]));
    CHECK(worst <= 1.01 * 0x1p-8);
  };
  check(gradient_under<gr::bf16_gradients>(loss));
  check(gradient_under<gr::bf16_pure>(loss));
}
}  // namespace

TEST_CASE("a bf16 gradient that an operation sums over chunks or batches is rounded once") {
  check_rounded_once([](auto& ctx, auto& tape, const auto& table) {
    const auto x = tape.watch(gr::normal<float, gr::shape<512, 8>>(ctx, {.seed = 2}));
    const auto targets = gr::arange<std::int32_t, 512>(ctx);
    return gr::apply(gr::op::linear_cross_entropy<16, 32>{-1}, x, table, targets - targets / 16 * 16);
  });
  check_rounded_once([](auto& ctx, auto& tape, const auto& w) {
    const auto x = tape.watch(gr::normal<float, gr::shape<64, 16, 4>>(ctx, {.seed = 2}, 1, 1));
    return gr::sum(gr::matmul<gr::transpose{.a = true}>(x, w));
  });
}
