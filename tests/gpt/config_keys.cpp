// Each key of a config.json of a decoder, absent, with the class's default, null and odd, as transformers takes it:
// tests/parity/make_family_fixtures.py recorded tests/data/families.json.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <gradus/io/safetensors.hpp>
#include <gradus/io/text_file.hpp>
#include <gradus/ops/rope/rope.hpp>

#include "../support/scratch_folder.hpp"
#include "gpt/tools/gguf.hpp"
#include "gpt/tools/gpt2_config.hpp"
#include "llama/config_json.hpp"

namespace gr = gradus;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

const fs::path recorded = fs::path(GRADUS_TEST_DATA) / "families.json";
constexpr double text_length = 24;  // a longer window is none in the recorded facts

// What was wrong; "" if nothing was.
std::string refusal_of(const auto& f) {
  try {
    f();
  } catch (const gr::error& e) { return e.what(); }
  return "";
}

json families_of(const char* kind) { return gr::parse_json(gr::read_text(recorded), recorded.string())[kind]; }

// The base of a family with what a case changes.
json config_of(const json& family, const json& one) {
  json all = family["base"];
  all.update(one["set"]);
  for (const json& key : one["absent"]) all.erase(key.get<std::string>());
  return all;
}
json facts_in(const json& family, const json& one) {
  json all = family["facts"];
  all.update(one["facts"]);
  return all;
}
// "qwen2: sliding_window = 5"
std::string name_of(const std::string& family, const json& one) {
  std::string text = family + ":";
  for (const auto& [key, value] : one["set"].items()) text += " " + key + " = " + value.dump();
  for (const json& key : one["absent"]) text += " without " + key.get<std::string>();
  return text;
}

bool alike(const json& a, const json& b) {
  if (a.is_array() && b.is_array()) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i)
      if (!alike(a[i], b[i])) return false;
    return true;
  }
  if (a.is_number() && b.is_number()) {
    const double x = a, y = b;
    return std::abs(x - y) <= 1e-5 * std::abs(x) + 1e-12;
  }
  return a == b;
}
// The facts that differ, for a message.
std::string differences(const json& found, const json& wanted) {
  std::string all;
  for (const auto& [key, value] : wanted.items())
    if (!alike(value, found.value(key, json())))
      all += key + " is " + found.value(key, json()).dump() + " where transformers has " + value.dump() + "; ";
  return all;
}

// What transformers' model was asked for, of ours.
json facts_of(const llama::description& of) {
  const llama::config& sizes = of.sizes;
  json windows, ropes;
  for (gr::index_t i = 0; i < sizes.layers; ++i) {
    const gr::nn::llama_settings layer = of.settings.layer(i);
    windows.push_back(layer.window < text_length ? layer.window : 0);
    if (of.settings.window_rope == 0 && i > 0) continue;
    json rope;
    for (gr::index_t pair = 0; pair < sizes.head() / 2; ++pair)
      rope.push_back(gr::detail::rope_frequency(layer.rope, pair, sizes.head()));
    rope.push_back(layer.rope.scaling.amplitude);
    ropes.push_back(rope);
  }
  const double scale = of.settings.score_scale, head = static_cast<double>(sizes.head());
  return {{"layers", sizes.layers},
          {"heads", sizes.heads},
          {"width", sizes.width},
          {"head", sizes.head()},
          {"kv_heads", sizes.kv_heads},
          {"hidden", sizes.hidden},
          {"context", sizes.context},
          {"vocabulary", sizes.vocabulary},
          {"tied", sizes.tied},
          {"biases", sizes.biases},
          {"mlp_biases", 0},
          {"experts", sizes.experts},
          {"all_sparse", 1},
          {"experts_per_token", sizes.experts_per_token},
          {"norms_weights", 1},
          {"jitter", 0},
          {"epsilon", of.settings.norm_eps},
          {"windows", windows},
          {"causal", 1},
          {"rope", ropes},
          {"scale", scale > 0 ? scale * std::sqrt(head) : 1},
          {"score_cap", of.settings.score_cap},
          {"logit_cap", of.settings.logit_cap},
          {"activation", sizes.kind().gelu ? "gelu" : "silu"}};
}
json facts_of(const gpt::gpt2_description& of) {
  return {{"layers", of.layers},         {"heads", of.heads},  {"width", of.width},     {"context", of.context},
          {"vocabulary", of.vocabulary}, {"inner", of.hidden}, {"epsilon", of.epsilon}, {"activation", "gelu"},
          {"tied", of.tied ? 1 : 0},     {"scaled", 1},        {"by_layer", 0}};
}

llama::description read_decoder(const json& values) {
  return llama::read_config(gpt::huggingface_config("config.json", values));
}
gpt::gpt2_description read_gpt2(const json& values) {
  return gpt::read_gpt2_config(gpt::huggingface_config("config.json", values));
}

// Calls check(name, values, what was read, facts) for each case that transformers runs, and gives the names of those
// that the reader refuses.
std::set<std::string> for_each_case(const char* kind, const auto& reader, const auto& check) {
  std::set<std::string> refused;
  const json families = families_of(kind);
  for (const auto& [family, all] : families.items()) {
    for (const json& one : all["cases"]) {
      const std::string name = name_of(family, one);
      CAPTURE(name);
      const json values = config_of(all, one);
      const std::string said = refusal_of([&] { reader(values); });
      CAPTURE(said);
      CHECK((said.empty() || said.starts_with("config.json: ")));
      if (one.contains("error")) continue;  // transformers runs no such model
      if (said.empty()) check(name, values, reader(values), facts_in(all, one));
      else refused.insert(name + " -> " + said.substr(std::string("config.json: ").size()));
    }
  }
  return refused;
}

}  // namespace

TEST_CASE("the keys of each decoder's config.json and their defaults are those of transformers' class") {
  const json all = families_of("decoders");
  CHECK(all.size() == std::size(llama::families));
  for (const auto& [name, keys] : llama::class_keys) {
    CAPTURE(name);
    json theirs = all[name]["defaults"];
    CHECK(theirs.erase("rope_parameters") == 1);  // which all families have
    CHECK(json::parse(keys) == theirs);
    CHECK(llama::family_named(name) < std::size(llama::families));
  }
  json gpt2 = families_of("gpt2")["gpt2"]["defaults"];
  CHECK(json::parse(gpt::gpt2_keys) == gpt2);
}

// What transformers runs and no model here computes, of any family; besides, scalings of rotary positions that are not
// known, or that transformers does not read where they are.
const char* const not_computed[] = {
    "decoder_sparse_step = 2",
    "final_logit_softcapping = 3.0",
    "final_logit_softcapping = null",
    R"(hidden_act = "gelu")",
    R"(hidden_act = "gelu" hidden_activation = null)",
    R"(hidden_act = "gelu_new")",
    R"(hidden_act = "gelu_pytorch_tanh" hidden_activation = "gelu_pytorch_tanh")",
    R"(hidden_act = "relu")",
    R"(hidden_activation = "gelu")",
    R"(hidden_activation = "relu")",
    "mlp_bias = true",
    "mlp_only_layers = [1]",
    "norm_topk_prob = false",
    "num_attention_heads = 32",
    "partial_rotary_factor = 0.5",
    "router_jitter_noise = 0.1",
    "use_bidirectional_attention = true",
    "without norm_topk_prob",
    "without num_attention_heads",
};

TEST_CASE("each key of a decoder's config.json means what it means to transformers, or is refused by its name") {
  const std::set<std::string> refused = for_each_case(
      "decoders", read_decoder, [](const std::string&, const json&, const auto& found, const json& wanted) {
        CHECK(differences(facts_of(found), wanted) == "");
      });
  std::set<std::string> kinds;
  for (const std::string& one : refused) {
    const std::string what = one.substr(one.find(": ") + 2), change = what.substr(0, what.find(" -> "));
    CAPTURE(one);
    CHECK(what.find('\'', change.size()) != std::string::npos);  // a key is named
    if (!change.starts_with("rope_")) kinds.insert(change);
  }
  std::string wanted;
  for (const char* one : not_computed) wanted += std::string(one) + "\n";
  std::string found;
  for (const std::string& kind : kinds) found += kind + "\n";
  CHECK(found == wanted);
}

TEST_CASE("what is written of a decoder that was read is read as the same, whatever its config.json said") {
  for_each_case("decoders", read_decoder, [](const std::string&, const json&, const auto& found, const json& wanted) {
    const json again = llama::config_json(found.sizes, found.settings);
    CHECK(differences(facts_of(read_decoder(again)), wanted) == "");
  });
}

TEST_CASE("a GGUF file has what the config.json means, or the folder is refused in one line") {
  const gradus_test::scratch_folder place;
  fs::create_directories(place.path);
  std::set<std::string> written;
  for_each_case("decoders", read_decoder, [&](const std::string& name, json values, const auto& found, json wanted) {
    const llama::config& sizes = found.sizes;
    if (sizes.vocabulary * sizes.width > 100000) return;                               // a large file
    if (sizes.kind().branch_norms && values.value("query_pre_attn_scalar", 0) == 9) {  // Gemmas have another, then
      values["query_pre_attn_scalar"] = sizes.head();
      wanted["scale"] = 1;
    }
    std::ofstream(place.path / "config.json") << values;
    gr::safetensors_writer tensors;
    const std::vector<float> table(sizes.vocabulary * sizes.width);
    const std::vector<std::size_t> shape{sizes.vocabulary, sizes.width};
    for (const char* each : {"model.embed_tokens.weight", "lm_head.weight"})
      if (sizes.tied == 0 || std::string(each) != "lm_head.weight")
        tensors.add(each, std::span<const std::size_t>(shape), std::span<const float>(table));
    for (gr::index_t i = 0; i < sizes.layers; ++i)
      tensors.add("model.layers." + std::to_string(i) + ".input_layernorm.weight",
                  std::span<const std::size_t>(shape).last(1), std::span<const float>(table).first(sizes.width));
    tensors.write(place.path / "model.safetensors");
    const std::string said = refusal_of([&] { gpt::write_gguf(place.path, place.path / "x.gguf", "f32"); });
    if (!said.empty()) {
      CHECK(
          (said.find("llama.cpp") != said.npos || said.find("GGUF") != said.npos || said.find("written") != said.npos));
      return;
    }
    written.insert(name);
    json back = gpt::gguf_config(gpt::gguf_tensors(place.path / "x.gguf"));
    back["model_type"] = values["model_type"];  // llama's architecture is Mistral's, too
    CHECK(differences(facts_of(read_decoder(back)), wanted) == "");
  });
  CHECK(written.contains("llama: rope_theta = 50000.0"));
  CHECK(written.contains("gemma2: attn_logit_softcapping = 2.0"));
  CHECK(written.contains("gemma2: without attn_logit_softcapping"));
  CHECK_FALSE(written.contains("gemma2: attn_logit_softcapping = null"));
  CHECK_FALSE(written.contains("gemma2: query_pre_attn_scalar = 16"));
}

TEST_CASE("each key of a GPT-2's config.json means what it means to transformers, or is refused by its name") {
  const std::set<std::string> refused =
      for_each_case("gpt2", read_gpt2, [](const std::string&, const json&, const auto& found, const json& wanted) {
        CHECK(differences(facts_of(found), wanted) == "");
        CHECK(differences(facts_of(read_gpt2(gpt::gpt2_config_json(found))), wanted) == "");
      });
  std::set<std::string> keys;
  for (const std::string& one : refused) keys.insert(one.substr(one.find(" -> ")));
  CHECK(keys == std::set<std::string>{R"( -> 'activation_function' is "gelu" where "gelu_new" is needed)",
                                      R"( -> 'activation_function' is "relu" where "gelu_new" is needed)",
                                      " -> 'add_cross_attention' is true where false is needed",
                                      " -> 'scale_attn_by_inverse_layer_idx' is true where false is needed",
                                      " -> 'scale_attn_weights' is false where true is needed"});
}
