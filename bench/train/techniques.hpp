#pragma once
// The techniques of bench/train, each a switch of its own, and the two tables that are made of them: the ladder, which
// switches one more on with each rung, and the ablation, which switches a single one off. Knows nothing of gradus, so
// that it compiles in no time.

#include <array>
#include <cstddef>
#include <string_view>

namespace bench {

#ifdef TRAIN_ON_GPU
inline constexpr bool on_gpu = true;
#else
inline constexpr bool on_gpu = false;
#endif

/// How a model is trained. All off: as a first, straightforward program would do it.
struct techniques {
  bool accumulate = false;         ///< a step's tokens in micro-batches
  bool fused_operations = false;   ///< off: norms, GELU, softmax, biases and the loss of elementary operations
  bool flash_attention = false;    ///< off: all scores are there at once
  bool fused_loss = false;         ///< off: all logits are there at once
  bool padded_vocabulary = false;  ///< rows of the token table rounded up to a multiple of 64
  bool tied_weights = false;       ///< the head is the token table
  bool tf32 = false;               ///< on a GPU: products of floats rounded to TF32
  bool bf16 = false;               ///< products in bf16
  bool fused_optimizer = false;    ///< off: unscale, norm, clip, moments and update as operations on tensors
  bool prefetch = false;  ///< batches are made on a thread of their own, and losses are read and written at the end
  bool tuned_products = false;  ///< on a GPU: the fastest of its library's algorithms
  bool step_graph = false;      ///< on a GPU: a step is submitted as one graph
  bool checkpoint = false;      ///< what blocks keep is chosen within a budget of bytes
  bool planned_memory = false;  ///< a step lies in one block of memory, at planned addresses
  bool optimizer_8bit = false;  ///< moments in 8 bits
  bool bf16_weights = false;    ///< parameters and gradients in bf16 too, rounded stochastically
  friend constexpr bool operator==(const techniques&, const techniques&) = default;
};

/// A technique's name in tables, and its switch.
struct technique {
  std::string_view name;
  bool techniques::*on;
};

/// In the order of the ladder.
inline constexpr std::array ladder_of_techniques{
    technique{"accumulate", &techniques::accumulate},
    technique{"fused-operations", &techniques::fused_operations},
    technique{"flash-attention", &techniques::flash_attention},
    technique{"fused-loss", &techniques::fused_loss},
    technique{"padded-vocabulary", &techniques::padded_vocabulary},
    technique{"tied-weights", &techniques::tied_weights},
#ifdef TRAIN_ON_GPU
    technique{"tf32", &techniques::tf32},
#endif
    technique{"bf16", &techniques::bf16},
    technique{"fused-optimizer", &techniques::fused_optimizer},
    technique{"prefetch", &techniques::prefetch},
#ifdef TRAIN_ON_GPU
    technique{"tuned-products", &techniques::tuned_products},
    technique{"step-graph", &techniques::step_graph},
#endif
    technique{"checkpoint", &techniques::checkpoint},
    technique{"planned-memory", &techniques::planned_memory},
    technique{"optimizer-8bit", &techniques::optimizer_8bit},
    technique{"bf16-weights", &techniques::bf16_weights},
};
inline constexpr std::size_t technique_count = ladder_of_techniques.size();

/// With the first `count` techniques of the ladder.
constexpr techniques first_techniques(std::size_t count) {
  techniques t;
  for (std::size_t i = 0; i < count; ++i) t.*ladder_of_techniques[i].on = true;
  return t;
}
/// With all techniques but one.
constexpr techniques all_but(std::size_t which) {
  techniques t = first_techniques(technique_count);
  t.*ladder_of_techniques[which].on = false;
  if (on_gpu && !t.tf32) t.bf16 = false;  // products of floats as they are
  if (!t.bf16) t.bf16_weights = false;
  if (!t.fused_optimizer)  // its temporaries are in no plan, its states in float, and it waits for the norm
    t.planned_memory = t.optimizer_8bit = t.step_graph = false;
  return t;
}

/// A row of a table: how it trains, and its name.
struct rung {
  std::string_view name;
  bool without = false;  ///< of the ablation: all but what `name` says
  techniques with;
};
/// The ladder, from `naive` on, and then the ablation.
constexpr auto all_rungs() {
  std::array<rung, 1 + 2 * technique_count> rungs{};
  rungs[0].name = "naive";
  for (std::size_t i = 0; i < technique_count; ++i) {
    rungs[1 + i] = {ladder_of_techniques[i].name, false, first_techniques(i + 1)};
    rungs[1 + technique_count + i] = {ladder_of_techniques[i].name, true, all_but(i)};
  }
  return rungs;
}
inline constexpr auto rungs = all_rungs();

/// What of the techniques shapes the model's types. Rungs that agree in it are one program, so that the model is
/// compiled once for them.
constexpr techniques model_part(techniques t) {
  t.fused_optimizer = t.prefetch = t.planned_memory = t.optimizer_8bit = t.tuned_products = t.step_graph = false;
  if (t.bf16) t.tf32 = false;
  return t;
}
/// The first rung whose program this one shares.
constexpr std::size_t program_of(std::size_t r) {
  std::size_t first = 0;
  while (model_part(rungs[first].with) != model_part(rungs[r].with)) ++first;
  return first;
}
/// The rung at which the model computes another function than the rungs before, or the same in other numbers: losses
/// are compared with the first that has the same.
constexpr std::size_t same_numbers_as(std::size_t r) {
  const auto numbers = [](const techniques& t) {
    return std::array{t.tied_weights, t.tf32, t.bf16, t.bf16_weights, t.optimizer_8bit};
  };
  std::size_t first = 0;
  while (numbers(rungs[first].with) != numbers(rungs[r].with)) ++first;
  return first;
}

}  // namespace bench
