#pragma once
// How transformers stores each family of encoders: the keys of its config.json and the names of its tensors. A family
// is a row of families (architecture.hpp) and a case of files_of().

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gradus/core/error.hpp>
#include <gradus/core/parse_number.hpp>
#include <gradus/io/json.hpp>
#include <gradus/io/text_file.hpp>

#include "../gpt/tools/huggingface_config.hpp"
#include "architecture.hpp"

namespace bert {

/// Our name of something, and theirs.
using name_pairs = std::vector<std::pair<std::string_view, std::string_view>>;

/// How a family is stored.
struct family_files {
  std::string classes;  ///< "Bert" for BertModel and BertForSequenceClassification
  std::string prefix;   ///< of the tensors of a model with a head
  std::vector<std::pair<const char*, gr::index_t config::*>> sizes;
  nlohmann::json keys;  ///< of its class that are read, and what it takes where a file lacks one
  std::vector<std::pair<const char*, const char*>> other_names;  ///< of keys, which come first
  std::vector<const char*> dropouts;                             ///< the run has its own
  const char* activation;
  const char* epsilon;  ///< null: all models have the family's
  name_pairs tensors;   ///< in the encoder, and, behind a slash, in the head
  std::string layer;    ///< the prefix of a block's tensors; # is its number
  name_pairs layer_tensors;
  std::vector<std::string_view> other_heads;  ///< how tensors of heads for other tasks begin
};

inline family_files files_of(family which) {
  using nlohmann::operator""_json;
  const family_files bert{
      .classes = "Bert",
      .prefix = "bert.",
      .sizes = {{"num_hidden_layers", &config::layers},
                {"num_attention_heads", &config::heads},
                {"hidden_size", &config::width},
                {"intermediate_size", &config::hidden},
                {"vocab_size", &config::vocabulary},
                {"max_position_embeddings", &config::positions},
                {"type_vocab_size", &config::segments}},
      .keys = R"({"vocab_size": 30522, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
          "intermediate_size": 3072, "hidden_act": "gelu", "max_position_embeddings": 512, "type_vocab_size": 2,
          "layer_norm_eps": 1e-12, "is_decoder": false, "add_cross_attention": false,
          "tie_word_embeddings": true})"_json,
      .other_names = {},
      .dropouts = {"hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"},
      .activation = "hidden_act",
      .epsilon = "layer_norm_eps",
      .tensors = {{"tokens", "embeddings.word_embeddings"},
                  {"positions", "embeddings.position_embeddings"},
                  {"segments", "embeddings.token_type_embeddings"},
                  {"norm", "embeddings.LayerNorm"},
                  {"pooler", "pooler.dense"},
                  {"classifier", "/classifier"}},
      .layer = "encoder.layer.#.",
      .layer_tensors = {{"attention.query", "attention.self.query"},
                        {"attention.key", "attention.self.key"},
                        {"attention.value", "attention.self.value"},
                        {"attention.output", "attention.output.dense"},
                        {"norm1", "attention.output.LayerNorm"},
                        {"mlp.up", "intermediate.dense"},
                        {"mlp.down", "output.dense"},
                        {"norm2", "output.LayerNorm"}},
      .other_heads = {"cls."},
  };
  family_files files = bert;
  const auto rename = [&files](std::string_view ours, std::string_view theirs) {
    std::ranges::find(files.tensors, ours, &name_pairs::value_type::first)->second = theirs;
  };
  switch (which) {
    case family::bert:
      break;
    case family::roberta:
    case family::xlm_roberta:
      files.classes = which == family::roberta ? "Roberta" : "XLMRoberta";
      files.prefix = "roberta.";
      files.keys["pad_token_id"] = 1;
      if (which == family::roberta) files.keys["vocab_size"] = 50265;
      rename("pooler", "/classifier.dense");
      rename("classifier", "/classifier.out_proj");
      files.other_heads = {"lm_head.", "pooler."};
      break;
    case family::distilbert:
      files.classes = "DistilBert";
      files.prefix = "distilbert.";
      files.sizes = {{"n_layers", &config::layers},
                     {"n_heads", &config::heads},
                     {"dim", &config::width},
                     {"hidden_dim", &config::hidden},
                     {"vocab_size", &config::vocabulary},
                     {"max_position_embeddings", &config::positions}};
      files.keys = R"({"vocab_size": 30522, "max_position_embeddings": 512, "sinusoidal_pos_embds": false,
          "n_layers": 6, "n_heads": 12, "dim": 768, "hidden_dim": 3072, "activation": "gelu",
          "tie_word_embeddings": true})"_json;
      files.other_names = {
          {"n_layers", "num_hidden_layers"}, {"n_heads", "num_attention_heads"}, {"dim", "hidden_size"}};
      files.dropouts = {"dropout", "attention_dropout", "seq_classif_dropout", "qa_dropout"};
      files.activation = "activation";
      files.epsilon = nullptr;
      rename("pooler", "/pre_classifier");
      files.layer = "transformer.layer.#.";
      files.layer_tensors = {{"attention.query", "attention.q_lin"},
                             {"attention.key", "attention.k_lin"},
                             {"attention.value", "attention.v_lin"},
                             {"attention.output", "attention.out_lin"},
                             {"norm1", "sa_layer_norm"},
                             {"mlp.up", "ffn.lin1"},
                             {"mlp.down", "ffn.lin2"},
                             {"norm2", "output_layer_norm"}};
      files.other_heads = {"vocab_transform.", "vocab_layer_norm.", "vocab_projector."};
      break;
    case family::albert:
      files.classes = "Albert";
      files.prefix = "albert.";
      files.sizes.emplace_back("embedding_size", &config::embedding);
      files.keys = R"({"vocab_size": 30000, "embedding_size": 128, "hidden_size": 4096, "num_hidden_layers": 12,
          "num_hidden_groups": 1, "num_attention_heads": 64, "intermediate_size": 16384, "inner_group_num": 1,
          "hidden_act": "gelu_new", "max_position_embeddings": 512, "type_vocab_size": 2, "layer_norm_eps": 1e-12,
          "tie_word_embeddings": true})"_json;
      files.dropouts.back() = "classifier_dropout_prob";
      files.tensors.emplace_back("projection", "encoder.embedding_hidden_mapping_in");
      rename("pooler", "pooler");
      files.layer = "encoder.albert_layer_groups.0.albert_layers.0.";
      files.layer_tensors = {{"attention.query", "attention.query"},
                             {"attention.key", "attention.key"},
                             {"attention.value", "attention.value"},
                             {"attention.output", "attention.dense"},
                             {"norm1", "attention.LayerNorm"},
                             {"mlp.up", "ffn"},
                             {"mlp.down", "ffn_output"},
                             {"norm2", "full_layer_layer_norm"}};
      files.other_heads = {"predictions.", "sop_classifier."};
      break;
  }
  return files;
}

/// Where a family's file has our parameter `name`, with the prefix of the encoder or without it:
/// "bert.encoder.layer.3.attention.self.query.weight" for "blocks.3.attention.query.weight".
inline std::string tensor_name(const family_files& files, std::string_view name, bool with_prefix) {
  const std::size_t dot = name == "positions" ? name.npos : name.rfind('.');
  const std::string last = "." + std::string(dot == name.npos ? "weight" : name.substr(dot + 1));
  std::string_view part = name.substr(0, dot);
  std::string layer;
  const bool of_block = part.starts_with("blocks.");
  if (of_block) {
    part.remove_prefix(std::string_view("blocks.").size());
    const std::size_t end = part.find('.');
    layer = files.layer;
    if (const auto at = layer.find('#'); at != layer.npos) layer.replace(at, 1, part.substr(0, end));
    part.remove_prefix(end + 1);
  }
  const name_pairs& all = of_block ? files.layer_tensors : files.tensors;
  const auto theirs = std::string(std::ranges::find(all, part, &name_pairs::value_type::first)->second);
  if (theirs.starts_with('/')) return theirs.substr(1) + last;
  return (with_prefix ? files.prefix : "") + layer + theirs + last;
}

/// The names of activations in config.json; the first of each is written.
inline constexpr std::pair<const char*, gr::nn::activation> activations[] = {
    {"gelu", gr::nn::activation::gelu_erf}, {"gelu_python", gr::nn::activation::gelu_erf},
    {"gelu_new", gr::nn::activation::gelu}, {"gelu_pytorch_tanh", gr::nn::activation::gelu},
    {"relu", gr::nn::activation::relu},     {"silu", gr::nn::activation::silu},
    {"swish", gr::nn::activation::silu},
};

/// Keys of encoders that change nothing, besides gpt::harmless_keys: of a layer behind the pooler that transformers
/// does not have, of training from random weights.
inline constexpr const char* harmless_here =
    " directionality pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type "
    "sinusoidal_pos_embds tie_encoder_decoder tie_weights_ tie_word_embeddings ";

/// Keys that must have this value, as JSON, or be null.
inline constexpr std::pair<const char*, const char*> required_values[] = {{"position_embedding_type", "\"absolute\""},
                                                                          {"is_decoder", "false"},
                                                                          {"is_encoder_decoder", "false"},
                                                                          {"add_cross_attention", "false"},
                                                                          {"pruned_heads", "{}"},
                                                                          {"use_bfloat16", "false"},
                                                                          {"num_hidden_groups", "1"},
                                                                          {"inner_group_num", "1"},
                                                                          {"down_scale_factor", "1"},
                                                                          {"gap_size", "0"},
                                                                          {"net_structure_type", "0"},
                                                                          {"num_memory_blocks", "0"},
                                                                          {"layers_to_keep", "[]"}};

/// The names of a model's classes; none where they are numbers or LABEL_0, LABEL_1, ..., as transformers calls classes
/// without names.
inline std::vector<std::string> class_names(const nlohmann::json& id2label) {
  std::vector<std::string> names;
  bool named = false;
  for (std::size_t i = 0; id2label.is_object() && i < id2label.size(); ++i) {
    const std::string number = std::to_string(i);
    if (!id2label.contains(number) || !id2label.at(number).is_string()) return {};
    names.push_back(id2label.at(number));
    named = named || (names.back() != "LABEL_" + number && !gr::parse_number<long long>(names.back()));
  }
  return named ? names : std::vector<std::string>();
}

/// How sentence-transformers makes an embedding: of the modules that modules.json lists behind the encoder. Without
/// that file it is the mean of the tokens. Throws gradus::error.
inline void read_pooling(const std::filesystem::path& folder, settings& into) {
  if (!std::filesystem::exists(folder / "modules.json")) return;
  const std::string path = (folder / "modules.json").string();
  const nlohmann::json modules = gr::parse_json(gr::read_text(path), path);
  if (!modules.is_array()) throw gr::error(path + ": is not a JSON array");
  into.normalized = false;
  for (const nlohmann::json& module : modules) {
    const std::string type = module.is_object() ? module.value("type", "") : "";
    const std::string name = type.substr(type.rfind('.') + 1);
    if (name == "Normalize") into.normalized = true;
    else if (name == "Pooling") {
      const gpt::huggingface_config pooling(folder / module.value("path", "1_Pooling") / "config.json");
      std::vector<std::string> modes;
      for (const auto& [key, value] : pooling.all().items()) {
        if (key == "pooling_mode" && value.is_string()) modes.push_back(value);
        else if (key.starts_with("pooling_mode_") && value.is_boolean()) {
          if (value) modes.push_back(key.substr(std::string("pooling_mode_").size()));
        } else if (key != "word_embedding_dimension" && key != "embedding_dimension" && key != "include_prompt")
          pooling.fail(key.c_str(), ", a setting that is not known");
      }
      if (modes == std::vector<std::string>{"cls_token"} || modes == std::vector<std::string>{"cls"})
        into.pooling = pooling::cls;
      else if (modes == std::vector<std::string>{"mean_tokens"} || modes == std::vector<std::string>{"mean"})
        into.pooling = pooling::mean;
      else pooling.fail("must have pooling_mode_mean_tokens or pooling_mode_cls_token, and no other mode");
    } else if (name != "Transformer") {
      throw gr::error(path + ": the module '" + name + "' is not known; Transformer, Pooling and Normalize are");
    }
  }
}

/// The config.json in a folder with the values that its family's class has: defaults where it lacks a key, and without
/// the keys that other families have alone, which transformers ignores. Throws gradus::error for another family's.
inline gpt::huggingface_config complete_config(const std::filesystem::path& folder) {
  const gpt::huggingface_config file(folder / "config.json");
  const auto known = std::ranges::find(families, file.value("model_type"), &family_facts::type);
  if (known == families.end()) {
    std::string types;
    for (const family_facts& f : families) types += std::string(types.empty() ? "" : ", ") + f.type;
    file.fail("model_type", "; " + types + " are read");
  }
  const family_files files = files_of(static_cast<family>(known - families.begin()));
  nlohmann::json all = file.all();
  for (const auto& [key, other] : files.other_names)
    if (all.contains(other)) all[key] = all[other];
  for (std::size_t i = 0; i < families.size(); ++i) {
    const family_files others = files_of(static_cast<family>(i));
    for (const auto& [key, otherwise] : others.keys.items())
      if (!files.keys.contains(key) && key != "pad_token_id") all.erase(key);
  }
  for (const auto& [key, otherwise] : files.keys.items())
    if (!all.contains(key)) all[key] = otherwise;
  return file.with(std::move(all));
}

/// What a folder's config.json says, all of it; for an embedding model, also what sentence-transformers keeps beside
/// it. Throws gradus::error, which names the key, for a model that would be another one here.
inline description describe(const std::filesystem::path& folder, bool embeds) {
  const gpt::huggingface_config file = complete_config(folder);
  description d;
  const auto known = std::ranges::find(families, file.value("model_type"), &family_facts::type);
  d.sizes.family = static_cast<family>(known - families.begin());
  const family_files files = files_of(d.sizes.family);
  for (const auto& [key, member] : files.sizes) d.sizes.*member = file.whole(key);
  const auto acts = std::ranges::find(activations, file.value(files.activation),
                                      [](const auto& a) { return nlohmann::json(a.first); });
  if (acts == std::end(activations)) file.fail(files.activation, "; gelu, gelu_new, relu and silu are known");
  d.sizes.activation = acts->second;
  d.settings.epsilon = known->epsilon;
  if (files.epsilon != nullptr) {
    d.settings.epsilon = file.number(files.epsilon);
    if (!(d.settings.epsilon > 0 && d.settings.epsilon < 1)) file.fail(files.epsilon, " where 0 to 1 is possible");
  }
  if (known->first_position > 0) {  // positions follow the padding's
    const gr::index_t pad = file.whole("pad_token_id", 0);
    if (pad >= d.sizes.positions) file.fail("pad_token_id", ", and there are no positions behind it");
    d.sizes.first_position = pad + 1;
  }

  const nlohmann::json architecture = file.value("architectures");
  d.has_head = architecture.is_array() && !architecture.empty() && architecture[0].is_string() &&
               architecture[0].get<std::string>().ends_with("ForSequenceClassification");
  if (d.has_head) {
    const nlohmann::json names = file.value("id2label"), problem = file.value("problem_type"),
                         count = file.value("num_labels");
    d.sizes.labels = names.is_object() ? names.size() : count.is_number_unsigned() ? count.get<gr::index_t>() : 2;
    if (problem == "regression" || (problem.is_null() && d.sizes.labels == 1)) d.sizes.task = task::regression;
    else if (!problem.is_null() && problem != "single_label_classification")
      file.fail("problem_type", "; single_label_classification and regression are known");
    if (d.sizes.task == task::regression && d.sizes.labels != 1)
      file.fail("problem_type", " of " + std::to_string(d.sizes.labels) + " numbers, and one is possible");
    d.labels = class_names(names);
  }

  file.check_is_plain();
  for (const char* key : files.dropouts) static_cast<void>(file.value(key));
  for (const auto& [key, value] : required_values) file.check_fixed(key, nlohmann::json::parse(value));
  file.check_all_read(harmless_here);
  if (embeds) read_pooling(folder, d.settings);
  return d;
}

/// Throws gradus::error unless a folder's model is the one that a program was compiled for, whatever its labels.
inline void check_compiled_for(const config& compiled, const description& found, const std::filesystem::path& folder) {
  const gpt::huggingface_config file = complete_config(folder);
  const auto check = [&](const char* key, bool same, const std::string& wanted) {
    if (!same) file.fail(key, ", and this program was compiled for " + wanted);
  };
  const family_files files = files_of(compiled.family);
  check("model_type", found.sizes.family == compiled.family, facts_of(compiled.family).type);
  for (const auto& [key, member] : files.sizes)
    check(key, found.sizes.*member == compiled.*member, std::to_string(compiled.*member));
  check(files.activation, found.sizes.activation == compiled.activation,
        activation_names[static_cast<std::size_t>(compiled.activation)]);
  check("pad_token_id", found.sizes.first_position == compiled.first_position,
        std::to_string(std::max<gr::index_t>(compiled.first_position, 1) - 1));
}

/// The config.json of a model, as transformers writes it. `type` is that of its parameters.
inline nlohmann::ordered_json config_of(const config& c, const settings& s, double dropout,
                                        const std::vector<std::string>& labels, const std::string& type) {
  const family_files files = files_of(c.family);
  const family_facts& facts = facts_of(c.family);
  nlohmann::ordered_json all{
      {"architectures", {files.classes + (c.embeds() ? "Model" : "ForSequenceClassification")}},
      {"model_type", facts.type},
      {files.activation, std::ranges::find(activations, c.activation, [](const auto& a) { return a.second; })->first}};
  for (const auto& [key, member] : files.sizes) all[key] = c.*member;
  if (files.epsilon != nullptr) all[files.epsilon] = s.epsilon;
  all["initializer_range"] = 0.02;
  for (const char* key : files.dropouts) all[key] = dropout;
  all["pad_token_id"] = c.first_position > 0 ? static_cast<int>(c.first_position) - 1 : facts.pad;
  if (!c.embeds()) {
    nlohmann::ordered_json names = nlohmann::ordered_json::object(), numbers = names;
    for (std::size_t i = 0; i < c.labels; ++i) {
      const std::string name = i < labels.size() ? labels[i] : "LABEL_" + std::to_string(i);
      names[std::to_string(i)] = name;
      numbers[name] = i;
    }
    all["id2label"] = names;
    all["label2id"] = numbers;
    all["problem_type"] = c.task == task::regression ? "regression" : "single_label_classification";
  }
  all["torch_dtype"] = type;
  return all;
}

}  // namespace bert
