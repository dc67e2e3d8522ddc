#pragma once
// The training step of examples/bert, as it is, for some steps.
#include <numeric>

#include "../../examples/bert/training.hpp"
#include "cases.hpp"

inline constexpr bert::config small_bert{
    .layers = 2, .heads = 3, .width = 48, .hidden = 80, .positions = 24, .vocabulary = 61, .segments = 2, .labels = 3};
inline constexpr bert::config small_embeddings = [] {
  bert::config c = small_bert;
  c.task = bert::task::contrastive;
  c.labels = 1;
  return c;
}();
inline constexpr gr::index_t bert_batch = 3, bert_length = 17;

template <bert::config C, class D>
bert::host_batch random_batch(runner<D>& r) {
  const auto draw = [&](gr::index_t n, int least, int most) {  // of least .. most - 1
    const auto numbers = r.template random<float>(n, static_cast<double>(least), static_cast<double>(most) - 0.01);
    return std::vector<std::int32_t>(numbers.begin(), numbers.end());
  };
  const auto lengths = draw(C.texts() * bert_batch, 1, static_cast<int>(bert_length) + 1);
  const auto tokens = static_cast<gr::index_t>(std::accumulate(lengths.begin(), lengths.end(), 0));
  const auto segments = draw(tokens, 0, 2);
  bert::host_batch b{draw(tokens, 0, 61), {segments.begin(), segments.end()}, lengths, draw(bert_batch, 0, 3)};
  if (C.embeds()) std::iota(b.labels.begin(), b.labels.end(), 0);
  return b;
}

template <class P, bert::config C = small_bert, class D>
void bert_case(runner<D>& r, const std::string& name, double tolerance) {
  bert::training<D, C, bert_batch, bert_length, P> training(
      r.ctx(), r.ctx(), {.dropout = 0.1, .accumulate = 2, .seed = 5, .adamw = {.lr = 1e-3, .weight_decay = 0.1}});
  for (int step = 0; step < 3; ++step) {
    for (int i = 0; i < 2; ++i) training.load(i, random_batch<C>(r));
    training.step();
    r.keep(name + ": loss of step " + std::to_string(step), std::vector<double>{training.send_loss().value()},
           tolerance);
  }
  r.keep(name + ": tokens", gr::to_host(training.net.tokens.weight.value()), 30 * tolerance);
  r.keep(name + ": segments", gr::to_host(training.net.segments.weight.value()), 30 * tolerance);
  r.keep(name + ": outputs", gr::to_host(training.evaluate(random_batch<C>(r))), 30 * tolerance);
}

template <class D>
void bert_cases(runner<D>& r) {
  bert_case<gr::fp32>(r, "fp32", 2.5e-5);
  // The similarities' temperature multiplies differences, and the first step follows signs of gradients.
  bert_case<gr::fp32, small_embeddings>(r, "embeddings", 2e-4);
  bert_case<gr::bf16_mixed>(r, "bf16_mixed", 1e-2);
  bert_case<gr::fp16_mixed>(r, "fp16_mixed", 1e-2);
}

// Computed in the .cpp file.
std::vector<record> bert_on_cpu(unsigned seed);
