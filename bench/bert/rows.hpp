#pragma once
// The rows of the table: a BERT trained with one technique more, or several. Batches are of 4 sequences, or of 4 times
// one, whose gradients accumulate.

#include <array>

#include "bert/training.hpp"

namespace bench {

namespace gr = gradus;

inline constexpr bert::config bert_base{.layers = 12,
                                        .heads = 12,
                                        .width = 768,
                                        .hidden = 3072,
                                        .positions = 512,
                                        .vocabulary = 30522,
                                        .segments = 2,
                                        .labels = 2};
inline constexpr bert::config bert_large{.layers = 24,
                                         .heads = 16,
                                         .width = 1024,
                                         .hidden = 4096,
                                         .positions = 512,
                                         .vocabulary = 30522,
                                         .segments = 2,
                                         .labels = 2};

/// Figures of the guide for BERT-large, 512 tokens, on a V100; 0: it has none.
struct guide_figures {
  double samples_a_second = 0, megabytes = 0;
};

template <class Result>
struct row {
  const char* name;
  bool accumulate, checkpoint;
  Result (*run)(const gr::training_options&);
  guide_figures guide;

  gr::training_options options(gr::index_t layers) const {
    gr::training_options o{.dropout = 0.1, .accumulate = accumulate ? 4 : 1, .adamw = {.lr = 2e-5, .beta2 = 0.999}};
    if (checkpoint) o.regions = gr::region_schedule::every_block(layers);
    return o;
  }
};

/// `Run<Batch, Precision, Optimizer>::run(options)` is what a row does.
template <template <gr::index_t, class, template <class, class, class> class> class Run>
constexpr auto rows() {
  using gr::fp32, gr::fp16_mixed, gr::bf16_mixed, gr::bf16_pure, gr::adamw, gr::adafactor, gr::adamw_8bit;
  using result = decltype(Run<4, fp32, adamw>::run({}));
  return std::array{
      row<result>{"batch 4", false, false, Run<4, fp32, adamw>::run, {8.86, 14949}},
      row<result>{"1 x 4", true, false, Run<1, fp32, adamw>::run, {7.75, 8681}},
      row<result>{"1 x 4, checkpointing", true, true, Run<1, fp32, adamw>::run, {5.99, 6775}},
      row<result>{"batch 4, fp16", false, false, Run<4, fp16_mixed, adamw>::run, {18.64, 13939}},
      row<result>{"batch 4, bf16", false, false, Run<4, bf16_mixed, adamw>::run, {}},
      row<result>{"1 x 4, checkpointing, fp16", true, true, Run<1, fp16_mixed, adamw>::run, {10.09, 7275}},
      row<result>{"1 x 4, checkpointing, bf16", true, true, Run<1, bf16_mixed, adamw>::run, {}},
      row<result>{"batch 4, Adafactor", false, false, Run<4, fp32, adafactor>::run, {7.96, 12295}},
      row<result>{
          "1 x 4, checkpointing, fp16, Adafactor", true, true, Run<1, fp16_mixed, adafactor>::run, {9.06, 4847}},
      row<result>{"1 x 4, checkpointing, bf16, Adafactor", true, true, Run<1, bf16_mixed, adafactor>::run, {}},
      row<result>{"batch 4, 8-bit AdamW", false, false, Run<4, fp32, adamw_8bit>::run, {9.15, 13085}},
      row<result>{
          "1 x 4, checkpointing, fp16, 8-bit AdamW", true, true, Run<1, fp16_mixed, adamw_8bit>::run, {10.35, 5363}},
      row<result>{"1 x 4, checkpointing, bf16, 8-bit AdamW", true, true, Run<1, bf16_mixed, adamw_8bit>::run, {}},
      row<result>{"all, and parameters in bf16", true, true, Run<1, bf16_pure, adamw_8bit>::run, {}},
  };
}

}  // namespace bench
