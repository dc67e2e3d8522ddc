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
#include <gradus/core/printable.hpp>
#include <gradus/io/atomic_file.hpp>
#include <gradus/io/extents.hpp>
#include <gradus/io/sharded_safetensors.hpp>
#include <gradus/io/text_file.hpp>

#include "../../llama/config_json.hpp"
#include "../model_folder.hpp"
#include "gpt2_config.hpp"
#include "huggingface_config.hpp"

namespace gpt {

namespace fs = std::filesystem;
using nlohmann::json, nlohmann::ordered_json;
using shape_type = std::vector<std::size_t>;

// ---- The table

// How the values of a tensor differ.
enum class change { none, transposed, query_rows, key_rows, minus_one };
// Tensors by their names without ".weight" and ".bias"; # is the number of a block.
struct tensor_row {
  const char *theirs, *gguf;
  change how = change::none;
};
struct gguf_architecture {
  const char *model_type, *name;
  const char* prefix;  // of tensors' names but the head's; some files omit it
  std::vector<tensor_row> tensors;
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

// Each model_type that is converted.
const std::vector<gguf_architecture>& architectures_of_gguf() {
  static const std::vector<gguf_architecture> all{
      {"gpt2", "gpt2", "transformer.", gpt2_tensors},
      {"llama", "llama", "model.", decoder_tensors(true, change::none, false), true},
      {"mistral", "llama", "model.", decoder_tensors(true, change::none, false)},
      {"qwen2", "qwen2", "model.", decoder_tensors(false, change::none, false)},
      {"qwen3", "qwen3", "model.", decoder_tensors(false, change::none, false)},
      {"gemma", "gemma", "model.", decoder_tensors(false, change::minus_one, false)},
      {"gemma2", "gemma2", "model.", decoder_tensors(false, change::minus_one, true), false, 2},
      {"gemma3_text", "gemma3", "model.", decoder_tensors(false, change::minus_one, true), false, 6},
  };
  return all;
}
bool is_gpt2(const gguf_architecture& of) { return std::string_view(of.name) == "gpt2"; }

// The keys of sizes behind the architecture's name.
constexpr std::pair<const char*, gr::index_t gpt2_description::*> gpt2_numbers[] = {
    {"block_count", &gpt2_description::layers},     {"attention.head_count", &gpt2_description::heads},
    {"embedding_length", &gpt2_description::width}, {"feed_forward_length", &gpt2_description::hidden},
    {"context_length", &gpt2_description::context}, {"vocab_size", &gpt2_description::vocabulary}};
constexpr std::pair<const char*, gr::index_t llama::config::*> decoder_numbers[] = {
    {"block_count", &llama::config::layers},
    {"attention.head_count", &llama::config::heads},
    {"embedding_length", &llama::config::width},
    {"attention.head_count_kv", &llama::config::kv_heads},
    {"attention.key_length", &llama::config::head_size},
    {"feed_forward_length", &llama::config::hidden},
    {"context_length", &llama::config::context},
    {"vocab_size", &llama::config::vocabulary}};
// Rotary base of layers with windows in llama.cpp.
constexpr double window_rope_of_llama_cpp = 10000;

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
    throw gr::error(gr::printable(called) + " has " + std::to_string(shape[0]) + " rows, which are not those of " +
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
std::vector<float> llama3_factors(std::size_t head, double base, const gr::rope_scaling& by) {
  std::vector<float> all;
  for (std::size_t i = 0; i < head / 2; ++i) {
    const double turns = by.original_context / wave_length(i, head, base);
    const double smooth =
        std::clamp((turns - by.low_freq_factor) / (by.high_freq_factor - by.low_freq_factor), 0.0, 1.0);
    all.push_back(static_cast<float>(1 / ((1 - smooth) / by.factor + smooth)));
  }
  return all;
}

// A config.json that is converted, read as the trainer reads it.
struct folder_config {
  huggingface_config file;
  const gguf_architecture* of = nullptr;
  gpt2_description gpt2;       // if it is one
  llama::description decoder;  // if not

  explicit folder_config(const fs::path& path) : file(path) {
    std::string known;
    for (const gguf_architecture& a : architectures_of_gguf()) {
      if (file.value("model_type") == a.model_type) of = &a;
      known += (known.empty() ? "" : ", ") + std::string(a.model_type);
    }
    if (of == nullptr) file.fail("model_type", ", and GGUF is written for " + known);
    if (is_gpt2(*of)) gpt2 = read_gpt2_config(file);
    else decoder = llama::read_config(file);
    if (!is_gpt2(*of)) check();
  }
  bool tied() const { return is_gpt2(*of) ? gpt2.tied : decoder.sizes.tied == 1; }
  gr::index_t vocabulary() const { return is_gpt2(*of) ? gpt2.vocabulary : decoder.sizes.vocabulary; }
  head_counts heads() const {
    return {static_cast<std::size_t>(decoder.sizes.heads), static_cast<std::size_t>(decoder.sizes.kv_heads)};
  }

 private:
  // What llama.cpp does not ask a file for must be as it has it.
  void check() const {
    const llama::config& sizes = decoder.sizes;
    const gr::nn::llama_settings& by = decoder.settings;
    const auto must = [&](bool holds, const std::string& what) {
      if (!holds) file.fail(what + ": llama.cpp has nothing else");
    };
    must(sizes.biases == sizes.kind().biases, "'attention_bias' must be false");
    for (gr::index_t i = 0; i < sizes.layers; ++i)
      if (const bool due = static_cast<std::size_t>(i + 1) % of->full_attention_every != 0; by.windowed(i) != due)
        must(false, "'sliding_window' and 'layer_types' must give layer " + std::to_string(i) +
                        (due ? " a window" : " no window"));
    must(by.window_rope == 0 || by.window_rope == window_rope_of_llama_cpp,
         "'rope_local_base_freq', or 'rope_theta' of layers with windows, must be 10000");
    must(
        by.score_scale == 0 || std::abs(by.score_scale * by.score_scale * static_cast<double>(sizes.head()) - 1) < 1e-9,
        "'query_pre_attn_scalar' must be 'head_dim', " + std::to_string(sizes.head()));
    must(!sizes.kind().caps_logits || by.score_cap > 0, "'attn_logit_softcapping' must be a number");
  }
};

void set_rope(gr::gguf_writer& to, const folder_config& config) {
  const std::string prefix = std::string(config.of->name) + ".rope.";
  const gr::rope_options& rope = config.decoder.settings.rope;
  const gr::rope_scaling& by = rope.scaling;
  const auto head = static_cast<std::size_t>(config.decoder.sizes.head());
  to.set(prefix + "dimension_count", static_cast<std::uint32_t>(head));
  to.set(prefix + "freq_base", static_cast<float>(rope.base));
  if (by.factor == 1 && by.amplitude == 1) return;
  if (by.rule == gr::rope_rule::llama3) {
    if (!config.of->llama3_positions)
      config.file.fail("'rope_type' is \"llama3\" where default, linear or yarn is written for this model");
    to.add(rope_factors_name, "F32", {head / 2}, [=] { return llama3_factors(head, rope.base, by); });
    return;
  }
  const bool yarn = by.rule == gr::rope_rule::yarn;
  to.set(prefix + "scaling.type", yarn ? "yarn" : "linear");
  to.set(prefix + "scaling.factor", static_cast<float>(by.factor));
  if (!yarn) return;
  to.set(prefix + "scaling.original_context_length", static_cast<std::uint32_t>(by.original_context));
  if (by.low_freq_factor != 1 || by.high_freq_factor != 32 ||
      std::abs(by.amplitude - llama::yarn_amplitude(by.factor)) > 1e-9)
    config.file.fail(
        "'beta_fast', 'beta_slow', 'attention_factor' and 'mscale' of YaRN must be their defaults in GGUF");
}

// The metadata of a config.json.
void set_config(gr::gguf_writer& to, const folder_config& config) {
  const std::string prefix = std::string(config.of->name) + ".";
  const auto set = [&](const char* key, gr::index_t size) { to.set(prefix + key, static_cast<std::uint32_t>(size)); };
  const auto set_real = [&](const char* key, double x) { to.set(prefix + key, static_cast<float>(x)); };
  if (is_gpt2(*config.of)) {
    for (const auto& [key, size] : gpt2_numbers) set(key, config.gpt2.*size);
    set_real("attention.layer_norm_epsilon", config.gpt2.epsilon);
    return;
  }
  llama::config sizes = config.decoder.sizes;
  sizes.head_size = sizes.head();
  const gr::nn::llama_settings& by = config.decoder.settings;
  for (const auto& [key, size] : decoder_numbers) set(key, sizes.*size);
  set("attention.value_length", sizes.head_size);
  set_real("attention.layer_norm_rms_epsilon", by.norm_eps);
  if (config.of->full_attention_every > 1) set("attention.sliding_window", static_cast<gr::index_t>(by.window));
  if (by.score_cap > 0) set_real("attn_logit_softcapping", by.score_cap);
  if (by.logit_cap > 0) set_real("final_logit_softcapping", by.logit_cap);
  set_rope(to, config);
}

}  // namespace

double shortest(float x) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), x).ptr;
  return gr::parse_number<double>(std::string_view(text.data(), static_cast<std::size_t>(end - text.data())))
      .value_or(x);
}

namespace {

const gguf_architecture& architecture_of(const gr::gguf_file& file) {
  const auto name = file.value<std::string>("general.architecture");
  std::string known;
  for (const gguf_architecture& a : architectures_of_gguf()) {
    if (name == a.name) return a;
    if (!known.ends_with(a.name)) known += (known.empty() ? "" : ", ") + std::string(a.name);
  }
  throw gr::error(file.path().string() + ": 'general.architecture' is " + gr::printable(name) +
                  ", and those that are read are " + known);
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
  const auto fail = [&](const std::string& what) { throw gr::error(path.string() + ": " + gr::printable(what)); };
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
// be Llama 3's 1 and 4, the factor is the largest, and the context its 8192, what a factor between the two says, or one
// that gives none.
gr::rope_scaling llama3_scaling(const gguf_tensors& from, std::size_t head, double base) {
  const std::vector<float> found = from.file().read_as<float>(rope_factors_name, shape_type{head / 2});
  const double factor = found.empty() ? 1.0 : shortest(std::ranges::max(found));
  std::vector<double> contexts{8192};
  for (std::size_t i = 0; i < found.size(); ++i)
    if (const double f = found[i]; f > 1 && f < factor)
      contexts.push_back(std::round(wave_length(i, head, base) * (1 + 3 * (1 / f - 1 / factor) / (1 - 1 / factor))));
  for (std::size_t i = 0; i + 1 < found.size(); ++i)  // none is between the two
    if (found[i] == 1 && found[i + 1] > 1)
      contexts.push_back(std::round(std::sqrt(4 * wave_length(i, head, base) * wave_length(i + 1, head, base))));
  std::erase_if(contexts, [](double context) { return !(context >= 1 && context < 4294967296.0); });
  for (const double context : contexts) {
    const gr::rope_scaling scaling{.factor = factor, .original_context = context};
    if (std::ranges::equal(found, llama3_factors(head, base, scaling),
                           [](float a, float b) { return std::abs(a / b - 1) < 1e-4f; }))
      return scaling;
  }
  throw gr::error(from.file().path().string() + ": '" + rope_factors_name +
                  "' is not what Llama 3's scaling of rotary positions gives");
}

// The numbers of a file's architecture, and the keys that were read.
struct gguf_numbers {
  const gr::gguf_file& file;
  std::string prefix;
  std::vector<std::string> known = {};

  [[noreturn]] void fail(const std::string& what) const {
    throw gr::error(file.path().string() + ": " + gr::printable(what));
  }
  double real(const std::string& key, std::optional<double> otherwise = {}) {
    known.push_back(prefix + key);
    const double found = file.number(prefix + key, otherwise);
    if (!(std::abs(found) <= std::numeric_limits<float>::max())) fail("'" + prefix + key + "' is not a finite number");
    return shortest(static_cast<float>(found));
  }
  gr::index_t whole(const std::string& key, std::optional<std::size_t> otherwise = {}) {
    known.push_back(prefix + key);
    const std::size_t found = file.count(prefix + key, otherwise);
    if (found == 0 && key != "block_count") fail("'" + prefix + key + "' is 0");
    return found;
  }
};

// The model in a GGUF file, where llama.cpp has defaults with these.
llama::description decoder_of(const gguf_tensors& from, gguf_numbers& in) {
  const gr::gguf_file& file = from.file();
  const gguf_architecture& of = from.architecture();
  llama::config sizes{};
  sizes.family = llama::family_named(of.model_type);
  const llama::family& kind = sizes.kind();
  sizes.biases = kind.biases;
  sizes.tied = file.has("output.weight") ? 0 : 1;
  for (const auto& [key, size] : decoder_numbers)
    sizes.*size =
        in.whole(key, size == &llama::config::kv_heads    ? std::optional<std::size_t>(sizes.heads)
                      : size == &llama::config::head_size ? std::optional<std::size_t>(sizes.width / sizes.heads)
                      : size == &llama::config::vocabulary
                          ? std::optional<std::size_t>(file.entry("token_embd.weight").shape.front())
                          : std::optional<std::size_t>());
  for (const char* key : {"attention.value_length", "rope.dimension_count"})
    if (in.whole(key, sizes.head_size) != sizes.head_size)
      in.fail("'" + in.prefix + key + "' is not 'attention.key_length'");
  gr::nn::llama_settings by = llama::new_settings(kind);
  by.norm_eps = in.real("attention.layer_norm_rms_epsilon");
  if (of.full_attention_every > 1) by.window = static_cast<double>(in.whole("attention.sliding_window"));
  if (kind.caps_logits) {
    by.score_cap = in.real("attn_logit_softcapping", 50);
    by.logit_cap = in.real("final_logit_softcapping", 30);
  }
  if (kind.window_rope > 0) by.window_rope = window_rope_of_llama_cpp;
  by.rope.base = in.real("rope.freq_base", 10000);
  const std::string scaling = in.prefix + "rope.scaling.", type = file.value<std::string>(scaling + "type", "none");
  in.known.insert(in.known.end(), {scaling + "type", scaling + "finetuned"});
  if (type == "linear") {
    by.rope.scaling = {.factor = in.real("rope.scaling.factor"), .rule = gr::rope_rule::linear};
  } else if (type == "yarn") {
    const double factor = in.real("rope.scaling.factor");
    by.rope.scaling = {.factor = factor,
                       .low_freq_factor = 1,
                       .high_freq_factor = 32,
                       .original_context = static_cast<double>(in.whole("rope.scaling.original_context_length")),
                       .rule = gr::rope_rule::yarn,
                       .amplitude = llama::yarn_amplitude(factor)};
  } else if (type != "none") {
    in.fail("'" + scaling + "type' is " + type + " where none, linear or yarn is needed");
  }
  if (file.has(rope_factors_name)) {
    if (type != "none" || !of.llama3_positions) in.fail(std::string("'") + rope_factors_name + "' is not expected");
    by.rope.scaling = llama3_scaling(from, static_cast<std::size_t>(sizes.head_size), by.rope.base);
  }
  return {sizes, by};
}

gpt2_description gpt2_of(const gguf_tensors& from, gguf_numbers& in) {
  gpt2_description found;
  for (const auto& [key, size] : gpt2_numbers)
    found.*size = in.whole(key, size == &gpt2_description::vocabulary
                                    ? std::optional<std::size_t>(from.file().entry("token_embd.weight").shape.front())
                                    : std::optional<std::size_t>());
  found.epsilon = in.real("attention.layer_norm_epsilon");
  found.tied = !from.file().has("output.weight");
  return found;
}

}  // namespace

ordered_json gguf_config(const gguf_tensors& from) {
  const gr::gguf_file& file = from.file();
  const gguf_architecture& of = from.architecture();
  gguf_numbers in{file, std::string(of.name) + "."};
  ordered_json config;
  if (is_gpt2(of)) {
    config = gpt2_config_json(gpt2_of(from, in));
  } else {
    const llama::description found = decoder_of(from, in);
    config = llama::config_json(found.sizes, found.settings);
  }
  for (const auto& [key, value] : file.metadata())
    if (key.starts_with(in.prefix) && std::ranges::find(in.known, key) == in.known.end())
      in.fail("'" + key + "' is a setting that is not known, and might change what the model computes");
  for (const auto& [theirs, ours] : {std::pair("bos_token_id", "bos"), {"pad_token_id", "padding"}})
    if (const std::string key = std::string("tokenizer.ggml.") + ours + "_token_id"; file.has_key(key))
      config[theirs] = file.count(key);
  if (const json ends = end_ids_of_gguf(file); !ends.is_null()) config["eos_token_id"] = ends;
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
  set_gguf_tokenizer(file, folder, config.file.all(), static_cast<std::size_t>(config.vocabulary()));
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
