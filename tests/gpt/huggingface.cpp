// GPT-2 as Hugging Face's transformers stores it, both ways. tests/parity/make_model_fixtures.py made the folder.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <filesystem>
#include <fstream>
#include <functional>
#include <gradus/tokenizer/tokenizer_trainer.hpp>
#include <map>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "../support/message_of.hpp"
#include "../support/scratch_folder.hpp"
#include "gpt/tools/huggingface.hpp"

namespace gr = gradus;
namespace fs = std::filesystem;
using gradus_test::message_of;

namespace {

const fs::path recorded = fs::path(GRADUS_TEST_DATA) / "gpt2";
constexpr gpt::config sizes{2, 3, 21, 13, 61};
using ids = gr::tensor<std::int32_t, gr::shape<3, 13>>;

template <class Precision = gr::fp32>
struct loaded {
  gr::stream stream;
  gr::host_resource heap;
  gr::context<gr::cpu> ctx{stream, heap};
  gpt::model<gr::on<gr::cpu, Precision>, sizes> net;

  double largest_difference() {
    gr::safetensors_file file(recorded / "logits.safetensors");
    const auto tokens = file.read<std::int32_t>("tokens");
    const auto wanted = file.read<float>("logits");
    const auto found = net(gr::from_host<std::int32_t, gr::shape<3, 13>>(ctx, tokens.data()));
    double worst = 0;
    for (std::size_t row = 0; row < 39; ++row)
      for (std::size_t i = 0; i < 61; ++i)
        worst = std::max(worst, std::abs(static_cast<double>(static_cast<float>(found.data()[row * 64 + i])) -
                                         static_cast<double>(wanted[row * 61 + i])));
    return worst;
  }
};

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// The recorded folder, as `change` leaves it.
struct changed_folder {
  std::string config = text_of(recorded / "config.json");
  std::map<std::string, std::pair<std::vector<std::size_t>, std::vector<float>>> tensors;

  changed_folder() {
    gr::safetensors_file file(recorded / "model.safetensors");
    for (const auto& [name, entry] : file.entries()) tensors[name] = {entry.shape, file.read<float>(name)};
  }
  void set(const std::string& from, const std::string& to) {
    const auto at = config.find(from);
    REQUIRE(at != std::string::npos);
    config.replace(at, from.size(), to);
  }
  fs::path write(const fs::path& folder) const {
    fs::create_directories(folder);
    std::ofstream(folder / "config.json") << config;
    gr::safetensors_writer file;
    for (const auto& [name, t] : tensors)
      file.add(name, std::span<const std::size_t>(t.first), std::span<const float>(t.second));
    file.write(folder / "model.safetensors");
    return folder;
  }
};

std::string refusal(const std::function<void(changed_folder&)>& change) {
  const gradus_test::scratch_folder place;
  changed_folder folder;
  change(folder);
  folder.write(place.path);
  loaded<> l;
  const std::string text = message_of([&] { gpt::load_huggingface(l.net, l.ctx, place.path); });
  CHECK(!l.net.positions.value());  // nothing was changed
  return text.substr(std::min(text.size(), text.find(": ") + 2));
}

}  // namespace

TEST_CASE("a GPT-2 of Hugging Face's has the logits that transformers gives") {
  loaded<> l;
  gpt::load_huggingface(l.net, l.ctx, recorded);
  CHECK(l.largest_difference() < 1e-5);  // of logits up to 10
  loaded<gr::bf16_mixed> half;
  gpt::load_huggingface(half.net, half.ctx, recorded);
  CHECK(half.largest_difference() < 0.2);
}

TEST_CASE("the token table is padded with zeros") {
  loaded<> l;
  gpt::load_huggingface(l.net, l.ctx, recorded);
  const auto table = l.net.tokens.weight.value().values();
  for (std::size_t i = 61 * 21; i < 64 * 21; ++i) REQUIRE(table[i] == 0);
}

TEST_CASE("a folder that is written holds the tensors that were read, byte for byte, and the settings") {
  const gradus_test::scratch_folder place;
  loaded<> l;
  gpt::load_huggingface(l.net, l.ctx, recorded);
  gpt::save_huggingface(l.net, place.path);
  gr::safetensors_file wanted(recorded / "model.safetensors"), found(place.path / "model.safetensors");
  CHECK(found.metadata().at("format") == "pt");
  CHECK(found.entries().size() == wanted.entries().size());
  for (const auto& one : wanted.entries()) {
    const auto& name = one.first;
    const auto& entry = one.second;
    CAPTURE(name);
    REQUIRE(found.has(name));
    CHECK(found.entry(name).shape == entry.shape);
    CHECK(found.read<float>(name) == wanted.read<float>(name));
  }
  const auto theirs = gr::parse_json(text_of(recorded / "config.json"), "theirs");
  const auto ours = gr::parse_json(text_of(place.path / "config.json"), "ours");
  for (const char* key : {"architectures", "model_type", "activation_function", "n_layer", "n_head", "n_embd",
                          "n_positions", "n_ctx", "n_inner", "vocab_size", "layer_norm_epsilon", "scale_attn_weights",
                          "scale_attn_by_inverse_layer_idx", "tie_word_embeddings"})
    CHECK(ours.at(key) == theirs.at(key));
  loaded<> again;
  gpt::load_huggingface(again.net, again.ctx, place.path);
  CHECK(again.largest_difference() == l.largest_difference());
}

TEST_CASE("a model in several files, which an index names, is read") {
  const gradus_test::scratch_folder place;
  changed_folder all;
  fs::create_directories(place.path);
  std::ofstream(place.path / "config.json") << all.config;
  const std::string names[] = {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"};
  gr::safetensors_writer files[2];
  std::string map;
  std::size_t n = 0;
  for (const auto& [name, t] : all.tensors) {
    const std::size_t in = ++n > 5;
    files[in].add(name, std::span<const std::size_t>(t.first), std::span<const float>(t.second));
    map.append(map.empty() ? "\"" : ", \"").append(name).append("\": \"").append(names[in]).append("\"");
  }
  for (std::size_t i = 0; i < 2; ++i) files[i].write(place.path / names[i]);
  std::ofstream(place.path / "model.safetensors.index.json") << "{\"weight_map\": {" + map + "}}";
  loaded<> l;
  gpt::load_huggingface(l.net, l.ctx, place.path);
  CHECK(l.largest_difference() < 1e-5);
  fs::remove(place.path / names[1]);
  CHECK(message_of([&] { gpt::load_huggingface(l.net, l.ctx, place.path); }) ==
        (place.path / names[1]).string() + ": no such file");
}

TEST_CASE("of a folder that only PyTorch reads, the message says how to convert it") {
  const gradus_test::scratch_folder place;
  changed_folder().write(place.path);
  for (const char* name : {"pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    fs::remove(place.path / "model.safetensors");
    std::ofstream(place.path / name) << "PK";
    loaded<> l;
    const std::string text = message_of([&] { gpt::load_huggingface(l.net, l.ctx, place.path); });
    const std::string folder = place.path.string();
    CHECK(text == folder +
                      ": has pytorch_model.bin and no model.safetensors, which transformers makes of it: python3 -c "
                      "'from transformers import AutoModelForCausalLM as M; M.from_pretrained(\"" +
                      folder + "\").save_pretrained(\"" + folder + "\")'");
    fs::remove(place.path / name);
  }
  loaded<> l;
  CHECK(message_of([&] { gpt::load_huggingface(l.net, l.ctx, place.path); }) ==
        (place.path / "model.safetensors").string() + ": no such file");
}

TEST_CASE("a folder that is written has the tokenizer in the files that AutoTokenizer reads") {
  const gradus_test::scratch_folder place;
  loaded<> l;
  gpt::load_huggingface(l.net, l.ctx, recorded);
  const gr::tokenizer tokenizer = gr::read_tokenizer_json(fs::path(GRADUS_TEST_DATA) / "tokenizer" / "tokenizer.json");
  gpt::save_huggingface(l.net, place.path, &tokenizer);
  CHECK(gpt::same_tokenizer(gr::read_tokenizer_json(place.path / "tokenizer.json"), tokenizer));
  const auto settings = gr::parse_json(text_of(place.path / "tokenizer_config.json"), "tokenizer_config.json");
  CHECK(settings.at("tokenizer_class") == "PreTrainedTokenizerFast");
  CHECK(settings.at("model_max_length") == 13);
  CHECK(settings.at("eos_token") == "<|endoftext|>");
  const auto config = gr::parse_json(text_of(place.path / "config.json"), "config.json");
  CHECK(config.at("eos_token_id") == tokenizer.id_of("<|endoftext|>"));
  // The tokens of a model of bytes are bytes there, too.
  const gr::tokenizer bytes = gr::byte_level_tokenizer();
  gpt::save_huggingface_tokenizer(bytes, 13, place.path);
  const gr::tokenizer read = gr::read_tokenizer_json(place.path / "tokenizer.json");
  CHECK(read.encode("a\n\xff") == std::vector<std::int32_t>{'a', '\n', 255});
  CHECK(gpt::same_tokenizer(read, bytes));
  CHECK(!gpt::same_tokenizer(read, tokenizer));
  CHECK(text_of(place.path / "tokenizer_config.json").find("eos") == std::string::npos);
}

TEST_CASE("a folder that is written has what the model's files say of texts, as they say it") {
  const gradus_test::scratch_folder place;
  const fs::path theirs = place.path / "theirs", ours = place.path / "ours";
  fs::create_directories(theirs / "additional_chat_templates");
  fs::create_directories(ours);
  fs::copy(fs::path(GRADUS_TEST_DATA) / "tokenizer" / "tokenizer.json", theirs / "tokenizer.json");
  const std::map<std::string, std::string> files{
      {"tokenizer_config.json", R"({"eos_token": "!", "pad_token": "?", "padding_side": "left", "own": [1]})"},
      {"special_tokens_map.json", R"({"eos_token": {"content": "!"}})"},
      {"generation_config.json", R"({"do_sample": true, "temperature": 0.6, "eos_token_id": [7, 9]})"},
      {"chat_template.jinja", "{{ messages }}"},
      {"additional_chat_templates/tool.jinja", "{{ tools }}"}};
  for (const auto& [name, text] : files) std::ofstream(theirs / name) << text;
  std::ofstream(theirs / "config.json") << R"({"eos_token_id": [7, 8], "bos_token_id": null})";
  loaded<> l;
  gpt::load_huggingface(l.net, l.ctx, recorded);
  const gr::tokenizer tokenizer = gr::read_tokenizer_json(theirs / "tokenizer.json");
  gpt::save_huggingface(l.net, ours, &tokenizer);
  for (const auto& [name, text] : files) {
    CAPTURE(name);
    CHECK(text_of(ours / name) == text);
  }
  CHECK_FALSE(fs::exists(ours / "token_ids.json"));
  const auto config = gr::parse_json(text_of(ours / "config.json"), "config.json");
  CHECK(config.at("eos_token_id") == nlohmann::json({7, 8}));
  CHECK(config.at("bos_token_id").is_null());
  CHECK_FALSE(config.contains("pad_token_id"));
  CHECK(config.at("n_layer") == l.net.blocks.size());
  // Without a tokenizer what is known of the model's texts stays.
  gpt::save_huggingface(l.net, ours, nullptr, gpt::huggingface_shard_bytes, tokenizer.settings());
  CHECK(gr::parse_json(text_of(ours / "config.json"), "config.json") == config);
  CHECK(text_of(ours / "generation_config.json") == files.at("generation_config.json"));
}

TEST_CASE("the layout of older files is read: no prefix, masks among the tensors, the head beside the table") {
  const gradus_test::scratch_folder place;
  changed_folder folder, old;
  old.tensors.clear();
  for (const auto& [name, t] : folder.tensors) old.tensors[name.substr(std::string("transformer.").size())] = t;
  old.tensors["h.0.attn.bias"] = {{1, 1, 13, 13}, std::vector<float>(169)};
  old.tensors["h.1.attn.masked_bias"] = {{}, {-10000.0f}};
  old.tensors["lm_head.weight"] = old.tensors.at("wte.weight");
  old.set(R"("tie_word_embeddings": true,)", "");
  old.write(place.path);
  loaded<> l;
  gpt::load_huggingface(l.net, l.ctx, place.path);
  CHECK(l.largest_difference() < 1e-5);
}

TEST_CASE("a folder of another model is refused, with what differs, and nothing is changed") {
  using folder = changed_folder;
  const std::string name = "transformer.h.1.mlp.c_fc.weight";
  CHECK(refusal([](folder& f) { f.set(R"("n_layer": 2)", R"("n_layer": 3)"); }) ==
        "'n_layer' is 3, and this program was compiled for 2");
  CHECK(refusal([](folder& f) { f.set(R"("n_embd": 21,)", ""); }) ==
        "'n_embd' is 768, and this program was compiled for 21");
  CHECK(refusal([](folder& f) { f.set(R"("gpt2")", R"("llama")"); }) ==
        "'model_type' is \"llama\" where \"gpt2\" is needed");
  CHECK(refusal([](folder& f) { f.set("gelu_new", "relu"); }) ==
        "'activation_function' is \"relu\" where \"gelu_new\" is needed");
  CHECK(refusal([](folder& f) { f.set("1e-05", "1e-06"); }) == "'layer_norm_epsilon' is 1e-06 where 1e-05 is needed");
  CHECK(refusal([](folder& f) { f.set(R"("tie_word_embeddings": true)", R"("tie_word_embeddings": false)"); }) ==
        "'tie_word_embeddings' is false where true is needed");
  CHECK(refusal([](folder& f) { f.set(R"("n_inner": null)", R"("n_inner": 80)"); }) ==
        "'n_inner' is 80, and a block of this program is 84 wide inside");
  CHECK(refusal([](folder& f) { f.set(R"("n_inner": null)", R"("use_rope": true)"); }) ==
        "'use_rope', which is true, is not known, and could change what is computed");
  CHECK(refusal([](folder& f) { f.config = "[]"; }) == "is not a JSON object");
  CHECK(refusal([&](folder& f) { f.tensors.erase(name); }) == "has no tensor '" + name + "'");
  CHECK(refusal([&](folder& f) {
          f.tensors.at(name).first = {84, 21};
        }) == "'" + name + "' has the shape [84, 21] where [21, 84] is needed");
  CHECK(refusal([&](folder& f) {
          f.tensors["transformer.h.2.ln_1.bias"] = f.tensors.at("transformer.h.1.ln_1.bias");
        }) == "'transformer.h.2.ln_1.bias' is not a tensor of this GPT-2");
  CHECK(refusal([](folder& f) {
          f.tensors["lm_head.weight"] = f.tensors.at("transformer.wte.weight");
          f.tensors.at("lm_head.weight").second[5] += 1;
        }) == "'lm_head.weight' is not 'wte.weight', and this model has one table for both");
  loaded<> l;
  CHECK(message_of([&] { gpt::load_huggingface(l.net, l.ctx, "/nowhere"); }) == "/nowhere/config.json: no such file");
}
