// The Llama family beside transformers, which recorded logits, gradients and greedy texts of small models in bf16:
// python3 tests/parity/compare_llama_family.py --fixtures, which without the flag compares larger ones.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <gradus/io/atomic_file.hpp>
#include <gradus/io/json.hpp>
#include <gradus/io/text_file.hpp>

#include "../support/scratch_folder.hpp"
#include "llama_family/model.hpp"

namespace gr = gradus;
namespace fs = std::filesystem;

namespace {

const fs::path recorded = fs::path(GRADUS_TEST_DATA) / "llama_family";

constexpr llama::config member(const char* family, bool tied, gr::index_t biases = 0, gr::index_t experts = 0) {
  return {.layers = 3,
          .heads = 2,
          .width = 14,
          .context = 18,
          .vocabulary = 37,
          .kv_heads = 1,
          .hidden = 18,
          .tied = tied ? gr::index_t{1} : gr::index_t{0},
          .family = llama::family_named(family),
          .head_size = 6,
          .biases = biases,
          .experts = experts,
          .experts_per_token = experts > 0 ? gr::index_t{2} : gr::index_t{0}};
}

// Of each gradient, its sum, that with weights from -1 to 1, and its largest.
void check_gradients(gr::safetensors_file& wanted, const fs::path& file) {
  gr::safetensors_file found(file);
  double largest = 0;
  for (const auto& [name, entry] : found.entries())
    largest = std::max(largest, static_cast<double>(wanted.read<float>("gradient." + name)[2]));
  for (const auto& [name, entry] : found.entries()) {
    CAPTURE(name);
    const auto numbers = wanted.read<float>("gradient." + name);
    double sum = 0, weighted = 0, most = 0, size = 0;
    for (std::size_t i = 0; const float of : found.read<float>(name)) {
      const auto g = static_cast<double>(of);
      sum += g;
      weighted += g * (static_cast<double>(i++ * 7919 % 101) - 50) / 50;
      most = std::max(most, std::abs(g));
      ++size;
    }
    const double noise = 2e-6 * largest;
    CHECK(std::abs(sum - static_cast<double>(numbers[0])) < noise * std::sqrt(size));
    CHECK(std::abs(weighted - static_cast<double>(numbers[1])) < noise * std::sqrt(size));
    CHECK(std::abs(most - static_cast<double>(numbers[2])) < noise);
  }
}

template <llama::config C>
void check(const char* name) {
  CAPTURE(name);
  const gradus_test::scratch_folder place;
  fs::create_directories(place.path);
  gradus_test::family_member<C> model(recorded / name);
  CHECK(model.logits_differ() < 1e-4);
  CHECK(model.greedy_tokens_alike() == C.context - 5);  // from the cache
  model.write_gradients(place.path);
  check_gradients(model.recorded, place.path / "model.safetensors");
  // A folder that is written describes the same model, and has the same tensors.
  save_huggingface(model.net, place.path);
  const fs::path ours = place.path / "config.json";
  const llama::description again = llama::read_config(gpt::huggingface_config(ours));
  llama::visit_settings(again.settings, [&](const char* setting, double value) {
    CAPTURE(setting);
    llama::visit_settings(model.net.settings, [&](const char* other, double here) {
      if (std::string(setting) == other) CHECK(value == doctest::Approx(here).epsilon(1e-12));
    });
  });
  gr::safetensors_file wanted(recorded / name / "model.safetensors"), found(place.path / "model.safetensors");
  CHECK(found.entries().size() == wanted.entries().size());
  for (const auto& [tensor, entry] : wanted.entries()) {
    CAPTURE(tensor);
    REQUIRE(found.has(tensor));
    CHECK(found.entry(tensor).shape == entry.shape);
    const auto there = found.read<float>(tensor), here = wanted.read_as<float>(tensor, entry.shape);
    float apart = 0;
    for (std::size_t i = 0; i < here.size(); ++i) apart = std::max(apart, std::abs(there[i] - here[i]));
    CHECK(apart <= 1e-7f);  // 1 + w is rounded
  }
}

}  // namespace

// transformers 5.24 gives this row of nn.Embedding(..., padding_idx) a gradient of 0, in all families but GPT-2.
TEST_CASE("the token that pads is learned as any other") {
  constexpr std::size_t pad = 5;
  using model = gradus_test::family_member<member("mistral", false)>;  // whose head is another matrix
  const gradus_test::scratch_folder plain, padding;
  std::vector<float> gradients[2];
  for (const bool pads : {false, true}) {
    const fs::path folder = pads ? padding.path : plain.path;
    for (const char* file : {"model.safetensors", "recorded.safetensors"})
      fs::copy_file(recorded / "mistral" / file, folder / file);
    nlohmann::json config = gr::parse_json(gr::read_text(recorded / "mistral" / "config.json"), "config.json");
    if (pads) config["pad_token_id"] = pad;
    gr::write_file_atomically(folder / "config.json", config.dump());
    model of(folder);
    REQUIRE(std::ranges::count(of.recorded.read<std::int32_t>("tokens"), static_cast<std::int32_t>(pad)) > 0);
    of.write_gradients(folder);
    gradients[pads] = gr::safetensors_file(folder / "model.safetensors").read<float>("model.embed_tokens.weight");
  }
  CHECK(gradients[1] == gradients[0]);
  const auto row = std::span(gradients[1]).subspan(pad * 14, 14);
  CHECK(std::ranges::none_of(row, [](float g) { return g == 0; }));
}

TEST_CASE("Mistral, with windows in all layers, is transformers'") { check<member("mistral", false)>("mistral"); }
TEST_CASE("Qwen2, with biases and windows from one layer on, is transformers'") {
  check<member("qwen2", true, 1)>("qwen2");
}
TEST_CASE("Qwen3, with normalised heads, biases and YaRN, is transformers'") {
  check<member("qwen3", false, 2)>("qwen3_yarn");
}
TEST_CASE("Phi-3, whose files have joined matrices, is transformers'") { check<member("phi3", false)>("phi3"); }
TEST_CASE("Gemma, with scaled embeddings and norms of 1 + w, is transformers'") {
  check<member("gemma", true)>("gemma");
}
TEST_CASE("Gemma 2, with caps, normalised branches and alternate windows, is transformers'") {
  check<member("gemma2", true)>("gemma2");
}
TEST_CASE("Gemma 3, with rotary positions of its own in windows, is transformers'") {
  check<member("gemma3_text", true)>("gemma3");
}
TEST_CASE("Mixtral is transformers'") { check<member("mixtral", false, 0, 3)>("mixtral"); }
TEST_CASE("Qwen3-MoE is transformers'") { check<member("qwen3_moe", false, 0, 3)>("qwen3_moe"); }
