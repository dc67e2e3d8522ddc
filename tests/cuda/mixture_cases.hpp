#pragma once
#include <array>
#include <cstdint>
#include <gradus/autodiff/checkpoint/chain.hpp>
#include <gradus/model/init.hpp>
#include <gradus/nn/mixture.hpp>
#include <gradus/ops/grouped_matmul/grouped_matmul.hpp>

#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "cases.hpp"

template <class T, gr::index_t Rows, gr::index_t In, gr::index_t Out, class D, std::size_t N>
void grouped_matmul_case(runner<D>& r, const std::string& name, const std::int32_t (&at)[N]) {
  const auto ends = gr::from_host<std::int32_t, gr::shape<N>>(r.ctx(), at);
  r.template differentiate<T, gr::shape<Rows, In>, gr::shape<N - 1, In, Out>>(
      name, [&](auto x, auto w) { return gr::grouped_matmul(x, w, ends) + gr::grouped_matmul(x * 0.5, w, ends); });
}

/// Sorted entries, rows to their places and back.
template <class T, gr::index_t Tokens, gr::index_t Copies, gr::index_t Columns, class D>
void groups_case(runner<D>& r, const std::string& name, gr::index_t capacity) {
  const auto drawn = r.template random<float>(Tokens * Copies, 0, 6.99);
  std::vector<std::int32_t> groups;
  for (const float g : drawn) groups.push_back(static_cast<std::int32_t>(g));
  const auto order =
      gr::sort_by_group<7>(gr::from_host<std::int32_t, gr::shape<Tokens, Copies>>(r.ctx(), groups.data()), capacity);
  r.keep(name + ": places", gr::to_host(order.places), 0x1p-30);
  r.keep(name + ": offsets", gr::to_host(order.offsets), 0x1p-30);
  r.keep(name + ": counts", gr::to_host(order.counts), 0x1p-30);
  r.template differentiate<T, gr::shape<Tokens, Columns>, gr::shape<Tokens, Copies>>(name, [&](auto x, auto w) {
    const auto once = gr::dispatch_rows(x, order.places), twice = gr::dispatch_rows(x * x, order.places);
    return gr::combine_rows(once, w, order.places) + gr::combine_rows(once + twice, w, order.places);
  });
}

template <class X, class Layer, gr::index_t Width, gr::index_t Experts, gr::index_t PerToken, class D>
void mixture_case(runner<D>& r, const std::string& name, gr::nn::mixture_options options, double tolerance) {
  gr::nn::mixture<X, Width, Experts, PerToken, Layer> net;
  gr::init(net, r.ctx(), gr::normal_init{.seed = 7, .stddev = 0.3});
  net.options = options;
  gr::tape tape{r.ctx()};
  using S = gr::shape<2, 17, Width>;
  const auto x = tape.variable(gr::from_host<float, S>(r.ctx(), r.template random<float>(S::size).data()));
  const auto [y, loss] = net(x);
  r.keep(name, gr::to_host(gr::cast<float>(y.value())), tolerance);
  r.keep(name + ": loss", gr::to_host(loss.value()), tolerance);
  r.keep(name + ": load", gr::to_host(net.load.value()), 0x1p-30);
  gr::backward(gr::sum(y * gr::from_host<float, S>(r.ctx(), r.template random<float>(S::size).data())) + loss);
  r.keep(name + ": dx", gr::to_host(x.gradient()), tolerance);
  gr::for_each_param(net, [&](std::string_view path, const auto& p) {
    r.keep(name + ": " + std::string(path), gr::to_host(p.gradient()), tolerance);
  });
}

/// Two blocks in checkpoint regions, with dropout.
template <class X, class D>
void mixture_blocks_case(runner<D>& r, const std::string& name, double tolerance) {
  std::array<gr::nn::mixture_block<X, 16, 2, 4, 2, 2, gr::nn::mlp_experts<X, 4, 16, 32>>, 2> blocks;
  for (auto& block : blocks) gr::init(block, r.ctx(), gr::normal_init{.seed = 8, .stddev = 0.2});
  const auto regions = gr::region_schedule::every_block(2);
  gr::tape tape{r.ctx(), 5};
  using S = gr::shape<2, 9, 16>;
  const auto x = tape.variable(gr::from_host<float, S>(r.ctx(), r.template random<float>(S::size).data()));
  const auto [y, loss] = gr::chain(blocks, std::tuple{x, gr::nn::no_auxiliary_loss(x)}, regions,
                                   [](const auto& block, auto v) { return block(std::move(v), 0.1); });
  r.keep(name, gr::to_host(y.value()), tolerance);
  r.keep(name + ": loss", gr::to_host(loss.value()), tolerance);
  gr::backward(gr::mean(y * y) + loss);
  r.keep(name + ": dx", gr::to_host(x.gradient()), tolerance);
  for (const auto& block : blocks) {
    r.keep(name + ": load", gr::to_host(block.mixture.load.value()), 0x1p-30);
    gr::for_each_param(block, [&](std::string_view path, const auto& p) {
      r.keep(name + ": " + std::string(path), gr::to_host(p.gradient()), tolerance);
    });
  }
}

template <class D>
void mixture_cases(runner<D>& r) {
  grouped_matmul_case<float, 70, 19, 5>(r, "groups of odd sizes", {0, 7, 7, 68, 70});
  grouped_matmul_case<double, 9, 70, 66>(r, "wide groups in double", {2, 2, 5, 8});
  grouped_matmul_case<gr::bf16, 320, 64, 192>(r, "on tensor cores", {3, 140, 140, 141, 319});
  grouped_matmul_case<gr::f16, 129, 320, 64>(r, "on tensor cores, f16", {0, 129});
  grouped_matmul_case<gr::f16, 20, 33, 35>(r, "halves of odd sizes", {0, 3, 20});
  groups_case<float, 40, 2, 12>(r, "pairs of places", 80);
  groups_case<float, 300, 3, 5>(r, "places with a capacity", 50);
  groups_case<gr::bf16, 33, 2, 16>(r, "places of bf16", 8);

  // Of fixed inputs, none of whose choices is close: devices may differ in the last bit.
  runner<D> same(r.ctx(), 36);
  using X = gr::on<D>;
  mixture_case<X, gr::nn::swiglu_experts<X, 4, 12, 20>, 12, 4, 2>(same, "mixture", {.balance = 0.5, .z = 0.2}, 2e-5);
  mixture_case<X, gr::nn::mlp_experts<X, 4, 12, 20>, 12, 4, 1>(
      same, "switch", {.renormalise = false, .balance = 0.5, .z = 0.2, .capacity = 1}, 2e-5);
  mixture_blocks_case<X>(same, "blocks", 1e-4);
  using half = gr::on<D, gr::bf16_mixed>;
  mixture_case<half, gr::nn::mlp_experts<half, 4, 64, 128>, 64, 4, 2>(same, "mixture in bf16", {}, 2e-2);
  using rounded = gr::on<D, std::conditional_t<std::is_same_v<D, gr::cpu>, gr::fp32, gr::tf32>>;
  mixture_case<rounded, gr::nn::mlp_experts<rounded, 4, 32, 96>, 32, 4, 2>(same, "mixture in TF32", {}, 5e-3);
  r.records.insert(r.records.end(), same.records.begin(), same.records.end());
}

std::vector<record> mixture_on_cpu(unsigned seed);
