#pragma once
#include "cases.hpp"

template <class D>
void elementwise_cases(runner<D>& r) {
  // whole, odd and single sizes
  const auto smooth = [](auto x, auto y) { return gr::gelu(x) * y + gr::tanh(x * y) - gr::sigmoid(y) / 3.0; };
  r.template differentiate<float, gr::shape<1>, gr::shape<1>>("one element", smooth);
  r.template differentiate<float, gr::shape<3>, gr::shape<3>>("three elements", smooth);
  r.template differentiate<float, gr::shape<4, 256>, gr::shape<4, 256>>("whole runs", smooth);
  r.template differentiate<float, gr::shape<37, 1013>, gr::shape<37, 1013>>("a tail", smooth);
  r.template differentiate<double, gr::shape<5, 7>, gr::shape<5, 7>>("double", smooth);

  using s = gr::shape<33, 5>;
  r.template differentiate<float, s>("relu silu abs gelu_erf",
                                     [](auto x) { return gr::relu(x) + gr::silu(x) + gr::abs(x) + gr::gelu_erf(x); });
  r.template differentiate<float, s>("exp clamp", [](auto x) { return gr::exp(x) + gr::clamp(x, -0.5, 0.5) - x; });
  r.template differentiate<float, s>(
      "log sqrt pow", [](auto x) { return gr::log(x) + gr::sqrt(x) + gr::rsqrt(x) + gr::pow(x, 1.5) + 2.0 / x; }, 0.5,
      2.0);
  r.template differentiate<float, s, s>(
      "sin cos atan2 erf", [](auto x, auto y) { return gr::sin(x) + gr::cos(y) + gr::atan2(x, y) + gr::erf(x); });
  r.template differentiate<float, s>("log1p expm1 softplus",
                                     [](auto x) { return gr::log1p(gr::abs(x)) + gr::expm1(x) + gr::softplus(x); });
  r.template differentiate<double, s>(
      "floor ceil round sign", [](auto x) { return gr::floor(x) * x + gr::ceil(x) - gr::round(x) * x + gr::sign(x); });
  r.template differentiate<float, gr::shape<3, 1, 37>, gr::shape<2, 1>>("comparisons", [](auto x, auto y) {
    const auto inside = gr::logical_or(gr::logical_and(x > y, x <= 1.5), -1 == gr::round(y));
    return gr::where(gr::logical_or(inside, x != x), x * y, y) * gr::where(x < 0, 1.5, 2);
  });
  {
    const auto x = gr::from_values<std::int32_t, gr::shape<5>>(r.ctx(), {-2, 0, 3, 7, 7});
    r.keep("comparisons of integers", gr::to_host(gr::logical_and(x >= 0, x != x - (x == 3))), 0x1p-50);
    r.keep("sign of integers", gr::to_host(gr::sign(x)), 0x1p-50);
  }
  r.template differentiate<float, s, s>("minimum maximum",
                                        [](auto x, auto y) { return gr::minimum(x, y) * gr::maximum(x, y); });
  const auto zeros = gr::zeros<float, s>(r.ctx());
  r.template differentiate<float, s, s>("square roots of what was selected", [&](auto x, auto y) {
    return gr::sqrt(gr::relu(x)) + gr::sqrt(gr::clamp(y, 0, 1)) + gr::sqrt(gr::maximum(x, zeros)) +
           gr::sqrt(gr::where(gr::relu(x), x, zeros));
  });
  {
    const auto zero = gr::from_values<float, gr::shape<2>>(r.ctx(), {-0.0f, 0.0f});
    gr::tape tape{r.ctx()};
    const auto b = tape.variable(gr::from_values<float, gr::shape<2>>(r.ctx(), {1e-39f, 2e-39f}));
    gr::backward(gr::sum(zero / b));
    r.keep("0 / b: gradient", gr::to_host(b.gradient()), 0x1p-30);
    r.keep("the sign of a zero", gr::to_host(1.0 + gr::clamp(1.0 / (zero * 3.0), -1, 1)), 0x1p-30);
  }
  {
    constexpr std::int32_t most = 2147483647, least = -most - 1;
    const auto x = gr::from_values<std::int32_t, gr::shape<4>>(r.ctx(), {most, least, 5, -7});
    const auto y = gr::from_values<std::int32_t, gr::shape<4>>(r.ctx(), {3, -1, 2, 2});
    r.keep("integers: sum", gr::to_host(x + x), 0x1p-50);
    r.keep("integers: difference", gr::to_host(x - y), 0x1p-50);
    r.keep("integers: product", gr::to_host(x * x * 3 - 1), 0x1p-50);
    r.keep("integers: magnitude", gr::to_host(-gr::abs(x)), 0x1p-50);
    r.keep("integers: quotients", gr::to_host(x / y - x / 3), 0x1p-50);
    using bytes = gr::shape<37, 1013>;
    const auto many = gr::from_host<std::uint8_t, bytes>(r.ctx(), std::vector<std::uint8_t>(bytes::size, 200).data());
    r.keep("bytes: sum", gr::to_host(gr::sum(many)), 0x1p-50);
    r.keep("bytes: sum of axis 0", gr::to_host(gr::sum<0>(many)), 0x1p-50);
    r.keep("bytes: sum of axis 1", gr::to_host(gr::sum<1>(many)), 0x1p-50);
  }

  // operands that broadcast
  const auto f = [](auto x, auto y) { return x * y + gr::tanh(y) - x; };
  r.template differentiate<float, gr::shape<9, 12>, gr::shape<12>>("rows in runs of four", f);
  r.template differentiate<float, gr::shape<9, 13>, gr::shape<13>>("rows one by one", f);
  r.template differentiate<float, gr::shape<9, 12>, gr::shape<9, 1>>("columns", f);
  r.template differentiate<float, gr::shape<3, 1, 8>, gr::shape<5, 1>>("both operands grow", f);
  r.template differentiate<float, gr::shape<2, 3, 4, 5>, gr::shape<3, 1, 5>>("a middle axis", f);
  r.template differentiate<float, gr::shape<70, 20>, gr::shape<>>("a scalar", f);
  r.template differentiate<float, gr::shape<1>, gr::shape<6, 1>>("one element grows", f);
  r.template differentiate<float, gr::shape<300, 1000>, gr::shape<1000>>("a wide row", f);

  // a value used twice has both its gradients
  r.template differentiate<float, gr::shape<61>>("x * x + x", [](auto x) { return x * x + x; });
  r.template differentiate<double, gr::shape<8, 8>>("x * x * x", [](auto x) { return x * x * x; });

  using cube = gr::shape<17, 9, 21>;
  // Sums of both signs could be so near to 0 that no tolerance holds.
  r.template differentiate<float, cube>("sum", [](auto x) { return gr::sum(x + 1.0); });
  r.template differentiate<float, cube>("mean", [](auto x) { return gr::mean(x + 1.0); });
  r.template differentiate<float, cube>("sum of axis 0", [](auto x) { return gr::sum<0>(x); });
  r.template differentiate<float, cube>("mean of axis 1", [](auto x) { return gr::mean<1>(x); });
  r.template differentiate<float, cube>("mean of axis 2", [](auto x) { return gr::mean<2>(x); });
  r.template differentiate<float, cube>("sum of axes 0 and 2", [](auto x) { return gr::sum<0, 2>(x, gr::keep_axes); });
}

// Computed in the .cpp file.
std::vector<record> elementwise_on_cpu(unsigned seed);
