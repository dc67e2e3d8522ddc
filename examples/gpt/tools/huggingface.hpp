#pragma once
// GPT-2 as Hugging Face's transformers stores it (huggingface_folder.hpp). Its matrices lie as ours do, [in, out].

#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../model.hpp"
#include "gpt2_config.hpp"
#include "huggingface_folder.hpp"

namespace gpt {

/// The name that GPT2LMHeadModel has for our parameter `name`: "h.3.attn.c_attn.weight" for
/// "blocks.3.attention.qkv.weight", without the prefix "transformer.", which some files omit.
inline std::string huggingface_name(std::string name) {
  if (name == "positions") return "wpe.weight";
  if (name.starts_with("norm.")) return "ln_f." + name.substr(5);
  return renamed(std::move(name), {{".norm1.", ".ln_1."},
                                   {".norm2.", ".ln_2."},
                                   {".attention.qkv.", ".attn.c_attn."},
                                   {".attention.projection.", ".attn.c_proj."},
                                   {".mlp.up.", ".mlp.c_fc."},
                                   {".mlp.down.", ".mlp.c_proj."},
                                   {"blocks.", "h."},
                                   {"tokens.", "wte."}});
}

/// Where a GPT2LMHeadModel of sizes C has our parameter `name`.
template <config C>
huggingface_tensor huggingface_place(std::string_view name, const std::string& prefix) {
  if (name.find(".adapter.") != name.npos) return {};  // no parameter of such a model
  return {.name = prefix + huggingface_name(std::string(name)), .rows = name == "tokens.weight" ? C.vocabulary : 0};
}
/// The same of a model's parameter.
template <class X, config C>
huggingface_tensor place_in_huggingface(const model<X, C>&, std::string_view name) {
  return huggingface_place<C>(name, "transformer.");
}

/// The epsilon of GPT-2's norms and ours.
inline constexpr double layer_norm_epsilon = 1e-5;

/// The GPT-2 of these sizes.
inline gpt2_description describe_gpt2(const config& of) {
  return {.layers = of.layers,
          .heads = of.heads,
          .width = of.width,
          .context = of.context,
          .vocabulary = of.vocabulary,
          .hidden = 4 * of.width,
          .epsilon = layer_norm_epsilon};
}
/// Throws gradus::error unless a folder's config.json describes a GPT-2 of these sizes.
inline void check_huggingface(const huggingface_config& given, const config& of) {
  const gpt2_description found = read_gpt2_config(given), here = describe_gpt2(of);
  const huggingface_config file = complete_gpt2(given);
  for (const auto& [key, size] : gpt2_sizes)
    if (found.*size != here.*size) file.fail_compiled(key, std::to_string(here.*size));
  if (found.hidden != here.hidden)
    file.fail("n_inner", ", and a block of this program is " + std::to_string(here.hidden) + " wide inside");
  if (!found.tied) file.fail("tie_word_embeddings", " where true is needed");
  if (std::abs(found.epsilon / here.epsilon - 1) > 1e-6) file.fail("layer_norm_epsilon", " where 1e-05 is needed");
}

/// Throws gradus::error for a model with experts, which is no GPT-2.
inline void check_is_gpt2(const config& of) {
  if (of.experts > 0)
    throw gr::error("a GPT with " + std::to_string(of.experts) +
                    " experts cannot be converted: Hugging Face's GPT-2 has none");
}

/// Fills the model from a folder of Hugging Face's or a GGUF file, whatever type of floating-point number it holds;
/// rows of the token table beyond the vocabulary become zero. The model is as it was until all of the folder has been
/// read once. Throws gradus::error where the folder holds another model than GPT-2 of these sizes.
template <class X, config C, class After = gr::nothing_after>
void load_huggingface(model<X, C>& net, gr::context<typename X::device>& ctx, const std::filesystem::path& from,
                      const After& after = {}) {
  check_is_gpt2(C);
  huggingface_source tensors(from);
  check_huggingface(tensors.config(), C);
  const std::string prefix = tensors.has("transformer.wte.weight") ? "transformer." : "";
  const auto where = [&](std::string_view name) { return huggingface_place<C>(name, prefix); };
  std::vector<std::string> known{"lm_head.weight"};
  gr::for_each_param(net, [&](std::string_view name, const auto&) { known.push_back(where(name).name); });
  for (gr::index_t i = 0; i < C.layers; ++i)  // masks, in old files
    for (const char* mask : {"bias", "masked_bias"})
      known.push_back(prefix + "h." + std::to_string(i) + ".attn." + mask);
  check_huggingface_names(tensors, known, "GPT-2");
  check_head_is_table<decltype(net.tokens.weight)>(tensors, where("tokens.weight"));
  read_huggingface(net, ctx, tensors, where, after);
}

/// Writes the model into a folder, which must be there, as save_pretrained of GPT2LMHeadModel and of its tokenizer do:
/// model.safetensors in the type that parameters are stored in, without the rows that pad the token table, as several
/// files and an index if it would have more than `shard_bytes`; config.json, generation_config.json, and what
/// save_huggingface_tokenizer writes unless `tokenizer` is null: then `said` is what is known of texts. Throws
/// gradus::error.
template <class X, config C>
void save_huggingface(const model<X, C>& net, const std::filesystem::path& folder,
                      const gr::tokenizer* tokenizer = nullptr, std::size_t shard_bytes = huggingface_shard_bytes,
                      const gr::text_settings& said = {}) {
  check_is_gpt2(C);
  std::optional<gr::tokenizer::token> end;
  if (C.vocabulary == 50257) end = 50256;  // GPT-2's own
  nlohmann::ordered_json settings = gpt2_config_json(describe_gpt2(C));
  settings["bos_token_id"] = settings["eos_token_id"] = json_of(end);
  for (const char* key : {"attn_pdrop", "embd_pdrop", "resid_pdrop"}) settings[key] = net.dropout;
  settings["torch_dtype"] = huggingface_type<typename X::store>;
  write_huggingface_tensors(
      net, folder, [](std::string_view name) { return huggingface_place<C>(name, "transformer."); }, shard_bytes);
  save_huggingface_settings(folder, settings, tokenizer, tokenizer != nullptr ? tokenizer->settings() : said,
                            C.context);
}

}  // namespace gpt
