#pragma once
// BERT as Hugging Face's transformers stores it (../gpt/tools/huggingface_folder.hpp). Its matrices lie as [out, in],
// ours as [in, out].

#include <cmath>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gradus/core/parse_number.hpp>

#include "../gpt/tools/huggingface_folder.hpp"
#include "model.hpp"

namespace bert {

/// Where a BertForSequenceClassification has our parameter `name`: "bert.encoder.layer.3.attention.self.query.weight"
/// for "blocks.3.attention.query.weight".
inline gpt::huggingface_tensor huggingface_place(const std::string& name) {
  const auto in_bert = [&](std::size_t ours, const char* theirs) { return "bert." + (theirs + name.substr(ours)); };
  if (name.starts_with("classifier.")) return {.name = name, .transposed = name.ends_with("weight")};
  if (name.starts_with("pooler.")) return {.name = in_bert(7, "pooler.dense."), .transposed = name.ends_with("weight")};
  if (name == "positions") return {.name = "bert.embeddings.position_embeddings.weight"};
  if (name.starts_with("tokens.")) return {.name = in_bert(7, "embeddings.word_embeddings.")};
  if (name.starts_with("segments.")) return {.name = in_bert(9, "embeddings.token_type_embeddings.")};
  if (name.starts_with("norm.")) return {.name = in_bert(5, "embeddings.LayerNorm.")};
  const bool of_norm = name.find(".norm") != name.npos;
  return {.name = gpt::renamed("bert." + name, {{".attention.query.", ".attention.self.query."},
                                                {".attention.key.", ".attention.self.key."},
                                                {".attention.value.", ".attention.self.value."},
                                                {".attention.output.", ".attention.output.dense."},
                                                {".norm1.", ".attention.output.LayerNorm."},
                                                {".mlp.up.", ".intermediate.dense."},
                                                {".mlp.down.", ".output.dense."},
                                                {".norm2.", ".output.LayerNorm."},
                                                {"blocks.", "encoder.layer."}}),
          .transposed = name.ends_with("weight") && !of_norm};
}
/// Where the tensors of a folder have our parameter `name`, with or without the prefix "bert." (a BertModel has none),
/// and under the names of norms in new or old files.
inline gpt::huggingface_tensor huggingface_place(const std::string& name, const gr::sharded_safetensors& tensors) {
  gpt::huggingface_tensor place = huggingface_place(name);
  if (place.name.starts_with("bert.") && !tensors.has("bert.embeddings.word_embeddings.weight")) place.name.erase(0, 5);
  const std::string old =
      gpt::renamed(place.name, {{"LayerNorm.weight", "LayerNorm.gamma"}, {"LayerNorm.bias", "LayerNorm.beta"}});
  if (tensors.has(old)) place.name = old;
  return place;
}

/// Throws gradus::error unless a folder's config.json describes a BERT of these sizes.
inline void check_huggingface(const gpt::huggingface_config& file, const config& of) {
  file.check_text("model_type", "bert");
  file.check_size("num_hidden_layers", of.layers);
  file.check_size("num_attention_heads", of.heads);
  file.check_size("hidden_size", of.width);
  file.check_size("intermediate_size", of.hidden);
  file.check_size("max_position_embeddings", of.positions);
  file.check_size("vocab_size", of.vocabulary);
  file.check_size("type_vocab_size", of.segments);
  file.check_text("hidden_act", "gelu");
  if (!file.value("position_embedding_type").is_null()) file.check_text("position_embedding_type", "absolute");
  if (!(std::abs(file.number("layer_norm_eps", norm_epsilon) / norm_epsilon - 1) < 1e-6))
    file.fail("'layer_norm_eps' is " + file.value("layer_norm_eps").dump() + " where 1e-12 is needed");
  file.check_flag("is_decoder", false);
  file.check_flag("add_cross_attention", false);
}

/// The names of the classes in a folder's config.json; none where they are numbers or LABEL_0, LABEL_1, ..., as
/// transformers calls classes without names. Throws gradus::error.
inline std::vector<std::string> huggingface_labels(const std::filesystem::path& folder) {
  const nlohmann::json found = gpt::huggingface_config(folder / "config.json").value("id2label");
  std::vector<std::string> names;
  bool named = false;
  for (std::size_t i = 0; found.is_object() && i < found.size(); ++i) {
    const std::string number = std::to_string(i);
    if (!found.contains(number) || !found.at(number).is_string()) return {};
    names.push_back(found.at(number));
    named = named || (names.back() != "LABEL_" + number && !gr::parse_number<long long>(names.back()));
  }
  return named ? names : std::vector<std::string>();
}

/// Fills the model from a folder of Hugging Face's, whatever type of floating-point number it holds. If it has no
/// classifier (BertModel, a pretrained BERT), ours stays as it is, and the result is false; so does the pooler, if
/// there is neither (BertForMaskedLM). The model is as it was until all of the folder has been read once. Throws
/// gradus::error where the folder holds another model than BERT of these sizes.
template <class X, config C>
bool load_huggingface(model<X, C>& net, gr::context<typename X::device>& ctx, const std::filesystem::path& folder) {
  check_huggingface(gpt::huggingface_config(folder / "config.json"), C);
  gr::sharded_safetensors tensors(gpt::huggingface_tensors(folder, "AutoModelForSequenceClassification"));
  const bool with_classifier = tensors.has("classifier.weight");
  const bool with_pooler =
      with_classifier || tensors.has("bert.pooler.dense.weight") || tensors.has("pooler.dense.weight");
  const auto where = [&](std::string_view name) -> gpt::huggingface_tensor {
    if (!with_pooler && name.starts_with("pooler.")) return {};
    if (!with_classifier && name.starts_with("classifier.")) return {};
    return huggingface_place(std::string(name), tensors);
  };
  std::vector<std::string> known;
  gr::for_each_param(net, [&](std::string_view name, const auto&) { known.push_back(where(name).name); });
  for (const gr::safetensors_file& file : tensors.files())  // heads for other tasks, and the positions 0, 1, 2, ...
    for (const auto& [name, entry] : file.entries())
      if (name.starts_with("cls.") || name.ends_with("embeddings.position_ids")) known.push_back(name);
  gpt::check_huggingface_names(tensors, known, "BERT");
  gpt::read_huggingface(net, ctx, tensors, where);
  return with_classifier;
}

/// Writes the model into a folder, which must be there, as save_pretrained of BertForSequenceClassification does:
/// model.safetensors in the type that parameters are stored in, and config.json. `labels` are names of the classes; if
/// there are none, theirs are LABEL_0, LABEL_1, ... Throws gradus::error.
template <class X, config C>
void save_huggingface(const model<X, C>& net, const std::filesystem::path& folder,
                      const std::vector<std::string>& labels = {}) {
  nlohmann::ordered_json names = nlohmann::ordered_json::object(), numbers = names;
  for (std::size_t i = 0; i < C.labels; ++i) {
    const std::string name = i < labels.size() ? labels[i] : "LABEL_" + std::to_string(i);
    names[std::to_string(i)] = name;
    numbers[name] = i;
  }
  const nlohmann::ordered_json settings{
      {"architectures", {"BertForSequenceClassification"}},
      {"model_type", "bert"},
      {"hidden_act", "gelu"},
      {"num_hidden_layers", C.layers},
      {"num_attention_heads", C.heads},
      {"hidden_size", C.width},
      {"intermediate_size", C.hidden},
      {"max_position_embeddings", C.positions},
      {"vocab_size", C.vocabulary},
      {"type_vocab_size", C.segments},
      {"layer_norm_eps", norm_epsilon},
      {"position_embedding_type", "absolute"},
      {"initializer_range", 0.02},
      {"hidden_dropout_prob", net.dropout},
      {"attention_probs_dropout_prob", net.dropout},
      {"pad_token_id", 0},
      {"id2label", names},
      {"label2id", numbers},
      {"torch_dtype", gpt::huggingface_type<typename X::store>},
  };
  gpt::write_huggingface_tensors(net, folder,
                                 [](std::string_view name) { return huggingface_place(std::string(name)); });
  gr::write_file_atomically(folder / "config.json", settings.dump(2) + "\n");
}

}  // namespace bert
