#pragma once
// Which linear layers --lora-on may name, by the architecture alone: the command asks before a model is compiled.

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gradus/run/program.hpp>

#include "../llama/config.hpp"

namespace gpt {

namespace gr = gradus;

/// A linear layer, by our name and by that of transformers' module: "blocks.0.mlp.up" and "transformer.h.0.mlp.c_fc".
using layer_names = std::pair<std::string, std::string>;

/// The layers of a model that can have adapters.
inline std::vector<layer_names> adaptable_layers(const std::string& architecture, int layers, bool experts) {
  std::vector<layer_names> of_a_block, all;
  std::string theirs;
  if (architecture == "gpt2") {
    theirs = "transformer.h.";
    of_a_block = {{"attention.qkv", "attn.c_attn"}, {"attention.projection", "attn.c_proj"}};
    if (!experts) of_a_block.insert(of_a_block.end(), {{"mlp.up", "mlp.c_fc"}, {"mlp.down", "mlp.c_proj"}});
  } else {
    theirs = "model.layers.";
    const bool fused = llama::families[llama::family_named(architecture)].fused;
    const auto module = [&](const char* own, const char* joined) { return fused ? joined : own; };
    of_a_block = {{"attention.query", module("self_attn.q_proj", "self_attn.qkv_proj")},
                  {"attention.key", module("self_attn.k_proj", "self_attn.qkv_proj")},
                  {"attention.value", module("self_attn.v_proj", "self_attn.qkv_proj")},
                  {"attention.projection", "self_attn.o_proj"}};
    if (!experts)
      of_a_block.insert(of_a_block.end(), {{"mlp.gate", module("mlp.gate_proj", "mlp.gate_up_proj")},
                                           {"mlp.up", module("mlp.up_proj", "mlp.gate_up_proj")},
                                           {"mlp.down", "mlp.down_proj"}});
  }
  for (int i = 0; i < layers; ++i)
    for (const auto& [our, their] : of_a_block)
      all.emplace_back("blocks." + std::to_string(i) + "." + our, theirs + std::to_string(i) + "." + their);
  return all;
}

/// Our names of those layers that `words` stands for: "all", or names with commas between, ours or transformers', whole
/// or their ends. Throws gr::bad_flag, which begins with `flag`, for a word that names no layer.
inline std::vector<std::string> choose_layers(const std::vector<layer_names>& layers, const std::string& words,
                                              const std::string& flag) {
  std::vector<std::string> wanted(1), chosen;
  for (const char c : words)
    if (c == ',') wanted.emplace_back();
    else wanted.back() += c;
  std::set<std::string> known, found;
  for (const auto& [ours, theirs] : layers) {
    known.insert(theirs.substr(theirs.rfind('.') + 1));
    bool taken = false;
    for (const std::string& word : wanted)
      for (const std::string& name : {ours, theirs})
        if (word == "all" || name == word || name.ends_with("." + word)) {
          found.insert(word);
          taken = true;
        }
    if (taken) chosen.push_back(ours);
  }
  for (const std::string& word : wanted) {
    if (found.contains(word)) continue;
    std::string names;
    for (const std::string& name : known) names += (names.empty() ? "" : ", ") + name;
    throw gr::bad_flag(flag + ": no linear layer of this model is named '" + word + "'; there are " + names);
  }
  return chosen;
}

}  // namespace gpt
