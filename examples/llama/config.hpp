#pragma once
// The Llama family: which models it has, what each is made of, and the sizes of one. No operation is included: the
// command `gradus` reads the same tables before it compiles a model.

#include <array>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include <gradus/core/extent.hpp>

#include "../gpt/padded_rows.hpp"

namespace llama {

namespace gr = gradus;

/// What the models of one model_type of transformers have besides a Llama's parts. A new family is a row of `families`.
struct family {
  const char* name;                                             ///< model_type of a config.json; for --architecture
  const char* title;                                            ///< for a heading
  const char* class_name;                                       ///< of transformers
  gr::index_t biases = 0;                                       ///< see config::biases
  bool head_norms = false, branch_norms = false, gelu = false;  ///< see nn::llama_kind
  bool from_one = false;                                        ///< files have w of norms that scale by 1 + w
  bool scaled = false;                                          ///< embeddings times sqrt(width)
  bool caps_logits = false;                                     ///< logits x become cap tanh(x / cap)
  bool fused = false;            ///< files have q, k and v as one matrix, gate and up as another
  const char* experts = "";      ///< the key for their number; "": there are none
  const char* expert_path = "";  ///< where files have them, in a layer; and its parts
  std::array<const char*, 3> expert_parts = {};

  // Of a new model, and where a config.json does not say; its other keys are in config_keys.hpp.
  double rope_base = 10000, window_rope = 0, full_every = 0;
  bool scaled_rope = true;  ///< rotary positions can be scaled

  constexpr bool mixed() const { return *experts != 0; }
};

/// What Gemmas have in common.
constexpr family gemma(family own) {
  own.gelu = own.from_one = own.scaled = true;
  return own;
}
/// What Gemmas from the second on have in common: windows but in one of so many layers.
constexpr family gemma(family own, double full_every) {
  own.branch_norms = true;
  own.full_every = full_every;
  return gemma(own);
}

/// The families, by numbers that config::family has.
inline constexpr family families[] = {
    {.name = "llama", .title = "Llama", .class_name = "LlamaForCausalLM"},
    {.name = "mistral", .title = "Mistral", .class_name = "MistralForCausalLM"},
    {.name = "qwen2", .title = "Qwen2", .class_name = "Qwen2ForCausalLM", .biases = 1},
    {.name = "qwen3", .title = "Qwen3", .class_name = "Qwen3ForCausalLM", .head_norms = true},
    {.name = "phi3", .title = "Phi-3", .class_name = "Phi3ForCausalLM", .fused = true, .scaled_rope = false},
    gemma({.name = "gemma", .title = "Gemma", .class_name = "GemmaForCausalLM"}),
    gemma({.name = "gemma2", .title = "Gemma 2", .class_name = "Gemma2ForCausalLM", .caps_logits = true}, 2),
    gemma({.name = "gemma3_text",
           .title = "Gemma 3",
           .class_name = "Gemma3ForCausalLM",
           .head_norms = true,
           .rope_base = 1e6,
           .window_rope = 10000},
          6),
    {.name = "mixtral",
     .title = "Mixtral",
     .class_name = "MixtralForCausalLM",
     .experts = "num_local_experts",
     .expert_path = ".block_sparse_moe.",
     .expert_parts = {"w1", "w3", "w2"},
     .rope_base = 1e6},
    {.name = "qwen3_moe",
     .title = "Qwen3-MoE",
     .class_name = "Qwen3MoeForCausalLM",
     .head_norms = true,
     .experts = "num_experts",
     .expert_path = ".mlp.",
     .expert_parts = {"gate_proj", "up_proj", "down_proj"}},
};

/// The number of a family; that of no family for other names.
constexpr gr::index_t family_named(std::string_view name) {
  gr::index_t i = 0;
  while (i < std::size(families) && name != families[i].name) ++i;
  return i;
}

/// The sizes of a model, fixed when it is compiled.
struct config {
  gr::index_t layers;
  gr::index_t heads;
  gr::index_t width;
  gr::index_t context;                ///< longest sequence
  gr::index_t vocabulary;             ///< token ids 0 .. vocabulary-1
  gr::index_t kv_heads;               ///< heads of keys and values, each for heads / kv_heads of queries
  gr::index_t hidden;                 ///< features inside an MLP
  gr::index_t tied = 1;               ///< 1: the head is the token table; 0: it is a table of its own
  gr::index_t family = 0;             ///< a number of `families`
  gr::index_t head_size = 0;          ///< elements of a head; 0: width / heads
  gr::index_t biases = 0;             ///< 1: of queries, keys and values; 2: of what attention gives, too
  gr::index_t experts = 0;            ///< MLPs of a block; 0: one for all tokens
  gr::index_t experts_per_token = 0;  ///< of them, those that a token takes

  constexpr const llama::family& kind() const { return families[family]; }
  constexpr const char* name() const { return kind().name; }
  constexpr const char* title() const { return kind().title; }
  constexpr gr::index_t head() const { return head_size > 0 ? head_size : heads == 0 ? 0 : width / heads; }
  /// Rows of the token table.
  constexpr gr::index_t padded_vocabulary() const { return gpt::padded_rows(vocabulary); }
  /// Parameters of the experts that a token does not take.
  constexpr gr::index_t unused_parameters() const {
    return experts == 0 ? 0 : layers * (experts - experts_per_token) * 3 * width * hidden;
  }
  /// The sizes by the names of their flags, those that are a Llama's without those of `optional_sizes` that it lacks.
  inline std::vector<std::pair<const char*, gr::index_t>> named() const;
};

/// A size: its flag, its key in a config.json, and where it is.
struct size_row {
  const char *flag, *key;
  gr::index_t config::*size;
  bool optional = false;  ///< 0, which is said nowhere, is a Llama's
};
inline constexpr size_row size_rows[] = {
    {"layers", "num_hidden_layers", &config::layers},
    {"heads", "num_attention_heads", &config::heads},
    {"width", "hidden_size", &config::width},
    {"context", "max_position_embeddings", &config::context},
    {"vocabulary", "vocab_size", &config::vocabulary},
    {"kv-heads", "num_key_value_heads", &config::kv_heads},
    {"hidden", "intermediate_size", &config::hidden},
    {"tied", "tie_word_embeddings", &config::tied},
    {"head-size", "head_dim", &config::head_size, true},
    {"biases", "attention_bias", &config::biases, true},
    {"experts", "", &config::experts, true},
    {"experts-per-token", "num_experts_per_tok", &config::experts_per_token, true}};

inline std::vector<std::pair<const char*, gr::index_t>> config::named() const {
  std::vector<std::pair<const char*, gr::index_t>> all;
  for (const size_row& row : size_rows)
    if (!row.optional || this->*row.size > 0) all.emplace_back(row.flag, this->*row.size);
  return all;
}

}  // namespace llama
