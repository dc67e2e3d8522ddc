#include "gguf.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numbers>
#include <optional>
#include <set>

#include <gradus/core/parse_number.hpp>
#include <gradus/io/atomic_file.hpp>
#include <gradus/io/extents.hpp>
#include <gradus/io/sharded_safetensors.hpp>
#include <gradus/io/text_file.hpp>

#include "../model_folder.hpp"
#include "generation_config.hpp"
#include "huggingface_config.hpp"

namespace gpt {

namespace fs = std::filesystem;
using nlohmann::json, nlohmann::ordered_json;
using shape_type = std::vector<std::size_t>;

// ---- The table

// A key of config.json: it has a key in GGUF, behind the architecture's name, or may have these values alone, as a JSON
// array whose first is the default; or both may hold.
struct config_row {
  const char* key;
  const char* gguf = nullptr;
  const char* only = nullptr;
  bool real = false;
};
// How the values of a tensor differ.
enum class change { none, transposed, query_rows, key_rows, minus_one };
// Tensors by their names without ".weight" and ".bias"; # is the number of a block.
struct tensor_row {
  const char *theirs, *gguf;
  change how = change::none;
};
struct gguf_architecture {
  const char *model_type, *class_name, *name;
  const char* prefix;  // of tensors' names but the head's; some files omit it
  std::vector<tensor_row> tensors;
  std::vector<config_row> config;
  bool llama3_positions = false;         // whether rotary positions may be scaled as Llama 3's
  std::size_t full_attention_every = 1;  // the other blocks' attention has a window
};

namespace {

const std::vector<tensor_row> gpt2_tensors{{"wte", "token_embd"},
                                           {"wpe", "position_embd"},
                                           {"ln_f", "output_norm"},
                                           {"lm_head", "output"},
                                           {"h.#.ln_1", "blk.#.attn_norm"},
                                           {"h.#.attn.c_attn", "blk.#.attn_qkv", change::transposed},
                                           {"h.#.attn.c_proj", "blk.#.attn_output", change::transposed},
                                           {"h.#.ln_2", "blk.#.ffn_norm"},
                                           {"h.#.mlp.c_fc", "blk.#.ffn_up", change::transposed},
                                           {"h.#.mlp.c_proj", "blk.#.ffn_down", change::transposed}};

// The Llama family's. `pairs`: the rows of a head are in the order of Meta's files, in which the two that a rotation
// turns are side by side. `norms` are stored as w - 1 by Gemma.
std::vector<tensor_row> decoder_tensors(bool pairs, change norms, bool four_norms) {
  std::vector<tensor_row> all{{"embed_tokens", "token_embd"},
                              {"norm", "output_norm", norms},
                              {"lm_head", "output"},
                              {"layers.#.input_layernorm", "blk.#.attn_norm", norms},
                              {"layers.#.self_attn.q_proj", "blk.#.attn_q", pairs ? change::query_rows : change::none},
                              {"layers.#.self_attn.k_proj", "blk.#.attn_k", pairs ? change::key_rows : change::none},
                              {"layers.#.self_attn.v_proj", "blk.#.attn_v"},
                              {"layers.#.self_attn.o_proj", "blk.#.attn_output"},
                              {"layers.#.self_attn.q_norm", "blk.#.attn_q_norm", norms},
                              {"layers.#.self_attn.k_norm", "blk.#.attn_k_norm", norms},
                              {"layers.#.mlp.gate_proj", "blk.#.ffn_gate"},
                              {"layers.#.mlp.up_proj", "blk.#.ffn_up"},
                              {"layers.#.mlp.down_proj", "blk.#.ffn_down"}};
  if (four_norms)
    all.insert(all.end(), {{"layers.#.post_attention_layernorm", "blk.#.post_attention_norm", norms},
                           {"layers.#.pre_feedforward_layernorm", "blk.#.ffn_norm", norms},
                           {"layers.#.post_feedforward_layernorm", "blk.#.post_ffw_norm", norms}});
  else all.push_back({"layers.#.post_attention_layernorm", "blk.#.ffn_norm", norms});
  return all;
}

std::vector<config_row> decoder_config(std::vector<config_row> own) {
  own.insert(own.begin(), {{"num_hidden_layers", "block_count"},
                           {"num_attention_heads", "attention.head_count"},
                           {"num_key_value_heads", "attention.head_count_kv"},
                           {"head_dim", "attention.key_length"},
                           {"hidden_size", "embedding_length"},
                           {"intermediate_size", "feed_forward_length"},
                           {"max_position_embeddings", "context_length"},
                           {"vocab_size", "vocab_size"},
                           {"rms_norm_eps", "attention.layer_norm_rms_epsilon", nullptr, true},
                           {"attention_bias", nullptr, "[false]"}});
  return own;
}

// Each model_type that is converted.
const std::vector<gguf_architecture>& architectures_of_gguf() {
  const char *silu = R"(["silu"])", *no = "[false]", *none = "[null]", *tanh = R"(["gelu_pytorch_tanh"])";
  const std::vector<config_row> qwen{{"hidden_act", nullptr, silu}, {"use_sliding_window", nullptr, no}};
  const std::vector<config_row> gemma{{"hidden_activation", nullptr, tanh},
                                      {"use_bidirectional_attention", nullptr, "[false, null]"},
                                      {"query_pre_attn_scalar"},
                                      {"sliding_window", "attention.sliding_window"}};
  std::vector<config_row> gemma2 = gemma, gemma3 = gemma;
  gemma2.insert(gemma2.end(), {{"attn_logit_softcapping", "attn_logit_softcapping", nullptr, true},
                               {"final_logit_softcapping", "final_logit_softcapping", nullptr, true}});
  gemma3.insert(gemma3.end(), {{"attn_logit_softcapping", nullptr, none},
                               {"final_logit_softcapping", nullptr, none},
                               {"sliding_window_pattern", nullptr, "[6]"},
                               {"_sliding_window_pattern", nullptr, "[6]"},
                               {"rope_local_base_freq", nullptr, "[10000.0]"}});
  static const std::vector<gguf_architecture> all{
      {"gpt2",
       "GPT2LMHeadModel",
       "gpt2",
       "transformer.",
       gpt2_tensors,
       {{"n_layer", "block_count"},
        {"n_head", "attention.head_count"},
        {"n_embd", "embedding_length"},
        {"n_inner", "feed_forward_length"},
        {"n_positions", "context_length"},
        {"vocab_size", "vocab_size"},
        {"layer_norm_epsilon", "attention.layer_norm_epsilon", nullptr, true},
        {"activation_function", nullptr, R"(["gelu_new", "gelu_pytorch_tanh"])"},
        {"scale_attn_weights", nullptr, "[true]"},
        {"scale_attn_by_inverse_layer_idx", nullptr, no},
        {"add_cross_attention", nullptr, no}}},
      {"llama", "LlamaForCausalLM", "llama", "model.", decoder_tensors(true, change::none, false),
       decoder_config({{"hidden_act", nullptr, silu}, {"mlp_bias", nullptr, no}}), true},
      {"mistral", "MistralForCausalLM", "llama", "model.", decoder_tensors(true, change::none, false),
       decoder_config({{"hidden_act", nullptr, silu}, {"sliding_window", nullptr, none}})},
      {"qwen2", "Qwen2ForCausalLM", "qwen2", "model.", decoder_tensors(false, change::none, false),
       decoder_config(qwen)},
      {"qwen3", "Qwen3ForCausalLM", "qwen3", "model.", decoder_tensors(false, change::none, false),
       decoder_config(qwen)},
      {"gemma", "GemmaForCausalLM", "gemma", "model.", decoder_tensors(false, change::minus_one, false),
       decoder_config({{"hidden_act", nullptr, R"(["gelu_pytorch_tanh", "gelu"])"},
                       {"hidden_activation", nullptr, R"(["gelu_pytorch_tanh", null])"},
                       {"use_bidirectional_attention", nullptr, "[false, null]"}})},
      {"gemma2", "Gemma2ForCausalLM", "gemma2", "model.", decoder_tensors(false, change::minus_one, true),
       decoder_config(gemma2), false, 2},
      {"gemma3_text", "Gemma3ForCausalLM", "gemma3", "model.", decoder_tensors(false, change::minus_one, true),
       decoder_config(gemma3), false, 6},
  };
  return all;
}

// Keys that are read elsewhere.
constexpr std::string_view other_keys =
    " is_encoder_decoder layer_types max_window_layers rope_parameters rope_scaling rope_theta sliding_window "
    "tie_word_embeddings ";

// ---- Names

// A name as another pattern has it, with the number of the block in place of #; empty if the pattern does not fit.
std::string renamed(std::string_view name, std::string_view from, std::string_view to) {
  const auto number = from.find('#');
  if (number == from.npos) return name == from ? std::string(to) : std::string();
  const std::string_view before = from.substr(0, number), after = from.substr(number + 1);
  if (!name.starts_with(before) || !name.ends_with(after) || name.size() <= before.size() + after.size()) return "";
  const std::string digits(name.substr(before.size(), name.size() - before.size() - after.size()));
  if (digits.find_first_not_of("0123456789") != digits.npos) return "";
  return std::string(to.substr(0, to.find('#'))) + digits + std::string(to.substr(to.find('#') + 1));
}

// A tensor's name elsewhere, and its row; no row if there is none of the name.
struct other_name {
  std::string name;
  const tensor_row* row = nullptr;
};
other_name translated(const gguf_architecture& of, std::string_view name, const char* tensor_row::*from,
                      const char* tensor_row::*to) {
  const auto dot = name.rfind('.');
  const std::string_view kind = dot == name.npos ? "" : name.substr(dot);
  if (kind != ".weight" && kind != ".bias") return {};
  for (const tensor_row& row : of.tensors)
    if (const std::string found = renamed(name.substr(0, dot), row.*from, row.*to); !found.empty())
      return {found + std::string(kind), &row};
  return {};
}
other_name gguf_name(const gguf_architecture& of, std::string_view theirs) {
  if (theirs.starts_with(of.prefix)) theirs.remove_prefix(std::string_view(of.prefix).size());
  return translated(of, theirs, &tensor_row::theirs, &tensor_row::gguf);
}
other_name their_name(const gguf_architecture& of, std::string_view gguf) {
  other_name found = translated(of, gguf, &tensor_row::gguf, &tensor_row::theirs);
  if (found.row != nullptr && found.name != "lm_head.weight") found.name.insert(0, of.prefix);
  return found;
}

// ---- Values

// [rows, columns] -> [columns, rows]
std::vector<float> transposed(const std::vector<float>& from, std::size_t rows) {
  const std::size_t columns = from.size() / rows;
  std::vector<float> to(from.size());
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) to[j * rows + i] = from[i * columns + j];
  return to;
}
// Rows of `heads` heads: those that a rotation turns together come to lie side by side, or half a head apart.
std::vector<float> with_pairs(const std::vector<float>& from, std::size_t rows, std::size_t heads, bool side_by_side) {
  const std::size_t width = from.size() / rows, head = rows / heads;
  std::vector<float> to(from.size());
  for (std::size_t i = 0; i < rows; ++i) {
    const std::size_t in_head = i % head, apart = i - in_head + in_head % 2 * (head / 2) + in_head / 2;
    const std::size_t source = side_by_side ? apart : i, target = side_by_side ? i : apart;
    std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(source * width), width,
                to.begin() + static_cast<std::ptrdiff_t>(target * width));
  }
  return to;
}
struct head_counts {
  std::size_t queries = 0, keys = 0;
};
// The values of a tensor of Hugging Face's in a GGUF file, or the other way round. `shape` is that of `values`;
// messages begin with `called`.
std::vector<float> changed(std::vector<float> values, change how, std::span<const std::size_t> shape,
                           const head_counts& all_heads, bool to_gguf, const std::string& called) {
  const std::size_t heads = how == change::query_rows ? all_heads.queries : all_heads.keys;
  if (values.empty() || how == change::none) return values;
  if (how == change::transposed) return shape.size() == 2 ? transposed(values, shape[0]) : values;
  if (how == change::minus_one) {
    for (float& v : values) v += to_gguf ? 1.0f : -1.0f;
    return values;
  }
  if (heads == 0 || shape[0] % (2 * heads) != 0)
    throw gr::error(called + " has " + std::to_string(shape[0]) + " rows, which are not those of " +
                    std::to_string(heads) + " heads");
  return with_pairs(values, shape[0], heads, to_gguf);
}
shape_type changed(shape_type shape, change how) {
  if (how == change::transposed) std::ranges::reverse(shape);
  return shape;
}

// ---- Rotary positions

constexpr const char* rope_factors_name = "rope_freqs.weight";

// Tokens in which the frequency i of a head goes round.
double wave_length(std::size_t i, std::size_t head, double base) {
  return 2 * std::numbers::pi * std::pow(base, 2 * static_cast<double>(i) / static_cast<double>(head));
}
// What each frequency of a head is divided by in Llama 3's scaled positions (transformers, modeling_rope_utils.py).
std::vector<float> llama3_factors(std::size_t head, double base, const json& scaling) {
  const double factor = scaling.at("factor"), low = scaling.at("low_freq_factor"),
               high = scaling.at("high_freq_factor"), context = scaling.at("original_max_position_embeddings");
  std::vector<float> all;
  for (std::size_t i = 0; i < head / 2; ++i) {
    const double smooth = std::clamp((context / wave_length(i, head, base) - low) / (high - low), 0.0, 1.0);
    all.push_back(static_cast<float>(1 / ((1 - smooth) / factor + smooth)));
  }
  return all;
}

// A config.json that is converted.
struct folder_config {
  std::string path;
  json values;
  const gguf_architecture* of = nullptr;

  explicit folder_config(const fs::path& file)
      : path(file.string()), values(gr::parse_json(gr::read_text(file), file.string())) {
    if (!values.is_object()) fail("is not a JSON object");
    std::string known;
    for (const gguf_architecture& a : architectures_of_gguf()) {
      if (value("model_type") == a.model_type) of = &a;
      known += (known.empty() ? "" : ", ") + std::string(a.model_type);
    }
    if (of == nullptr) fail("'model_type' is " + value("model_type").dump() + ", and GGUF is written for " + known);
    complete();
    check();
  }
  [[noreturn]] void fail(const std::string& what) const { throw gr::error(path + ": " + what); }
  json value(const std::string& key) const { return values.value(key, json()); }
  std::size_t size(const std::string& key) const {
    const json found = value(key);
    if (!found.is_number_unsigned() || found > std::uint32_t{1} << 31)
      fail("'" + key + "' is " + found.dump() + " where a whole number is needed");
    return found;
  }
  double real(const json& in, const std::string& key) const {
    const json found = in.value(key, json());
    if (!found.is_number()) fail("'" + key + "' is " + found.dump() + " where a number is needed");
    return found;
  }
  bool has_row(const char* key) const { return row(key) != of->config.end(); }
  bool tied() const {
    return value("tie_word_embeddings").is_boolean()
               ? value("tie_word_embeddings").get<bool>()
               : of->prefix == std::string_view("transformer.") || std::string_view(of->name).starts_with("gemma");
  }

  head_counts heads() const {
    if (!has_row("num_attention_heads")) return {};
    return {size("num_attention_heads"), size("num_key_value_heads")};
  }

  // The scaling of rotary positions, with "rope_type" and "rope_theta", however the file has them.
  json rope() const {
    json found = value("rope_parameters");
    if (found.is_null()) found = value("rope_scaling");
    if (found.is_object() && found.contains("full_attention")) {
      const json window = found.value("sliding_attention", json::object());
      if (window.value("rope_type", "default") != "default" || window.value("rope_theta", 10000.0) != 10000.0)
        fail("'rope_parameters' of windows are " + window.dump() + " where a rope_theta of 10000 is needed");
      found = found["full_attention"];
    }
    if (found.is_null()) found = json::object();
    if (!found.is_object()) fail("'rope_scaling' is " + found.dump() + " where an object is needed");
    if (!found.contains("rope_type")) found["rope_type"] = found.value("type", json("default"));
    if (!found.contains("rope_theta")) found["rope_theta"] = values.value("rope_theta", json(10000.0));
    found.erase("type");
    return found;
  }

 private:
  std::vector<config_row>::const_iterator row(std::string_view key) const {
    return std::ranges::find_if(of->config, [&](const config_row& r) { return r.key == key; });
  }
  void otherwise(const char* key, const json& to) {
    if (has_row(key) && value(key).is_null()) values[key] = to;
  }
  // Keys that may be left out, as their defaults follow from others.
  void complete() {
    if (has_row("n_inner")) otherwise("n_inner", 4 * size("n_embd"));
    if (!has_row("num_attention_heads")) return;
    otherwise("num_key_value_heads", value("num_attention_heads"));
    if (size("num_attention_heads") == 0) fail("'num_attention_heads' is 0");
    otherwise("head_dim", size("hidden_size") / size("num_attention_heads"));
    otherwise("max_position_embeddings", 2048u);
    otherwise("rms_norm_eps", 1e-6);
    otherwise("query_pre_attn_scalar", value("head_dim"));
  }
  void check() const {
    for (const auto& [key, found] : values.items()) {
      const auto r = row(key);
      if (r == of->config.end()) {
        if (!found.is_null() && !is_harmless(key, other_keys))
          fail("'" + key + "' is a setting that is not known, and might change what the model computes");
      } else if (r->only != nullptr && !found.is_null()) {
        const json allowed = json::parse(r->only);
        if (std::ranges::find(allowed, found) == allowed.end())
          fail("'" + key + "' is " + found.dump() + " where " + allowed.front().dump() + " is needed");
      }
    }
    if (has_row("query_pre_attn_scalar") && value("query_pre_attn_scalar") != value("head_dim"))
      fail("'query_pre_attn_scalar' is " + value("query_pre_attn_scalar").dump() + " where 'head_dim', " +
           value("head_dim").dump() + ", is needed");
    const json kinds = value("layer_types");
    for (std::size_t i = 0; kinds.is_array() && i < kinds.size(); ++i)
      if (const char* due = (i + 1) % of->full_attention_every == 0 ? "full_attention" : "sliding_attention";
          kinds[i] != due)
        fail("'layer_types': block " + std::to_string(i) + " is " + kinds[i].dump() + " where " + due + " is needed");
  }
};

void set_rope(gr::gguf_writer& to, const folder_config& config) {
  const std::string prefix = std::string(config.of->name) + ".rope.";
  json rope = config.rope();
  const double base = config.real(rope, "rope_theta");
  const std::string type = rope["rope_type"].is_string() ? rope["rope_type"].get<std::string>() : rope.dump();
  const std::size_t head = config.size("head_dim");
  to.set(prefix + "dimension_count", static_cast<std::uint32_t>(head));
  to.set(prefix + "freq_base", static_cast<float>(base));
  std::vector<std::string> known{"rope_type", "rope_theta", "factor", "original_max_position_embeddings"};
  if (type == "linear" || type == "yarn") {
    to.set(prefix + "scaling.type", type.c_str());
    to.set(prefix + "scaling.factor", static_cast<float>(config.real(rope, "factor")));
    if (type == "yarn")
      to.set(prefix + "scaling.original_context_length",
             static_cast<std::uint32_t>(config.real(rope, "original_max_position_embeddings")));
  } else if (type == "llama3" && config.of->llama3_positions) {
    for (const char* key : {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"})
      config.real(rope, key);
    known.insert(known.end(), {"low_freq_factor", "high_freq_factor"});
    to.add(rope_factors_name, "F32", {head / 2}, [=] { return llama3_factors(head, base, rope); });
  } else if (type != "default") {
    config.fail("'rope_type' is \"" + type + "\" where default, linear, yarn" +
                (config.of->llama3_positions ? ", llama3" : "") + " are written");
  }
  for (const auto& [key, value] : rope.items())
    if (std::ranges::find(known, key) == known.end())
      config.fail("'" + key + "' is a setting of rotary positions that is not known");
}

// The metadata of a config.json.
void set_config(gr::gguf_writer& to, const folder_config& config) {
  const std::string prefix = std::string(config.of->name) + ".";
  for (const config_row& row : config.of->config) {
    if (row.gguf == nullptr || config.value(row.key).is_null()) continue;
    if (row.real) to.set(prefix + row.gguf, static_cast<float>(config.real(config.values, row.key)));
    else to.set(prefix + row.gguf, static_cast<std::uint32_t>(config.size(row.key)));
  }
  if (!config.has_row("head_dim")) return;
  to.set(prefix + "attention.value_length", static_cast<std::uint32_t>(config.size("head_dim")));
  set_rope(to, config);
}

// A number as the shortest text says it: 1e-05, not what its float is as a double.
double shortest(float x) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), x).ptr;
  return gr::parse_number<double>(std::string_view(text.data(), static_cast<std::size_t>(end - text.data())))
      .value_or(x);
}

const gguf_architecture& architecture_of(const gr::gguf_file& file) {
  const auto name = file.value<std::string>("general.architecture");
  std::string known;
  for (const gguf_architecture& a : architectures_of_gguf()) {
    if (name == a.name) return a;
    if (!known.ends_with(a.name)) known += (known.empty() ? "" : ", ") + std::string(a.name);
  }
  throw gr::error(file.path().string() + ": 'general.architecture' is " + name + ", and those that are read are " +
                  known);
}

head_counts heads_of(const gr::gguf_file& file, const gguf_architecture& of) {
  const std::string key = std::string(of.name) + ".attention.head_count";
  const std::size_t queries = file.count(key);
  return {queries, file.count(key + "_kv", queries)};
}

bool is_vector(const shape_type& shape) {
  return std::ranges::count_if(shape, [](std::size_t n) { return n != 1; }) < 2;
}

}  // namespace

// ---- From GGUF

gguf_tensors::gguf_tensors(const fs::path& path) : file_(path), architecture_(&architecture_of(file_)) {
  const auto fail = [&](const std::string& what) { throw gr::error(path.string() + ": " + what); };
  std::set<std::string, std::less<>> blocks;
  for (const auto& [name, e] : file_.entries()) {
    file_.check_readable(name);
    if (e.shape.empty() || e.shape.size() > 2)
      fail("'" + name + "' has " + std::to_string(e.shape.size()) + " dimensions where 1 or 2 are needed");
    if (name == rope_factors_name) continue;
    if (their_name(*architecture_, name).row == nullptr)
      fail("'" + name + "' is not a tensor of the architecture " + architecture_->name);
    if (name.starts_with("blk.")) blocks.insert(name.substr(0, name.find('.', 4)));
  }
  const std::string key = std::string(architecture_->name) + ".block_count";
  if (const std::size_t count = file_.count(key); count != blocks.size())
    fail("'" + key + "' is " + std::to_string(count) + ", and there are tensors of " + std::to_string(blocks.size()) +
         " blocks");
}
std::vector<std::string> gguf_tensors::names() const {
  std::vector<std::string> all;
  for (const auto& [name, e] : file_.entries())
    if (name != rope_factors_name) all.push_back(their_name(*architecture_, name).name);
  return all;
}
bool gguf_tensors::has(std::string_view name) const {
  const other_name at = gguf_name(*architecture_, name);
  return at.row != nullptr && file_.has(at.name);
}
shape_type gguf_tensors::shape(std::string_view name) const {
  const other_name at = gguf_name(*architecture_, name);
  if (at.row == nullptr) return file_.entry(name).shape;  // throws
  return changed(file_.entry(at.name).shape, at.row->how);
}
std::vector<float> gguf_tensors::read(std::string_view name, std::span<const std::size_t> of) const {
  const other_name at = gguf_name(*architecture_, name);
  if (at.row == nullptr) (void)file_.entry(name);  // throws
  const shape_type stored = changed({of.begin(), of.end()}, at.row->how);
  return changed(file_.read_as<float>(at.name, stored), at.row->how, stored, heads_of(file_, *architecture_), false,
                 file_.path().string() + ": '" + at.name + "'");
}

namespace {

// The scaling that a file's factors of rotary frequencies come from. Files do not say it: the thresholds are taken to
// be Llama 3's 1 and 4, the factor is the largest, and the context its 8192 or what a factor between the two says.
json llama3_scaling(const gguf_tensors& from, std::size_t head, double base) {
  const std::vector<float> found = from.file().read_as<float>(rope_factors_name, shape_type{head / 2});
  const double factor = found.empty() ? 1.0 : shortest(std::ranges::max(found));
  std::vector<double> contexts{8192};
  for (std::size_t i = 0; i < found.size(); ++i)
    if (const double f = found[i]; f > 1 && f < factor)
      contexts.push_back(std::round(wave_length(i, head, base) * (1 + 3 * (1 / f - 1 / factor) / (1 - 1 / factor))));
  std::erase_if(contexts, [](double context) { return !(context >= 1 && context < 4294967296.0); });
  for (const double context : contexts) {
    const json scaling{{"rope_type", "llama3"},
                       {"factor", factor},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", static_cast<long long>(context)}};
    if (std::ranges::equal(found, llama3_factors(head, base, scaling),
                           [](float a, float b) { return std::abs(a / b - 1) < 1e-4f; }))
      return scaling;
  }
  throw gr::error(from.file().path().string() + ": '" + rope_factors_name +
                  "' is not what Llama 3's scaling of rotary positions gives");
}

}  // namespace

ordered_json gguf_config(const gguf_tensors& from) {
  const gr::gguf_file& file = from.file();
  const gguf_architecture& of = from.architecture();
  const auto fail = [&](const std::string& what) { throw gr::error(file.path().string() + ": " + what); };
  const std::string prefix = std::string(of.name) + ".";
  std::vector<std::string> known;
  const auto number = [&](const std::string& key, std::optional<double> otherwise = {}) {
    known.push_back(prefix + key);
    const double found = file.number(prefix + key, otherwise);
    if (!(std::abs(found) <= std::numeric_limits<float>::max())) fail("'" + prefix + key + "' is not a finite number");
    return found;
  };
  const auto size = [&](const std::string& key, std::optional<std::size_t> otherwise = {}) {
    known.push_back(prefix + key);
    return file.count(prefix + key, otherwise);
  };
  const std::size_t width = size("embedding_length"), heads = size("attention.head_count");
  if (heads == 0) fail("'" + prefix + "attention.head_count' is 0");
  const auto default_size = [&](std::string_view key) -> std::optional<std::size_t> {
    if (key == "attention.head_count_kv") return heads;
    if (key == "attention.key_length") return width / heads;
    if (key == "vocab_size") return file.entry("token_embd.weight").shape.front();
    return {};
  };
  const auto default_real = [&](std::string_view key) -> std::optional<double> {
    if (key == "attn_logit_softcapping") return 50;
    if (key == "final_logit_softcapping") return 30;
    return {};
  };
  ordered_json config{{"architectures", {of.class_name}}, {"model_type", of.model_type}};
  for (const config_row& row : of.config) {
    if (row.only != nullptr) config[row.key] = json::parse(row.only).front();
    if (row.gguf == nullptr) continue;
    if (row.real) config[row.key] = shortest(static_cast<float>(number(row.gguf, default_real(row.gguf))));
    else config[row.key] = size(row.gguf, default_size(row.gguf));
  }
  config["tie_word_embeddings"] = !file.has("output.weight");
  const auto has_row = [&](const char* key) {
    return std::ranges::any_of(of.config, [&](const config_row& row) { return row.key == std::string_view(key); });
  };
  if (has_row("query_pre_attn_scalar")) config["query_pre_attn_scalar"] = config["head_dim"];
  if (of.full_attention_every > 1)
    for (std::size_t i = 0; i < config["num_hidden_layers"]; ++i)
      config["layer_types"].push_back((i + 1) % of.full_attention_every == 0 ? "full_attention" : "sliding_attention");
  if (has_row("head_dim")) {
    const std::size_t head = config["head_dim"];
    for (const char* key : {"attention.value_length", "rope.dimension_count"})
      if (size(key, head) != head) fail("'" + prefix + key + "' is not 'attention.key_length'");
    const double base = shortest(static_cast<float>(number("rope.freq_base", 10000)));
    config["rope_theta"] = base;
    const std::string scaling = prefix + "rope.scaling.", type = file.value<std::string>(scaling + "type", "none");
    known.insert(known.end(), {scaling + "type", scaling + "finetuned"});
    if (type == "linear" || type == "yarn") {
      config["rope_scaling"] = {{"rope_type", type},
                                {"factor", shortest(static_cast<float>(number("rope.scaling.factor")))}};
      if (type == "yarn")
        config["rope_scaling"]["original_max_position_embeddings"] = size("rope.scaling.original_context_length");
    } else if (type != "none") {
      fail("'" + scaling + "type' is " + type + " where none, linear or yarn is needed");
    }
    if (file.has(rope_factors_name)) {
      if (type != "none" || !of.llama3_positions) fail(std::string("'") + rope_factors_name + "' is not expected");
      config["rope_scaling"] = llama3_scaling(from, head, base);
    }
  }
  for (const auto& [key, value] : file.metadata())
    if (key.starts_with(prefix) && std::ranges::find(known, key) == known.end())
      fail("'" + key + "' is a setting that is not known, and might change what the model computes");
  for (const auto& [theirs, ours] :
       {std::pair("bos_token_id", "bos"), {"eos_token_id", "eos"}, {"pad_token_id", "padding"}})
    if (const std::string key = std::string("tokenizer.ggml.") + ours + "_token_id"; file.has_key(key))
      config[theirs] = file.count(key);
  const std::string stored = file.entry("token_embd.weight").dtype;
  config["torch_dtype"] = stored == "F16" ? "float16" : stored == "BF16" ? "bfloat16" : "float32";
  return config;
}

void write_folder_of_gguf(const fs::path& path, const fs::path& folder, std::size_t shard_bytes) {
  const gguf_tensors from(path);
  const ordered_json config = gguf_config(from);
  gr::safetensors_writer tensors;
  tensors.set_metadata("format", "pt");
  for (const std::string& name : from.names()) {
    const shape_type shape = from.shape(name);
    const std::string dtype = from.file().entry(gguf_name(from.architecture(), name).name).dtype;
    const auto add = [&]<class T>(std::type_identity<T>) {
      std::uint64_t count = 1;
      (void)gr::detail::multiply_fits(shape, 1, count);  // checked by the reader
      tensors.add_parts(name, gr::detail::safetensors_dtype<T>(), shape, count, [=, &from](const auto& sink) {
        sink(std::as_bytes(std::span<const T>(from.read_as<T>(name, shape))));
      });
    };
    if (dtype == "F16") add(std::type_identity<gr::f16>());
    else if (dtype == "BF16") add(std::type_identity<gr::bf16>());
    else add(std::type_identity<float>());
  }
  tensors.write_shards(folder, shard_bytes);
  gr::write_file_atomically(folder / "config.json", config.dump(2) + "\n");
  write_generation_config(folder, config);
  const json context = config.value("max_position_embeddings", config.value("n_positions", json(1024)));
  write_tokenizer_of_gguf(from.file(), context.get<std::size_t>(), folder);
}

// ---- To GGUF

namespace {

bool is_called_phi3(std::string name) {
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return name.find("phi3") != name.npos || name.find("phi-3") != name.npos;
}

}  // namespace

void write_gguf(const fs::path& folder, const fs::path& to, const std::string& type) {
  const folder_config config(folder / "config.json");
  const gguf_architecture& of = *config.of;
  gr::sharded_safetensors tensors(huggingface_tensors(folder));
  gr::gguf_writer file;
  // The numbers that llama.cpp has for "mostly of this type".
  const std::uint32_t file_type = type == "f32" ? 0 : type == "f16" ? 1 : type == "q8_0" ? 7 : 32;
  file.set("general.architecture", of.name);
  file.set("general.type", "model");
  // llama.cpp strips blanks after special tokens of a model that is called Phi-3.
  if (const std::string name = to.stem().string(); !is_called_phi3(name)) file.set("general.name", name.c_str());
  file.set("general.file_type", file_type);
  if (type == "q8_0") file.set("general.quantization_version", std::uint32_t{2});
  set_config(file, config);
  set_gguf_tokenizer(file, folder, config.values, config.size("vocab_size"));
  std::string matrices = type;
  for (char& c : matrices) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  const head_counts heads = config.heads();
  for (const std::string& name : tensors.names()) {
    // Masks and tables in old files; a head that is the token table.
    if (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") || name.ends_with(".rotary_emb.inv_freq"))
      continue;
    if (name == "lm_head.weight" && config.tied()) continue;
    const other_name at = gguf_name(of, name);
    if (at.row == nullptr)
      throw gr::error(tensors.path_of(name).string() + ": '" + name + "' is not a tensor of a " + of.model_type);
    const shape_type shape = tensors.file_of(name).entry(name).shape, stored = changed(shape, at.row->how);
    const bool vector = is_vector(stored) || at.name == "position_embd.weight";
    const std::string dtype = vector ? "F32" : matrices == "Q8_0" && stored.back() % 32 != 0 ? "F16" : matrices;
    file.add(at.name, dtype, stored, [=, &tensors, how = at.row->how] {
      return changed(tensors.read_as<float>(name, shape), how, shape, heads, true,
                     tensors.path_of(name).string() + ": '" + name + "'");
    });
  }
  file.write(to);
}

}  // namespace gpt
