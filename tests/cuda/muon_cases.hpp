#pragma once
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <gradus/model/init.hpp>
#include <gradus/optim/muon.hpp>

#include "cases.hpp"

/// Matrices that come in several of one shape and alone: wide, tall, square, with extents that are multiples of 8 and
/// others, more than a batch has; and a vector.
template <class X>
struct matrices {
  std::array<gr::param<X, 40, 96>, 3> wide;
  std::array<gr::param<X, 72, 24>, 2> tall;
  std::array<gr::param<X, 48, 48>, 2> square;
  std::array<gr::param<X, 13, 29>, 2> odd;
  gr::param<X, 301, 5> odd_tall;
  gr::param<X, 7, 7> odd_square;
  gr::param<X, 1, 17> row;
  std::array<gr::param<X, 3, 4>, gr::op::muon_step::most_in_batch + 1> small;
  gr::param<X, 29> vector;
  GRADUS_MEMBERS(wide, tall, square, odd, odd_tall, odd_square, row, small, vector)
};

/// A random gradient of the parameter; the singular values of a matrix have one magnitude.
template <class P, class D>
void give_gradient(runner<D>& r, P& p) {
  using S = typename P::shape;
  using G = typename P::gradient_value_type;
  auto g = r.template random<float>(S::size);
  if constexpr (S::rank == 2)
    for (gr::index_t i = 0; i < S::extent(0) && i < S::extent(1); ++i) g[i * S::extent(1) + i] += 20;
  std::vector<G> rounded;
  for (const float v : g) rounded.push_back(static_cast<G>(static_cast<float>(gr::bf16(v))));
  p.slot().give(gr::from_host<G, S>(r.ctx(), rounded.data(), gr::category::gradient));
}

/// The values after each of two steps at a rate of 1, from 0 on: minus the directions, times their factors.
template <class P, class D>
void directions(runner<D>& r, const std::string& name, bool nesterov, double tolerance) {
  matrices<gr::on<D, P>> net;
  gr::init(net, r.ctx(), gr::normal_init{.stddev = 0});
  gr::muon optimizer{net, {.lr = 1, .nesterov = nesterov}};
  for (int step = 0; step < 2; ++step) {
    gr::visit_params(net, [&](auto& p) { give_gradient(r, p); });
    optimizer.step(r.ctx());
    std::map<std::string, std::vector<float>> by_shape;
    gr::for_each_param(net, [&](std::string_view part, auto& p) {
      const auto values = gr::to_host(p.value());
      auto& of = by_shape[std::string(part.substr(0, part.find('.')))];
      of.insert(of.end(), values.begin(), values.end());
    });
    for (const auto& [shape, values] : by_shape)
      r.keep(name + ": " + shape, values, shape == "vector" ? 1e-5 : tolerance);
  }
}

/// Where a singular value comes out as 1, an iteration's roundings to bf16, of 2^-9 at most each, change it by up to
/// 1.5 of that by the Gram matrix, 2.8 by the polynomial without its identity and 1 by the result. There are five.
constexpr double of_roundings = 5 * 5.3 / 512;

template <class D>
void muon_cases(runner<D>& r) {
  directions<gr::fp32>(r, "float", true, of_roundings);
  directions<gr::fp32>(r, "without nesterov", false, of_roundings);
  directions<gr::bf16_gradients>(r, "gradients in bf16", true, of_roundings);
}

// Computed in the .cpp file.
std::vector<record> muon_on_cpu(unsigned seed);
