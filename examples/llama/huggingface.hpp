#pragma once
// A model of the Llama family as Hugging Face's transformers stores it (../gpt/tools/huggingface_folder.hpp). Its
// matrices are [out, in], and ours [in, out].

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../gpt/tools/huggingface_folder.hpp"
#include "config_json.hpp"
#include "model.hpp"

namespace llama {

/// Where a model of transformers of sizes C has our parameter `name`: "layers.3.self_attn.q_proj.weight", as [out, in],
/// for "blocks.3.attention.query.weight". Some files omit the prefix, "model.".
template <config C>
gpt::huggingface_tensor huggingface_place(std::string_view name, const std::string& prefix = "model.") {
  constexpr const family& kind = C.kind();
  if (name.find(".adapter.") != name.npos) return {};  // no parameter of such a model
  if (name == "output.weight") return {.name = "lm_head.weight", .rows = C.vocabulary};
  if (name == "tokens.weight") return {.name = prefix + "embed_tokens.weight", .rows = C.vocabulary};
  const bool norm = name.find("norm") != name.npos || name.find(".after_") != name.npos;
  gpt::huggingface_tensor place{.name = {}, .transposed = !norm, .added = norm && kind.from_one ? 1.0 : 0.0};
  std::string theirs(name);
  const auto is_part = [&](const char* part) { return name.find(part) != name.npos; };
  const auto join = [&](const char* part, const char* all, gr::index_t from, gr::index_t of) {
    if (!kind.fused || !is_part(part)) return;
    theirs = gpt::renamed(theirs, {{part, all}});
    place.from = from;
    place.of = of;
  };
  constexpr gr::index_t q = C.head() * C.heads, kv = C.head() * C.kv_heads;
  join(".attention.query.", ".self_attn.qkv_proj.", 0, q + 2 * kv);
  join(".attention.key.", ".self_attn.qkv_proj.", q, q + 2 * kv);
  join(".attention.value.", ".self_attn.qkv_proj.", q + kv, q + 2 * kv);
  join(".mlp.gate.", ".mlp.gate_up_proj.", 0, 2 * C.hidden);
  join(".mlp.up.", ".mlp.gate_up_proj.", C.hidden, 2 * C.hidden);
  if (is_part(".mlp.experts.")) place.count = C.experts;
  const auto expert = [&](std::size_t part) {
    return std::string(kind.expert_path) + "experts.#." + (kind.mixed() ? kind.expert_parts[part] : "") + ".weight";
  };
  const std::string gate = expert(0), up = expert(1), down = expert(2),
                    router = std::string(kind.expert_path) + "gate.weight";
  place.name = prefix + gpt::renamed(theirs, {{".mlp.experts.gate", gate},
                                              {".mlp.experts.up", up},
                                              {".mlp.experts.down", down},
                                              {".norm1.", ".input_layernorm."},
                                              {".norm2.", kind.branch_norms ? ".pre_feedforward_layernorm."
                                                                            : ".post_attention_layernorm."},
                                              {".after_attention.", ".post_attention_layernorm."},
                                              {".after_mlp.", ".post_feedforward_layernorm."},
                                              {".attention.query.", ".self_attn.q_proj."},
                                              {".attention.key.", ".self_attn.k_proj."},
                                              {".attention.value.", ".self_attn.v_proj."},
                                              {".attention.query_norm.", ".self_attn.q_norm."},
                                              {".attention.key_norm.", ".self_attn.k_norm."},
                                              {".attention.projection.", ".self_attn.o_proj."},
                                              {".mlp.gate.", ".mlp.gate_proj."},
                                              {".mlp.up.", ".mlp.up_proj."},
                                              {".mlp.down.", ".mlp.down_proj."},
                                              {".mlp.router", router},
                                              {"blocks.", "layers."}});
  return place;
}

/// huggingface_place() of a model's parameter.
template <class X, config C>
gpt::huggingface_tensor place_in_huggingface(const model<X, C>&, std::string_view name) {
  return huggingface_place<C>(name);
}

/// The settings in a folder's config.json. Throws gradus::error unless it describes a model of these sizes; `context`
/// may be less than its own.
inline gr::nn::llama_settings check_huggingface(const gpt::huggingface_config& given, const config& of) {
  given.check_text("model_type", of.kind().name);
  const description found = read_config(given);
  const gpt::huggingface_config file = complete(given);
  for (const size_row& row : size_rows) {
    const gr::index_t there = found.sizes.*row.size, here = of.*row.size;
    const std::string key = key_of(row, of.kind());
    if (row.size == &config::context) {
      if (there < here) file.fail_compiled(key.c_str(), "a context of " + std::to_string(here));
    } else if (row.size == &config::head_size) {
      if (found.sizes.head() != of.head()) file.fail_compiled(key.c_str(), std::to_string(of.head()));
    } else if (there != here) {
      const bool answer = row.size == &config::tied || row.size == &config::biases;
      file.fail_compiled(key.c_str(), answer ? (here > 0 ? "true" : "false") : std::to_string(here));
    }
  }
  return found.settings;
}

/// Fills the model from a folder of Hugging Face's or a GGUF file, whatever type of floating-point number it holds;
/// rows of the tables beyond the vocabulary become zero. The model is as it was until all of the folder has been read
/// once. Throws gradus::error where the folder holds another model than one of these sizes.
template <class X, config C, class After = gr::nothing_after>
void load_huggingface(model<X, C>& net, gr::context<typename X::device>& ctx, const std::filesystem::path& from,
                      const After& after = {}) {
  gpt::huggingface_source tensors(from);
  const gr::nn::llama_settings settings = check_huggingface(tensors.config(), C);
  const std::string prefix = tensors.has("model.embed_tokens.weight") ? "model." : "";
  const auto where = [&](std::string_view name) { return huggingface_place<C>(name, prefix); };
  std::vector<std::string> known{"lm_head.weight"};
  gr::for_each_param(net, [&](std::string_view name, const auto&) {
    for (std::string& theirs : where(name).names()) known.push_back(std::move(theirs));
  });
  for (gr::index_t i = 0; i < C.layers; ++i)  // in old files
    known.push_back(prefix + "layers." + std::to_string(i) + ".self_attn.rotary_emb.inv_freq");
  gpt::check_huggingface_names(tensors, known, C.title());
  if (C.tied == 1) gpt::check_head_is_table<decltype(net.tokens.weight)>(tensors, where("tokens.weight"));
  gpt::read_huggingface(net, ctx, tensors, where, after);
  net.settings = settings;
  if constexpr (C.experts > 0)
    for (auto& block : net.blocks)
      if (!block.mlp.load.value()) block.mlp.load.set(gr::zeros<float, gr::shape<C.experts>>(ctx));
}

/// Writes the model into a folder, which must be there, as save_pretrained of its class and of its tokenizer do:
/// model.safetensors in the type that parameters are stored in, without the rows that pad the tables, as several files
/// and an index if it would have more than `shard_bytes`; config.json, generation_config.json, and what
/// save_huggingface_tokenizer writes unless `tokenizer` is null: then `said` is what is known of texts. Throws
/// gradus::error.
template <class X, config C>
void save_huggingface(const model<X, C>& net, const std::filesystem::path& folder,
                      const gr::tokenizer* tokenizer = nullptr, std::size_t shard_bytes = gpt::huggingface_shard_bytes,
                      const gr::text_settings& said = {}) {
  nlohmann::ordered_json settings = config_json(C, net.settings);
  settings["torch_dtype"] = gpt::huggingface_type<typename X::store>;
  gpt::write_huggingface_tensors(
      net, folder, [](std::string_view name) { return huggingface_place<C>(name); }, shard_bytes);
  gpt::save_huggingface_settings(folder, std::move(settings), tokenizer,
                                 tokenizer != nullptr ? tokenizer->settings() : said, C.context);
}

}  // namespace llama
