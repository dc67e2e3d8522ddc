#pragma once
// The architecture, the sizes, the precision, the device and the optimizer, which are parts of the trainer's types. The
// build defines them (scripts/train.sh does); the defaults are those of the model called tiny, on the CPU.

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradus/tokenizer/text_tokenizer.hpp>

#include "../llama/model.hpp"
#include "model.hpp"

#ifndef GPT_ARCHITECTURE
#define GPT_ARCHITECTURE gpt2
#endif
#ifndef GPT_LAYERS
#define GPT_LAYERS 4
#endif
#ifndef GPT_HEADS
#define GPT_HEADS 4
#endif
#ifndef GPT_WIDTH
#define GPT_WIDTH 128
#endif
#ifndef GPT_CONTEXT
#define GPT_CONTEXT 128
#endif
#ifndef GPT_VOCABULARY
#define GPT_VOCABULARY 256
#endif
#ifndef GPT_EXPERTS
#define GPT_EXPERTS 0
#endif
#ifndef GPT_EXPERTS_PER_TOKEN
#define GPT_EXPERTS_PER_TOKEN (GPT_EXPERTS > 0 ? 2 : 0)
#endif
#ifndef GPT_KV_HEADS
#define GPT_KV_HEADS GPT_HEADS
#endif
#ifndef GPT_HIDDEN
#define GPT_HIDDEN (8 * GPT_WIDTH / 3 + 31) / 32 * 32
#endif
#ifndef GPT_TIED
#define GPT_TIED 1
#endif
#ifndef GPT_HEAD_SIZE
#define GPT_HEAD_SIZE 0
#endif
#ifndef GPT_LORA
#define GPT_LORA 0
#endif
#ifndef GPT_BASE
#define GPT_BASE stored
#endif
#ifndef GPT_PREFERENCES
#define GPT_PREFERENCES 0
#endif
#ifndef GPT_PACKED
#define GPT_PACKED 0
#endif
#ifndef GPT_BATCH
#define GPT_BATCH 16
#endif
#ifndef GPT_PRECISION
#define GPT_PRECISION fp32
#endif
#ifndef GPT_OPTIMIZER
#define GPT_OPTIMIZER adamw
#endif
#ifndef GPT_DEVICE
#define GPT_DEVICE cpu
#endif

namespace gpt {

#define GPT_TEXT_OF(name) #name
#define GPT_TEXT(name)    GPT_TEXT_OF(name)
inline constexpr const char* architecture_name = GPT_TEXT(GPT_ARCHITECTURE);
inline constexpr bool is_gpt2 = std::string_view(architecture_name) == "gpt2";
static_assert(is_gpt2 || llama::family_named(architecture_name) < std::size(llama::families),
              "GPT_ARCHITECTURE must be gpt2, or a name of llama::families");

/// The sizes that the build defines.
template <class Config>
constexpr Config sizes_of_build() {
  Config all{};
  all.layers = GPT_LAYERS;
  all.heads = GPT_HEADS;
  all.width = GPT_WIDTH;
  all.context = GPT_CONTEXT;
  all.vocabulary = GPT_VOCABULARY;
  if constexpr (requires { all.kv_heads; }) {  // a Llama's
    all.family = llama::family_named(architecture_name);
#ifdef GPT_BIASES
    all.biases = GPT_BIASES;
#else
    all.biases = all.kind().biases;
#endif
    all.head_size = GPT_HEAD_SIZE;
    all.kv_heads = GPT_KV_HEADS;
    all.hidden = GPT_HIDDEN;
    all.tied = GPT_TIED;
  }
  if constexpr (requires { all.experts; }) {
    all.experts = GPT_EXPERTS;
    all.experts_per_token = GPT_EXPERTS_PER_TOKEN;
  }
  return all;
}
inline constexpr auto sizes = sizes_of_build<std::conditional_t<is_gpt2, config, llama::config>>();
inline constexpr gr::index_t batch_size = GPT_BATCH;
inline constexpr gr::index_t adapter_rank = GPT_LORA;                 ///< 0: all parameters are trained
inline constexpr auto base_storage = gr::nn::base_storage::GPT_BASE;  ///< of what adapters are trained on
inline constexpr bool packed = GPT_PACKED;            ///< whether the data are examples, and batches packed documents
inline constexpr bool preferences = GPT_PREFERENCES;  ///< whether these are pairs, one a batch

/// The smallest type that holds a token id.
using token = std::conditional_t<(sizes.vocabulary <= 256), std::uint8_t,
                                 std::conditional_t<(sizes.vocabulary <= 65536), std::uint16_t, std::int32_t>>;

using precision = gr::GPT_PRECISION;
/// The policy for inference on the CPU, which has no products in TF32 or FP8.
using host_precision =
    std::conditional_t<std::is_same_v<precision, gr::tf32>, gr::fp32,
                       std::conditional_t<std::is_same_v<precision, gr::fp8_mixed>, gr::bf16_mixed, precision>>;
using device = gr::GPT_DEVICE;
inline constexpr bool on_gpu = std::is_same_v<device, gr::cuda>;
/// Allocates like `device` and computes nothing.
using planned_device = std::conditional_t<on_gpu, gr::cuda_meta, gr::meta>;
inline constexpr const char* precision_name = GPT_TEXT(GPT_PRECISION);
template <class T, class D, class G>
using optimizer = gr::GPT_OPTIMIZER<T, D, G>;
inline constexpr const char* optimizer_name = GPT_TEXT(GPT_OPTIMIZER);
inline constexpr const char* device_name = GPT_TEXT(GPT_DEVICE);
inline constexpr const char* base_name = GPT_TEXT(GPT_BASE);
#undef GPT_TEXT
#undef GPT_TEXT_OF

/// The model on the CPU, as files are read into it.
using network = model_of<placed<gr::cpu, host_precision, adapter_rank>, sizes>;
/// The model on the CPU, as it is trained.
using trained_network = model_of<placed<gr::cpu, host_precision, adapter_rank, base_storage>, sizes>;

/// "4 layers", "1 layer"; "2 batches" with the plural given
inline std::string counted(gr::index_t n, const std::string& what, const std::string& plural = "") {
  return std::to_string(n) + " " + (n == 1 ? what : plural.empty() ? what + "s" : plural);
}
/// ", 8 experts, 2 for each token"; empty for a model without experts
template <class Config>
std::string described_experts(const Config& of) {
  if constexpr (requires { of.experts; })
    if (of.experts > 0)
      return ", " + counted(of.experts, "expert") + ", " + std::to_string(of.experts_per_token) + " for each token";
  return "";
}
/// "gpt: 4 layers, width 128, 4 heads, context 128, fp32"
inline std::string describe_model() {
  return std::string(sizes.name()) + ": " + counted(sizes.layers, "layer") + ", width " + std::to_string(sizes.width) +
         ", " + counted(sizes.heads, "head") + described_experts(sizes) + ", context " + std::to_string(sizes.context) +
         ", " + precision_name;
}

/// What this program was compiled for, by the names of flags.
inline std::vector<std::pair<std::string, std::string>> compiled_for() {
  std::vector<std::pair<std::string, std::string>> all{{"architecture", architecture_name}};
  for (const auto& [name, size] : sizes.named()) all.emplace_back(name, std::to_string(size));
  all.insert(all.end(), {{"batch", std::to_string(batch_size)},
                         {"precision", precision_name},
                         {"optimizer", optimizer_name},
                         {"device", device_name}});
  if (adapter_rank > 0) all.insert(all.end(), {{"lora", std::to_string(adapter_rank)}, {"base", base_name}});
  return all;
}

static_assert(sizes.layers > 0 && sizes.context > 0 && batch_size > 0, "layers, context and batch must be positive");
static_assert(sizes.heads > 0 && (sizes.width % sizes.heads == 0 || GPT_HEAD_SIZE > 0),
              "width must be divisible by heads");
static_assert(sizes.vocabulary >= gr::byte_tokenizer::vocabulary, "the vocabulary must hold the 256 bytes");

}  // namespace gpt
