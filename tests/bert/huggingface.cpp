// BERT as Hugging Face's transformers stores it, both ways, and as it trains it. tests/parity/make_model_fixtures.py
// made the folder.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "../support/message_of.hpp"
#include "../support/scratch_folder.hpp"
#include "bert/huggingface.hpp"
#include "bert/training.hpp"
#include "without_padding.hpp"

namespace gr = gradus;
namespace fs = std::filesystem;
using gradus_test::message_of;

namespace {

const fs::path recorded = fs::path(GRADUS_TEST_DATA) / "bert";
constexpr bert::config sizes{
    .layers = 2, .heads = 4, .width = 32, .hidden = 72, .positions = 16, .vocabulary = 61, .segments = 2, .labels = 3};
constexpr gr::index_t batch = 4, length = 13, steps = 20;

bert::host_batch recorded_batch(gr::index_t step) {
  gr::safetensors_file file(recorded / "steps.safetensors");
  const auto part = [&]<class T>(const char* name, T) {
    const auto all = file.read<T>(name);
    const auto each = static_cast<std::ptrdiff_t>(all.size() / steps);
    const auto at = all.begin() + static_cast<std::ptrdiff_t>(step) * each;
    return std::vector<T>(at, at + each);
  };
  return without_padding({part("tokens", std::int32_t{}), part("segments", std::uint8_t{}),
                          part("lengths", std::int32_t{}), part("labels", std::int32_t{})});
}

template <class Precision = gr::fp32>
struct loaded {
  gr::stream stream;
  gr::host_resource heap;
  gr::context<gr::cpu> ctx{stream, heap};
  bert::training<gr::cpu, sizes, batch, length, Precision> training{
      ctx, ctx, {.adamw = {.lr = 1e-3, .beta2 = 0.999, .weight_decay = 0.01}}};

  explicit loaded(const fs::path& folder = recorded) { bert::load_huggingface(training.net, ctx, folder); }
  double largest_difference() {
    const auto wanted = gr::safetensors_file(recorded / "steps.safetensors").read<float>("logits");
    const auto found = training.evaluate(recorded_batch(0));
    double worst = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i)
      worst = std::max(
          worst, std::abs(static_cast<double>(static_cast<float>(found.data()[i])) - static_cast<double>(wanted[i])));
    return worst;
  }
};

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// The recorded folder, to be changed.
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
  void rename(const std::function<std::string(std::string)>& new_name) {
    decltype(tensors) renamed;
    for (auto& [name, t] : tensors) renamed[new_name(name)] = std::move(t);
    tensors = std::move(renamed);
  }
  fs::path write(const fs::path& folder) const {
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
  const auto before = gr::to_host(l.training.net.positions.value());
  const std::string text = message_of([&] { bert::load_huggingface(l.training.net, l.ctx, place.path); });
  CHECK(gr::to_host(l.training.net.positions.value()) == before);
  return text.substr(std::min(text.size(), text.find(": ") + 2));
}

}  // namespace

TEST_CASE("a BERT of Hugging Face's has the logits that transformers gives, with padding and pairs of sentences") {
  CHECK(loaded<>().largest_difference() < 1e-5);
  CHECK(loaded<gr::bf16_mixed>().largest_difference() < 2e-2);
  CHECK(loaded<gr::bf16_stream>().largest_difference() < 2e-2);
}

TEST_CASE("20 training steps have the losses of transformers'") {
  const auto wanted = gr::safetensors_file(recorded / "steps.safetensors").read<float>("losses");
  loaded<> l;
  for (gr::index_t step = 0; step < steps; ++step) {
    CAPTURE(step);
    l.training.load(0, recorded_batch(step));
    l.training.step();
    CHECK(std::abs(l.training.send_loss().value() - static_cast<double>(wanted[step])) < 1e-5);
  }
}

TEST_CASE("a sequence has the same logits, bit for bit, whichever others are in the batch") {
  loaded<> l;
  const bert::host_batch b = recorded_batch(0);
  const auto logits = gr::to_host(l.training.evaluate(b));
  bert::host_batch other;  // the last sequence, behind three of other lengths
  const auto last = static_cast<std::ptrdiff_t>(b.lengths.back());
  other.tokens = {1, 2, 3, 60, 60, 7};
  other.tokens.insert(other.tokens.end(), b.tokens.end() - last, b.tokens.end());
  other.segments = {0, 0, 0, 1, 0, 0};
  other.segments.insert(other.segments.end(), b.segments.end() - last, b.segments.end());
  other.lengths = {1, 4, 1, b.lengths.back()};
  other.labels = b.labels;
  const auto found = gr::to_host(l.training.evaluate(other));
  CHECK(std::vector(found.end() - sizes.labels, found.end()) == std::vector(logits.end() - sizes.labels, logits.end()));
}

TEST_CASE(
    "a batch with a sequence that is empty or too long, or with other tokens than its sequences have, is refused") {
  loaded<> l;
  const auto refusal_of = [&](const auto& change) {
    bert::host_batch b = recorded_batch(0);
    b.lengths = {4, 4, 4, 4};
    b.tokens.assign(16, 1);
    b.segments.assign(16, 0);
    change(b);
    return message_of([&] { l.training.load(0, b); });
  };
  CHECK(refusal_of([](auto&) {}) == "nothing was thrown");
  CHECK(refusal_of([](auto& b) { b.lengths[1] = 0; }) == "bert: a sequence of 0 tokens; 1 to 13 are possible");
  CHECK(refusal_of([](auto& b) { b.lengths[1] = 14; }) == "bert: a sequence of 14 tokens; 1 to 13 are possible");
  CHECK(refusal_of([](auto& b) { b.tokens.pop_back(); }) ==
        "bert: a batch of 4 sequences and 15 tokens; 4 of 16 tokens and segments are needed");
}

TEST_CASE("a folder that is written holds the tensors that were read, byte for byte, and the settings") {
  const gradus_test::scratch_folder place;
  loaded<> l;
  bert::save_huggingface(l.training.net, place.path);
  gr::safetensors_file wanted(recorded / "model.safetensors"), found(place.path / "model.safetensors");
  CHECK(found.metadata().at("format") == "pt");
  CHECK(found.entries().size() == wanted.entries().size());
  for (const auto& one : wanted.entries()) {
    const auto& name = one.first;
    CAPTURE(name);
    REQUIRE(found.has(name));
    CHECK(found.entry(name).shape == one.second.shape);
    CHECK(found.read<float>(name) == wanted.read<float>(name));
  }
  const auto theirs = gr::parse_json(text_of(recorded / "config.json"), "theirs");
  const auto ours = gr::parse_json(text_of(place.path / "config.json"), "ours");
  for (const char* key : {"architectures", "model_type", "hidden_act", "num_hidden_layers", "num_attention_heads",
                          "hidden_size", "intermediate_size", "max_position_embeddings", "vocab_size",
                          "type_vocab_size", "layer_norm_eps", "initializer_range", "hidden_dropout_prob",
                          "attention_probs_dropout_prob", "pad_token_id", "id2label", "label2id"})
    CHECK(ours.at(key) == theirs.at(key));
  CHECK(loaded<>(place.path).largest_difference() == l.largest_difference());
}

TEST_CASE("a BERT without a classifier leaves ours as it is; old names and heads for other tasks are read") {
  const gradus_test::scratch_folder place;
  changed_folder folder;
  folder.tensors.erase("classifier.weight");
  folder.tensors.erase("classifier.bias");
  const auto same_but_for_the_classifier = [&] {
    folder.write(place.path);
    loaded<> l;
    for (float& w : l.training.net.blocks[1].mlp.up.weight.edit().values()) w = 0;
    const double before = static_cast<double>(l.largest_difference());
    CHECK(before > 1e-3);
    CHECK(!bert::load_huggingface(l.training.net, l.ctx, place.path));
    return l.largest_difference() < 1e-5;
  };
  CHECK(same_but_for_the_classifier());
  folder.rename([](std::string name) { return name.substr(std::string("bert.").size()); });  // BertModel
  CHECK(same_but_for_the_classifier());
  folder.rename([](std::string name) {  // BertForPreTraining, as bert-base-uncased is
    for (const auto& [now, once] :
         {std::pair{"LayerNorm.weight", "LayerNorm.gamma"}, std::pair{"LayerNorm.bias", "LayerNorm.beta"}})
      if (const auto at = name.find(now); at != std::string::npos) name.replace(at, std::string(now).size(), once);
    return "bert." + name;
  });
  folder.tensors["cls.seq_relationship.bias"] = {{2}, {1, 2}};
  folder.tensors["bert.embeddings.position_ids"] = {{1, 2}, {0, 1}};
  CHECK(same_but_for_the_classifier());

  folder.tensors.erase("bert.pooler.dense.weight");  // BertForMaskedLM
  folder.tensors.erase("bert.pooler.dense.bias");
  CHECK(same_but_for_the_classifier());
}

TEST_CASE("classes have the names in config.json, unless these are LABEL_0, LABEL_1, ... or numbers") {
  const auto names_in = [](const std::string& labels) { return bert::class_names(gr::parse_json(labels, "labels")); };
  CHECK(bert::describe(recorded, false).labels.empty());
  CHECK(names_in(R"({"1": "negative", "0": "positive"})") == std::vector<std::string>{"positive", "negative"});
  CHECK(names_in(R"({"0": "1", "1": "2"})").empty());
  CHECK(names_in(R"({"0": "a", "2": "b"})").empty());
  CHECK(names_in("null").empty());
}

TEST_CASE("a model in several files, which an index names, is read; a missing one is a line") {
  const gradus_test::scratch_folder place;
  changed_folder all;
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
  loaded<> l(place.path);
  CHECK(l.largest_difference() < 1e-5);
  fs::remove(place.path / names[1]);
  CHECK(message_of([&] { bert::load_huggingface(l.training.net, l.ctx, place.path); }) ==
        (place.path / names[1]).string() + ": no such file");
}

TEST_CASE("a folder of another model is refused, with what differs, and nothing is changed") {
  using folder = changed_folder;
  const std::string name = "bert.encoder.layer.1.intermediate.dense.weight";
  CHECK(refusal([](folder& f) { f.set(R"("num_hidden_layers": 2)", R"("num_hidden_layers": 3)"); }) ==
        "'num_hidden_layers' is 3, and this program was compiled for 2");
  CHECK(refusal([](folder& f) { f.set(R"("hidden_size": 32,)", ""); }) ==
        "'hidden_size' is 768, and this program was compiled for 32");
  CHECK(refusal([](folder& f) { f.set(R"("model_type": "bert")", R"("model_type": "roberta")"); }) ==
        "'model_type' is \"roberta\", and this program was compiled for bert");
  CHECK(refusal([](folder& f) { f.set(R"("model_type": "bert")", R"("model_type": "gpt2")"); }) ==
        "'model_type' is \"gpt2\"; bert, roberta, xlm-roberta, distilbert, albert are read");
  CHECK(refusal([](folder& f) { f.set(R"("gelu")", R"("relu")"); }) ==
        "'hidden_act' is \"relu\", and this program was compiled for gelu_erf");
  CHECK(refusal([](folder& f) { f.set(R"("is_decoder": false)", R"("is_decoder": true)"); }) ==
        "'is_decoder' is true where false is needed");
  CHECK(refusal([](folder& f) { f.config = "[]"; }) == "is not a JSON object");
  CHECK(refusal([&](folder& f) { f.tensors.erase(name); }) == "has no tensor '" + name + "'");
  CHECK(refusal([&](folder& f) {
          f.tensors.at(name).first = {32, 72};
        }) == "'" + name + "' has the shape [32, 72] where [72, 32] is needed");
  CHECK(refusal([](folder& f) {
          f.tensors.at("classifier.weight") = {{2, 32}, std::vector<float>(64)};
        }) == "'classifier.weight' has the shape [2, 32] where [3, 32] is needed");
  CHECK(refusal([](folder& f) {
          f.tensors["bert.encoder.layer.2.output.dense.bias"] = f.tensors.at("bert.pooler.dense.bias");
        }) == "'bert.encoder.layer.2.output.dense.bias' is not a tensor of this Bert");
}
