#pragma once
// The sizes, the precision, the device and the optimizer, which are parts of the trainer's types. The build defines
// them (scripts/train-bert.sh does); the defaults are those of the model called bert-tiny, on the CPU.

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "model.hpp"

#ifndef BERT_FAMILY
#define BERT_FAMILY bert
#endif
#ifndef BERT_TASK
#define BERT_TASK classes
#endif
#ifndef BERT_ACTIVATION
#define BERT_ACTIVATION gelu_erf
#endif
#ifndef BERT_LAYERS
#define BERT_LAYERS 2
#endif
#ifndef BERT_HEADS
#define BERT_HEADS 2
#endif
#ifndef BERT_WIDTH
#define BERT_WIDTH 128
#endif
#ifndef BERT_HIDDEN
#define BERT_HIDDEN (4 * BERT_WIDTH)
#endif
#ifndef BERT_POSITIONS
#define BERT_POSITIONS 512
#endif
#ifndef BERT_VOCABULARY
#define BERT_VOCABULARY 30522
#endif
#ifndef BERT_SEGMENTS
#define BERT_SEGMENTS 2
#endif
#ifndef BERT_FIRST_POSITION
#define BERT_FIRST_POSITION 0
#endif
#ifndef BERT_EMBEDDING
#define BERT_EMBEDDING 0
#endif
#ifndef BERT_LABELS
#define BERT_LABELS 2
#endif
#ifndef BERT_LENGTH
#define BERT_LENGTH 128
#endif
#ifndef BERT_BATCH
#define BERT_BATCH 16
#endif
#ifndef BERT_PRECISION
#define BERT_PRECISION fp32
#endif
#ifndef BERT_OPTIMIZER
#define BERT_OPTIMIZER adamw
#endif
#ifndef BERT_DEVICE
#define BERT_DEVICE cpu
#endif

namespace bert {

inline constexpr config sizes{.layers = BERT_LAYERS,
                              .heads = BERT_HEADS,
                              .width = BERT_WIDTH,
                              .hidden = BERT_HIDDEN,
                              .positions = BERT_POSITIONS,
                              .vocabulary = BERT_VOCABULARY,
                              .segments = BERT_SEGMENTS,
                              .labels = BERT_LABELS,
                              .family = family::BERT_FAMILY,
                              .task = task::BERT_TASK,
                              .activation = gr::nn::activation::BERT_ACTIVATION,
                              .first_position = BERT_FIRST_POSITION,
                              .embedding = BERT_EMBEDDING};
inline constexpr gr::index_t batch_size = BERT_BATCH;
/// Tokens of the longest sequence; longer texts are cut.
inline constexpr gr::index_t sequence_length = BERT_LENGTH;

using precision = gr::BERT_PRECISION;
/// The policy of the same model on the CPU, which has no products in TF32.
using host_precision = std::conditional_t<std::is_same_v<precision, gr::tf32>, gr::fp32, precision>;
using device = gr::BERT_DEVICE;
inline constexpr bool on_gpu = std::is_same_v<device, gr::cuda>;
/// Allocates like `device` and computes nothing.
using planned_device = std::conditional_t<on_gpu, gr::cuda_meta, gr::meta>;
template <class T, class D, class G>
using optimizer = gr::BERT_OPTIMIZER<T, D, G>;
#define BERT_TEXT_OF(name) #name
#define BERT_TEXT(name)    BERT_TEXT_OF(name)
inline constexpr const char* precision_name = BERT_TEXT(BERT_PRECISION);
inline constexpr const char* optimizer_name = BERT_TEXT(BERT_OPTIMIZER);
inline constexpr const char* device_name = BERT_TEXT(BERT_DEVICE);
#undef BERT_TEXT
#undef BERT_TEXT_OF

/// "bert for classes: 12 layers, width 768, 12 heads, sequences of 128 tokens, 2 labels, fp32, adamw"
inline std::string describe_model() {
  const auto n = [](gr::index_t size) { return std::to_string(size); };
  const auto kinds = kind_flags(sizes);
  return std::string(kinds[0].second) + " for " + kinds[1].second + ": " + n(sizes.layers) + " layers, width " +
         n(sizes.width) + ", " + n(sizes.heads) + " heads, sequences of " + n(sequence_length) + " tokens, " +
         (sizes.task == task::classes ? n(sizes.labels) + " labels, " : "") + precision_name + ", " + optimizer_name;
}

/// What this program was compiled for, by the names of flags.
inline std::vector<std::pair<std::string, std::string>> compiled_for() {
  const auto n = [](gr::index_t size) { return std::to_string(size); };
  std::vector<std::pair<std::string, std::string>> all;
  for (const auto& [name, value] : kind_flags(sizes)) all.emplace_back(name, value);
  for (const auto& [name, member] : size_flags) all.emplace_back(name, n(sizes.*member));
  all.insert(all.end(), {{"length", n(sequence_length)},
                         {"batch", n(batch_size)},
                         {"precision", precision_name},
                         {"optimizer", optimizer_name},
                         {"device", device_name}});
  return all;
}

static_assert(sizes.layers > 0 && batch_size > 0, "layers and batch must be positive");
static_assert(sizes.task == task::classes ? sizes.labels > 1 : sizes.labels == 1,
              "labels must be 2 or more for classes");
static_assert(sizes.heads > 0 && sizes.width % sizes.heads == 0, "width must be divisible by heads");
static_assert(sequence_length >= 3 && sequence_length <= sizes.longest(), "length must be 3 to positions");

}  // namespace bert
