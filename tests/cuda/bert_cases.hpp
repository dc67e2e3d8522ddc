#pragma once
// The training step of examples/bert, as it is, for some steps.
#include "../../examples/bert/training.hpp"
#include "cases.hpp"

inline constexpr bert::config small_bert{
    .layers = 2, .heads = 3, .width = 48, .hidden = 80, .positions = 24, .vocabulary = 61, .segments = 2, .labels = 3};
inline constexpr gr::index_t bert_batch = 3, bert_length = 17;

template <class D>
bert::host_batch random_batch(runner<D>& r) {
  const auto draw = [&](gr::index_t n, int least, int most) {  // of least .. most - 1
    const auto numbers = r.template random<float>(n, static_cast<double>(least), static_cast<double>(most) - 0.01);
    return std::vector<std::int32_t>(numbers.begin(), numbers.end());
  };
  const auto segments = draw(bert_batch * bert_length, 0, 2);
  bert::host_batch b{draw(bert_batch * bert_length, 0, 61),
                     {segments.begin(), segments.end()},
                     draw(bert_batch, 1, static_cast<int>(bert_length) + 1),
                     draw(bert_batch, 0, 3)};
  return b;
}

template <class P, class D>
void bert_case(runner<D>& r, const std::string& name, double tolerance) {
  bert::training<D, small_bert, bert_batch, bert_length, P> training(
      r.ctx(), r.ctx(), {.dropout = 0.1, .accumulate = 2, .seed = 5, .adamw = {.lr = 1e-3, .weight_decay = 0.1}});
  for (int step = 0; step < 3; ++step) {
    for (int i = 0; i < 2; ++i) training.load(i, random_batch(r));
    training.step();
    r.keep(name + ": loss of step " + std::to_string(step), std::vector<double>{training.send_loss().value()},
           tolerance);
  }
  r.keep(name + ": tokens", gr::to_host(training.net.tokens.weight.value()), 30 * tolerance);
  r.keep(name + ": segments", gr::to_host(training.net.segments.weight.value()), 30 * tolerance);
  r.keep(name + ": logits", gr::to_host(training.evaluate(random_batch(r))), 30 * tolerance);
}

template <class D>
void bert_cases(runner<D>& r) {
  bert_case<gr::fp32>(r, "fp32", 2.5e-5);
  bert_case<gr::bf16_mixed>(r, "bf16_mixed", 1e-2);
  bert_case<gr::fp16_mixed>(r, "fp16_mixed", 1e-2);
}

// Computed in the .cpp file.
std::vector<record> bert_on_cpu(unsigned seed);
