#pragma once
#include <gradus/model/init.hpp>
#include <gradus/model/parameters.hpp>
#include <gradus/ops/cross_entropy/cross_entropy.hpp>
#include <gradus/ops/linear_cross_entropy/linear_cross_entropy.hpp>
#include <gradus/ops/losses/losses.hpp>
#include <gradus/ops/nll/nll.hpp>
#include <gradus/tensor/param.hpp>

#include "cases.hpp"

template <class Logits, gr::index_t Vocabulary, class D>
void cross_entropy_case(runner<D>& r, int ignore) {
  auto& ctx = r.ctx();
  constexpr gr::index_t rows = gr::rows_of<Logits>;
  const auto values = r.template random<float>(Logits::size, -6, 6);
  std::vector<int> targets(rows);
  for (gr::index_t i = 0; i < rows; ++i) targets[i] = static_cast<int>((i * 7 + 3) % Vocabulary);
  if (rows > 2) targets[1] = ignore;
  const auto t = gr::from_host<int, gr::shape<rows>>(ctx, targets.data());
  const std::string name =
      "cross_entropy of " + std::to_string(rows) + " rows of " + std::to_string(Logits::size / rows);
  for (const bool in_place : {false, true}) {
    gr::tape tape{ctx};
    auto x = tape.variable(gr::from_host<float, Logits>(ctx, values.data()));
    // x * 1 is nobody else's, so that its memory becomes the gradient's
    auto loss =
        in_place ? gr::cross_entropy<Vocabulary>(x * 1.0, t, ignore) : gr::cross_entropy<Vocabulary>(x, t, ignore);
    r.keep(name, gr::to_host(loss.value()), 2e-5);
    gr::backward(loss, 0.5f);
    r.keep(name + ": gradient", gr::to_host(x.gradient()), 2e-5);
  }
  const auto x = gr::from_host<float, Logits>(ctx, values.data());
  r.keep(name + ", not recorded", gr::to_host(gr::cross_entropy<Vocabulary>(x, t, ignore)), 2e-5);
}

template <class D>
void cross_entropy_cases(runner<D>& r) {
  cross_entropy_case<gr::shape<1, 2>, 2>(r, -1);
  cross_entropy_case<gr::shape<37, 11>, 11>(r, -1);
  cross_entropy_case<gr::shape<16, 1024>, 1000>(r, -100);
  cross_entropy_case<gr::shape<2, 50304>, 50257>(r, -1);
  cross_entropy_case<gr::shape<9, 333>, 300>(r, 0);
}

/// Rows of logits in chunks of 128, the last of them smaller.
template <class X, class Table, gr::index_t Vocabulary, class P, class D>
void linear_cross_entropy_case(runner<D>& r, const std::string& name, double tolerance) {
  auto& ctx = r.ctx();
  constexpr gr::index_t rows = X::extent(0);
  struct model {
    gr::param<gr::on<D, P>, Table::extent(0), Table::extent(1)> table;
    GRADUS_MEMBERS(table)
  };
  model head;
  gr::init(head, ctx, gr::normal_init{.seed = 3, .stddev = 0.5});
  std::vector<int> targets(rows);
  for (gr::index_t i = 0; i < rows; ++i) targets[i] = i % 9 == 2 ? -1 : static_cast<int>((i * 7 + 3) % Vocabulary);
  const auto t = gr::from_host<int, gr::shape<rows>>(ctx, targets.data());
  gr::tape tape{ctx};
  auto x = tape.variable(gr::from_host<float, X>(ctx, r.template random<float>(X::size).data()));
  auto loss = gr::apply(gr::op::linear_cross_entropy<Vocabulary, 128>{-1}, x, head.table, t);
  r.keep(name, gr::to_host(loss.value()), tolerance);
  gr::backward(loss, 3.0f);
  r.keep(name + ": gradient", gr::to_host(x.gradient()), tolerance);
  r.keep(name + ": gradient of the table", gr::to_host(head.table.gradient()), tolerance);
  const auto plain = gr::from_host<float, X>(ctx, r.template random<float>(X::size).data());
  r.keep(name + ", not recorded",
         gr::to_host(gr::apply(gr::op::linear_cross_entropy<Vocabulary, 128>{-1}, plain, head.table, t)), tolerance);
}

/// Losses of classes that have more than one row of logits per block, and rows longer than a warp takes.
template <class Logits, class D>
void class_losses(runner<D>& r) {
  using gr::reduction;
  auto& ctx = r.ctx();
  constexpr gr::index_t rows = gr::rows_of<Logits>, classes = gr::columns_of<Logits>;
  std::vector<int> targets(rows);
  for (gr::index_t i = 0; i < rows; ++i) targets[i] = i % 5 == 1 ? -1 : static_cast<int>((i * 7 + 3) % classes);
  const auto t = gr::from_host<int, gr::shape<rows>>(ctx, targets.data());
  const auto w = gr::from_host<float, gr::shape<classes>>(ctx, r.template random<float>(classes, 0.5, 2).data());
  const std::string name = " of " + std::to_string(classes) + " classes";
  r.template differentiate<float, Logits>("nll_loss" + name, [&](auto x) { return gr::nll_loss(x, t); });
  r.template differentiate<float, Logits>("nll_loss, none" + name,
                                          [&](auto x) { return gr::nll_loss<reduction::none>(x * x, t, w); });
  r.template differentiate<float, Logits>("cross_entropy, weights" + name, [&](auto x) {
    return gr::cross_entropy(x, t, w, {.smoothing = 0.1}) + gr::sum(x * 0.01);
  });
  r.template differentiate<gr::f16, Logits>("cross_entropy, f16" + name, [&](auto x) {
    return gr::cross_entropy<reduction::sum>(x, t, {.ignore = -1, .smoothing = 0.3});
  });
  const auto p = gr::from_host<float, Logits>(ctx, r.template random<float>(Logits::size, 0, 1).data());
  r.template differentiate<float, Logits>("cross_entropy, probabilities" + name,
                                          [&](auto x) { return gr::cross_entropy(x, p, w, {.smoothing = 0.1}); });
}

template <class D>
void losses_cases(runner<D>& r) {
  using pair = gr::shape<9, 37>;
  r.template differentiate<float, pair, pair>("losses of two tensors", [](auto x, auto y) {
    return gr::mse_loss(x, y) + gr::l1_loss<gr::reduction::sum>(x, y) + gr::huber_loss(x, y, 0.4) +
           gr::bce_with_logits(x * 5, gr::sigmoid(y), 2) + gr::kl_divergence(x, gr::exp(y));
  });
  r.template differentiate<gr::bf16, pair, pair>(
      "losses of bf16", [](auto x, auto y) { return gr::huber_loss<gr::reduction::none>(x, y, 0.4); });
  class_losses<gr::shape<37, 11>>(r);
  class_losses<gr::shape<3, 1031>>(r);
  cross_entropy_cases(r);
  linear_cross_entropy_case<gr::shape<300, 12>, gr::shape<64, 12>, 61, gr::fp32>(r, "linear_cross_entropy", 2e-5);
  linear_cross_entropy_case<gr::shape<7, 5>, gr::shape<11, 5>, 11, gr::fp32>(r, "linear_cross_entropy, odd", 2e-5);
  linear_cross_entropy_case<gr::shape<130, 16>, gr::shape<1088, 16>, 1031, gr::bf16_mixed>(
      r, "linear_cross_entropy, bf16", 1e-2);
  linear_cross_entropy_case<gr::shape<300, 16>, gr::shape<72, 16>, 65, gr::bf16_gradients>(
      r, "linear_cross_entropy, gradients of bf16", 1e-2);
  linear_cross_entropy_case<gr::shape<130, 16>, gr::shape<72, 16>, 65, gr::fp16_mixed>(r, "linear_cross_entropy, f16",
                                                                                       4e-3);
}

// Computed in the .cpp file.
std::vector<record> losses_on_cpu(unsigned seed);
