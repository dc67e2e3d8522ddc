#pragma once
#include <gradus/ops/recurrent/recurrent.hpp>
#include <gradus/ops/slice/slice.hpp>

#include <cstdint>
#include <tuple>

#include "cases.hpp"

template <class D>
void recurrent_cases(runner<D>& r) {
  const auto lstm = [](auto x, auto w, auto h, auto c) {
    const auto [y, last_h, last_c] = gr::lstm(x, w, h, c);
    return gr::cast<float>(y) * gr::mean(gr::cast<float>(last_h) * gr::cast<float>(last_c));
  };
  const auto gru = [](auto x, auto w, auto b, auto h) { return std::get<0>(gr::gru(x, w, b, h)); };
  r.template differentiate<float, gr::shape<3, 4, 20>, gr::shape<5, 20>, gr::shape<3, 5>, gr::shape<3, 5>>("lstm, odd",
                                                                                                           lstm);
  r.template differentiate<gr::bf16, gr::shape<2, 3, 64>, gr::shape<16, 64>, gr::shape<2, 16>, gr::shape<2, 16>>(
      "lstm, bf16", lstm);
  r.template differentiate<float, gr::shape<2, 3, 160>, gr::shape<40, 160>>(
      "lstm from zeros", [](auto x, auto w) { return gr::lstm(x * 0.5f, w * 0.5f); });
  r.template differentiate<double, gr::shape<70, 2, 15>, gr::shape<5, 15>, gr::shape<15>, gr::shape<70, 5>>(
      "gru, more than a block, double", gru);
  r.template differentiate<gr::f16, gr::shape<2, 3, 48>, gr::shape<16, 48>, gr::shape<48>, gr::shape<2, 16>>("gru, f16",
                                                                                                             gru);
  const gr::recurrent_options<D> how{.reversed = true,
                                     .lengths = gr::from_values<std::int32_t, gr::shape<3>>(r.ctx(), {4, 0, 2})};
  r.template differentiate<float, gr::shape<3, 4, 12>, gr::shape<3, 12>>(
      "lstm in reverse, with lengths", [&](auto x, auto w) { return gr::lstm(x, w, how); });
  r.template differentiate<float, gr::shape<3, 4, 9>, gr::shape<3, 9>, gr::shape<9>>(
      "gru in reverse, with lengths", [&](auto x, auto w, auto b) { return gr::gru(x, w, b, how); });
}

// Computed in the .cpp file.
std::vector<record> recurrent_on_cpu(unsigned seed);
