#include "check.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {

const auto all_of_lstm = [](auto gates, auto w, auto h, auto c) {
  const auto [y, last_h, last_c] = gr::lstm(gates, w, h, c);
  return gr::concat<1>(gr::reshape<1, -1>(y * y), gr::reshape<1, -1>(last_c), gr::reshape<1, -1>(last_h));
};
const auto all_of_gru = [](auto gates, auto w, auto b, auto h) {
  const auto [y, last_h] = gr::gru(gates, w, b, h);
  return gr::concat<1>(gr::reshape<1, -1>(y * y), gr::reshape<1, -1>(last_h));
};

template <gr::index_t B, gr::index_t T, gr::index_t H>
void check() {
  workplace at;
  const auto h = normal<double, gr::shape<B, H>>(at.ctx), c = normal<double, gr::shape<B, H>>(at.ctx);
  const auto of_lstm = normal<double, gr::shape<B, T, 4 * H>>(at.ctx);
  const auto w = normal<double, gr::shape<H, 4 * H>>(at.ctx);
  check_gradient("lstm", all_of_lstm, of_lstm, w, h, c);
  const auto of_gru = normal<double, gr::shape<B, T, 3 * H>>(at.ctx);
  const auto u = normal<double, gr::shape<H, 3 * H>>(at.ctx);
  check_gradient("gru", all_of_gru, of_gru, u, normal<double, gr::shape<3 * H>>(at.ctx), h);
}

}  // namespace

TEST_CASE("gradients of lstm and gru are right for one step, one row, one unit, and more than a pack") {
  check<2, 3, 5>();
  check<1, 4, 1>();
  check<3, 1, 19>();
}

TEST_CASE("gradients of lstm and gru are right without a state, in reverse, and for rows of different lengths") {
  workplace at;
  const auto of_lstm = normal<double, gr::shape<3, 4, 8>>(at.ctx);
  const auto w = normal<double, gr::shape<2, 8>>(at.ctx);
  check_gradient(
      "lstm from zeros", [](auto gates, auto v) { return gr::lstm(gates, v); }, of_lstm, w);
  const gr::recurrent_options<> how{.reversed = true,
                                    .lengths = gr::from_values<std::int32_t, gr::shape<3>>(at.ctx, {2, 0, 4})};
  check_gradient(
      "lstm in reverse", [&](auto gates, auto v) { return gr::lstm(gates, v, how); }, of_lstm, w);
  const auto of_gru = normal<double, gr::shape<3, 4, 6>>(at.ctx);
  const auto u = normal<double, gr::shape<2, 6>>(at.ctx);
  const auto b = normal<double, gr::shape<6>>(at.ctx);
  const auto h = normal<double, gr::shape<3, 2>>(at.ctx);
  check_gradient(
      "gru in reverse", [&](auto gates, auto v, auto a, auto s) { return std::get<0>(gr::gru(gates, v, a, s, how)); },
      of_gru, u, b, h);
}
