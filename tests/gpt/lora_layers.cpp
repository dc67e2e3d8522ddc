// What the command knows of layers without a model is what models have.
#include <doctest/doctest.h>

#include <string>

#include "gpt/config.hpp"
#include "gpt/lora_layers.hpp"
#include "gpt/tools/peft.hpp"

namespace {

template <auto Sizes>
void check_layers() {
  using net = gpt::model_of<gpt::placed<gradus::cpu, gradus::fp32, 2>, Sizes>;
  INFO(Sizes.name());
  CHECK(gpt::adaptable_layers(net()) ==
        gpt::adaptable_layers(Sizes.name() == std::string("gpt") ? "gpt2" : Sizes.name(),
                              static_cast<int>(Sizes.layers), Sizes.experts > 0));
}
constexpr llama::config llama_named(std::string_view name, gradus::index_t experts = 0) {
  return {.layers = 2,
          .heads = 2,
          .width = 8,
          .context = 8,
          .vocabulary = 256,
          .kv_heads = 1,
          .hidden = 16,
          .family = static_cast<gradus::index_t>(llama::family_named(name)),
          .experts = experts,
          .experts_per_token = experts / 2};
}

}  // namespace

TEST_CASE("the layers that --lora-on may name are those of the models") {
  check_layers<gpt::config{.layers = 2, .heads = 2, .width = 8, .context = 8, .vocabulary = 256}>();
  check_layers<gpt::config{
      .layers = 2, .heads = 2, .width = 8, .context = 8, .vocabulary = 256, .experts = 4, .experts_per_token = 2}>();
  check_layers<llama_named("llama")>();
  check_layers<llama_named("phi3")>();
  check_layers<llama_named("gemma3_text")>();
  check_layers<llama_named("mixtral", 4)>();
  check_layers<llama_named("qwen3_moe", 4)>();
}

TEST_CASE("a name of --lora-on that no layer has is refused with those there are") {
  const auto layers = gpt::adaptable_layers("llama", 2, false);
  CHECK(gpt::choose_layers(layers, "q_proj,blocks.1.mlp.up", "--lora-on") ==
        std::vector<std::string>{"blocks.0.attention.query", "blocks.1.attention.query", "blocks.1.mlp.up"});
  CHECK_THROWS_WITH_AS(gpt::choose_layers(layers, "q_proj,c_attn", "--lora-on"),
                       doctest::Contains("no linear layer of this model is named 'c_attn'; there are down_proj, "),
                       gradus::bad_flag);
}
