// A Llama as Hugging Face's transformers stores it, both ways. tests/parity/make_model_fixtures.py made the folders;
// tests/parity/llama.cpp compares what the models compute.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <sstream>
#include <string>

#include "../support/message_of.hpp"
#include "../support/scratch_folder.hpp"
#include "llama/huggingface.hpp"

namespace gr = gradus;
namespace fs = std::filesystem;
using gradus_test::message_of;

namespace {

const fs::path untied = fs::path(GRADUS_TEST_DATA) / "llama" / "untied";
constexpr llama::config sizes{
    .layers = 2, .heads = 4, .width = 64, .context = 31, .vocabulary = 67, .kv_heads = 2, .hidden = 96, .tied = 0};

struct loaded {
  gr::stream stream;
  gr::host_resource heap;
  gr::context<gr::cpu> ctx{stream, heap};
  llama::model<gr::on<gr::cpu>, sizes> net;

  std::string message(const fs::path& folder) {
    return message_of([&] { load_huggingface(net, ctx, folder); });
  }
};

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// The recorded folder with a config.json in which `from` is `to`.
std::string refusal(const std::string& from, const std::string& to) {
  const gradus_test::scratch_folder place;
  fs::copy(untied, place.path, fs::copy_options::recursive);
  std::string config = text_of(untied / "config.json");
  const auto at = config.find(from);
  REQUIRE(at != std::string::npos);
  std::ofstream(place.path / "config.json") << config.replace(at, from.size(), to);
  loaded l;
  const std::string text = l.message(place.path), file = (place.path / "config.json").string() + ": ";
  CHECK(!l.net.tokens.weight.value());  // nothing was changed
  CHECK(text.starts_with(file));
  return text.substr(std::min(text.size(), file.size()));
}

}  // namespace

TEST_CASE("a Llama that is written holds the tensors that were read, and the settings") {
  const gradus_test::scratch_folder place;
  loaded l, again;
  load_huggingface(l.net, l.ctx, untied);
  save_huggingface(l.net, place.path);
  gr::sharded_safetensors wanted(untied / "model.safetensors.index.json");
  gr::safetensors_file found(place.path / "model.safetensors");
  std::size_t count = 0;
  for (const gr::safetensors_file& file : wanted.files())
    for (const auto& [name, entry] : file.entries()) {
      CAPTURE(name);
      ++count;
      CHECK(found.entry(name).shape == entry.shape);
      CHECK(found.read<float>(name) == wanted.file_of(name).read_as<float>(name, entry.shape));
    }
  CHECK(found.entries().size() == count);
  load_huggingface(again.net, again.ctx, place.path);
  const gr::nn::llama_settings &a = l.net.settings, &b = again.net.settings;
  CHECK(a.rope.scaling.factor == 4);
  CHECK(a.rope.scaling.original_context == 32);
  CHECK(b.norm_eps == a.norm_eps);
  CHECK(b.rope.base == a.rope.base);
  CHECK(b.rope.scaling.factor == a.rope.scaling.factor);
  CHECK(b.rope.scaling.low_freq_factor == a.rope.scaling.low_freq_factor);
  CHECK(b.rope.scaling.high_freq_factor == a.rope.scaling.high_freq_factor);
  CHECK(b.rope.scaling.original_context == a.rope.scaling.original_context);
}

TEST_CASE("rotary positions are read from config.json as older transformers write it, too") {
  const auto settings = [&](const std::string& text) {
    nlohmann::json values = gr::parse_json(text, "text");
    values["model_type"] = "llama";
    return llama::read_config(gpt::huggingface_config("config.json", values)).settings;
  };
  const auto plain = settings(R"({"rope_theta": 500000.0, "rope_scaling": null, "rms_norm_eps": 1e-05})");
  CHECK(plain.rope.base == 500000);
  CHECK(plain.rope.scaling.factor == 1);
  CHECK(plain.norm_eps == 1e-5);
  const auto scaled = settings(R"({"rope_theta": 500000.0, "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0,
      "low_freq_factor": 1.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"}})");
  CHECK(scaled.rope.base == 500000);
  CHECK(scaled.rope.scaling.factor == 32);
  CHECK(scaled.norm_eps == 1e-6);
}

TEST_CASE("a folder of another model than this Llama is refused, with what differs, and nothing is changed") {
  CHECK(refusal(R"("num_hidden_layers": 2)", R"("num_hidden_layers": 3)") ==
        "'num_hidden_layers' is 3, and this program was compiled for 2");
  CHECK(refusal(R"("num_key_value_heads": 2)", R"("num_key_value_heads": 4)") ==
        "'num_key_value_heads' is 4, and this program was compiled for 2");
  CHECK(refusal(R"("llama")", R"("gpt2")") == "'model_type' is \"gpt2\" where \"llama\" is needed");
  CHECK(refusal(R"("silu")", R"("gelu")") == "'hidden_act' is \"gelu\" where \"silu\" is needed");
  CHECK(refusal(R"("head_dim": 16)", R"("head_dim": 32)") == "'head_dim' is 32, and this program was compiled for 16");
  CHECK(refusal(R"("max_position_embeddings": 48)", R"("max_position_embeddings": 30)") ==
        "'max_position_embeddings' is 30, and this program was compiled for a context of 31");
  CHECK(refusal(R"("attention_bias": false)", R"("attention_bias": true)") ==
        "'attention_bias' is true, and this program was compiled for false");
  CHECK(refusal(R"("tie_word_embeddings": false)", R"("tie_word_embeddings": true)") ==
        "'tie_word_embeddings' is true, and this program was compiled for false");
  CHECK(refusal(R"("rope_type": "llama3")", R"("rope_type": "dynamic")") ==
        "'rope_parameters': 'rope_type' is \"dynamic\" where \"default\", \"linear\", \"llama3\" or \"yarn\" is "
        "needed");
  CHECK(refusal(R"("rope_type": "llama3")", R"("rope_type": "linear")") ==
        "'rope_parameters': 'high_freq_factor', which is 4.0, is not known, and could change what is computed");
  CHECK(refusal(R"("factor": 4.0)", R"("factor": "4")") ==
        "'rope_parameters': 'factor' is \"4\" where a number is needed");
  CHECK(refusal(R"("rms_norm_eps": 1e-05)", R"("rms_norm_eps": -1)") == "'rms_norm_eps' must be above 0 and at most 1");
}

TEST_CASE("what a config.json says is read or refused by name, before anything else of the folder") {
  const gradus_test::scratch_folder place;
  fs::create_directories(place.path);
  const fs::path file = place.path / "config.json";
  // A Qwen2 with some keys more; what was wrong, or "".
  const auto read = [&](const std::string& more, const std::string& type = "qwen2") {
    std::ofstream(file) << R"({"model_type": ")" << type << R"(", "num_hidden_layers": 4, "num_attention_heads": 4,
      "hidden_size": 64, "max_position_embeddings": 128, "vocab_size": 300, "num_key_value_heads": 2,
      "intermediate_size": 96, "architectures": ["Some"], "torch_dtype": "bfloat16")"
                        << more << "}";
    return llama::read_config(gpt::huggingface_config(file));
  };
  const auto message = [&](const std::string& more, const std::string& type = "qwen2") {
    const std::string text = message_of([&] { read(more, type); });
    return text.substr(std::min(text.size(), file.string().size() + 2));
  };
  CHECK(read("").sizes.biases == 1);
  CHECK(read("", "llama").sizes.biases == 0);
  CHECK(read(R"(, "head_dim": 20)").sizes.head() == 20);
  CHECK(read("", "gemma").sizes.head() == 256);
  CHECK(read(R"(, "sliding_window": 32)").settings.window == 0);  // use_sliding_window decides
  const auto windows = R"(, "sliding_window": 32, "use_sliding_window": true, "max_window_layers": 2)";
  CHECK(read(windows).settings.window == 32);
  CHECK(read(windows).settings.layer(1).window == 0);
  CHECK(read(windows).settings.layer(2).window == 32);
  CHECK(read(R"(, "sliding_window": 32)", "mistral").settings.layer(0).window == 32);
  CHECK(read(R"(, "sliding_window": null)", "mistral").settings.window == 0);
  const std::string gemma3 = R"(, "head_dim": 16, "final_logit_softcapping": null, "sliding_window": 32, )";
  const auto older = read(gemma3 + R"("sliding_window_pattern": 2, "rope_theta": 1e6, "rope_local_base_freq": 20000.0,
      "rope_scaling": {"rope_type": "linear", "factor": 8.0})",
                          "gemma3_text")
                         .settings;
  const auto newer = read(gemma3 + R"("layer_types": ["sliding_attention", "full_attention", "sliding_attention",
      "full_attention"], "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0,
      "rope_theta": 1e6}, "sliding_attention": {"rope_type": "default", "rope_theta": 20000.0}})",
                          "gemma3_text")
                         .settings;
  for (const auto& of : {older, newer}) {
    CHECK(of.layer(0).rope.base == 20000);
    CHECK(of.layer(0).rope.scaling.factor == 1);
    CHECK(of.layer(1).rope.base == 1e6);
    CHECK(of.layer(1).rope.scaling.factor == 8);
    CHECK(of.layer(1).window == 0);
  }
  const auto yarn =
      read(R"(, "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64})");
  CHECK(yarn.settings.rope.scaling.amplitude == doctest::Approx(1 + 0.1 * std::log(4.0)));
  CHECK(yarn.settings.rope.scaling.high_freq_factor == 32);

  CHECK(message("", "bert").starts_with("'model_type' is \"bert\" where \"gpt2\", \"llama\", \"mistral\", "));
  CHECK(
      message(R"(, "auto_map": {"AutoModel": "modeling.Some"})").starts_with("'auto_map' names code that comes with"));
  CHECK(message(R"(, "quantization_config": {"quant_method": "gptq", "bits": 4})") ==
        "'quantization_config': its weights are quantised by \"gptq\"; take the model in bfloat16, float16 or float32");
  CHECK(message(R"(, "residual_multiplier": 0.2)") ==
        "'residual_multiplier', which is 0.2, is not known, and could change what is computed");
  CHECK(message(R"(, "mlp_bias": true)", "llama") == "'mlp_bias' is true where false is needed");
  CHECK(message(R"(, "partial_rotary_factor": 0.5)") == "'partial_rotary_factor' is 0.5 where 1.0 is needed");
  CHECK(message(R"(, "hidden_act": "gelu")") == "'hidden_act' is \"gelu\" where \"silu\" is needed");
  CHECK(message(R"(, "head_dim": 15)") == "'head_dim': a head has 15 elements, and must have an even number");
  CHECK(message(R"(, "rope_scaling": {"type": "dynamic", "factor": 2.0})")
            .starts_with("'rope_scaling': 'rope_type' is \"dynamic\" where "));
  CHECK(message(R"(, "rope_scaling": {"rope_type": "longrope", "long_factor": [1.0]})")
            .starts_with("'rope_scaling': 'rope_type' is \"longrope\" where "));
  CHECK(message(R"(, "layer_types": ["chunked_attention"])").starts_with("'layer_types' is not "));
  CHECK(message(R"(, "num_local_experts": 4, "num_experts_per_tok": 5)", "mixtral") ==
        "'num_experts_per_tok' is more than its experts");
  CHECK(message(R"(, "final_logit_softcapping": null)", "gemma2") == "'final_logit_softcapping' must be above 0");
}

TEST_CASE("what is written of a new model of each family describes it") {
  const gradus_test::scratch_folder place;
  fs::create_directories(place.path);
  for (gr::index_t i = 0; i < std::size(llama::families); ++i) {
    const llama::family& kind = llama::families[i];
    CAPTURE(kind.name);
    llama::config wanted = sizes;
    wanted.family = i;
    wanted.biases = kind.biases;
    if (kind.mixed()) wanted.experts = 3, wanted.experts_per_token = 2;
    const gr::nn::llama_settings settings = llama::new_settings(kind);
    CHECK(llama::wrong_setting(settings, kind).empty());
    std::ofstream(place.path / "config.json") << llama::config_json(wanted, settings);
    const llama::description found = llama::read_config(gpt::huggingface_config(place.path / "config.json"));
    CHECK(found.sizes.family == i);
    CHECK(found.sizes.named() == wanted.named());
    CHECK(found.settings.window == 0);
    CHECK(found.settings.rope.base == settings.rope.base);
    CHECK(found.settings.logit_cap == settings.logit_cap);
    CHECK((!kind.branch_norms || found.settings.score_scale == 1 / std::sqrt(16.0)));
  }
}

TEST_CASE("numbers of a model outside their ranges are refused") {
  CHECK(llama::wrong_setting({}).empty());
  const double huge = std::numeric_limits<double>::infinity();
  const auto wrong = [](double gr::rope_scaling::*which, double value) {
    gr::nn::llama_settings s;
    s.rope.scaling.*which = value;
    return llama::wrong_setting(s);
  };
  for (const double eps : {-1.0, 0.0, 1e300, std::nan("")})
    CHECK(llama::wrong_setting({.norm_eps = eps}) == "'rms_norm_eps' must be above 0 and at most 1");
  for (const double theta : {0.0, -10000.0, huge, std::nan("")})
    CHECK(llama::wrong_setting({.rope = {.base = theta}}) == "'rope_theta' must be 1 or more");
  for (const double bad : {0.0, -8.0, 1e-300, huge, std::nan("")}) {
    CHECK(wrong(&gr::rope_scaling::factor, bad) == "the 'factor' of the rotary scaling must be 1 or more");
    CHECK(wrong(&gr::rope_scaling::original_context, bad) == "'original_max_position_embeddings' must be 1 or more");
  }
  for (const double bad : {0.0, 4.0, 8.0, huge, std::nan("")})
    CHECK(wrong(&gr::rope_scaling::low_freq_factor, bad) ==
          "'low_freq_factor' must be above 0 and below 'high_freq_factor'");
}

TEST_CASE("a missing shard, and a folder of GPT-2's, are named") {
  const gradus_test::scratch_folder place;
  fs::copy(untied, place.path, fs::copy_options::recursive);
  fs::remove(place.path / "model-00002-of-00003.safetensors");
  loaded l;
  CHECK(l.message(place.path) == (place.path / "model-00002-of-00003.safetensors").string() + ": no such file");
  CHECK(l.message(fs::path(GRADUS_TEST_DATA) / "gpt2").ends_with("'model_type' is \"gpt2\" where \"llama\" is needed"));
}
