// The settings of adapters in PEFT's format. tests/parity/compare_adapters.py holds what they compute against PEFT.
#include <doctest/doctest.h>

#include <string>

#include "../support/message_of.hpp"
#include "gpt/tools/peft.hpp"

using gradus_test::message_of;
using nlohmann::json;

namespace {

// What is said of the defaults of peft 0.21's LoraConfig with another value.
std::string said_of(const std::string& key, const json& value) {
  json config = json::parse(R"({"task_type": "CAUSAL_LM", "peft_type": "LORA", "auto_mapping": null,
      "peft_version": "0.21.2", "base_model_name_or_path": "base", "revision": null, "inference_mode": true, "r": 8,
      "target_modules": ["q_proj"], "exclude_modules": null, "lora_alpha": 8, "lora_dropout": 0.0,
      "fan_in_fan_out": false, "bias": "none", "use_rslora": false, "modules_to_save": null, "init_lora_weights": true,
      "layers_to_transform": null, "layers_pattern": null, "rank_pattern": {}, "alpha_pattern": {},
      "megatron_config": null, "megatron_core": "megatron.core", "trainable_token_indices": null, "loftq_config": {},
      "eva_config": null, "corda_config": null, "lora_ga_config": null, "use_dora": false, "velora_config": null,
      "alora_invocation_tokens": null, "use_qalora": false, "qalora_group_size": 16, "monteclora_config": null,
      "layer_replication": null, "lora_bias": false, "target_parameters": null, "use_bdlora": null,
      "arrow_config": null, "kasa_config": null, "ensure_weight_tying": false})");
  CHECK(config.contains(key));
  config[key] = value;
  return message_of([&] { gpt::detail::check_peft_settings({"a.json", config}); });
}
const std::string accepted = "nothing was thrown";

}  // namespace

TEST_CASE("settings of PEFT that change nothing in what a model with its adapters computes are accepted") {
  CHECK(said_of("task_type", nullptr) == accepted);
  for (const json& start : {json(true), json(false), json("gaussian"), json("orthogonal"), json("eva"), json("mica")})
    CHECK(said_of("init_lora_weights", start) == accepted);
  CHECK(said_of("exclude_modules", {"down_proj"}) == accepted);
  CHECK(said_of("exclude_modules", ".*down_proj") == accepted);
  CHECK(said_of("ensure_weight_tying", true) == accepted);
  CHECK(said_of("eva_config", {{"rho", 2.0}}) == accepted);
  CHECK(said_of("layers_to_transform", {1, 2}) == accepted);
  CHECK(said_of("layers_pattern", "layers") == accepted);
  CHECK(said_of("qalora_group_size", 8) == accepted);
}

TEST_CASE("settings of PEFT that change it are refused by name") {
  for (const char* start : {"pissa", "pissa_niter_4", "olora", "corda", "loftq", "lora_ga"})
    CHECK(said_of("init_lora_weights", start)
              .starts_with("a.json: 'init_lora_weights' is \"" + std::string(start) + "\", whose model is another"));
  for (const auto& [key, value] : {std::pair<const char*, json>("use_dora", true),
                                   {"use_qalora", true},
                                   {"lora_bias", true},
                                   {"modules_to_save", {"lm_head"}},
                                   {"rank_pattern", {{"q_proj", 4}}},
                                   {"alpha_pattern", {{"q_proj", 4}}},
                                   {"trainable_token_indices", {1}},
                                   {"alora_invocation_tokens", {1}},
                                   {"layer_replication", {{0, 1}}},
                                   {"target_parameters", {"mlp.w"}},
                                   {"use_bdlora", {{"nblocks", 2}}},
                                   {"arrow_config", {{"top_k", 3}}},
                                   {"kasa_config", {{"beta", 1.0}}},
                                   {"monteclora_config", {{"n", 1}}},
                                   {"velora_config", {{"groups", 2}}}})
    CHECK(said_of(key, value) ==
          std::string("a.json: '") + key + "' is " + value.dump() + ", which this program does not know");
  CHECK(said_of("bias", "all").starts_with("a.json: 'bias'"));
  CHECK(said_of("peft_type", "IA3").starts_with("a.json: 'peft_type'"));
}
