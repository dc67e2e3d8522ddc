#pragma once
// Encoders as Hugging Face's transformers stores them (families.hpp). Its matrices lie as [out, in], ours as [in, out].

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "../gpt/tools/huggingface_folder.hpp"
#include "families.hpp"
#include "model.hpp"

namespace bert {

/// Whether a parameter of ours is a matrix that a product reads, not a table.
inline bool is_transposed(std::string_view name) {
  return name.ends_with(".weight") && !name.starts_with("tokens.") && !name.starts_with("segments.") &&
         name.find("norm") == name.npos;
}

/// Fills the model from a folder of Hugging Face's, whatever type of floating-point number it holds, and takes its
/// settings. If it has no classifier, ours stays as it is, and the result is false; so does the pooler, if there is
/// none. Tensors of heads for other tasks are not read. The model is as it was until all of the folder has been read
/// once. Throws gradus::error where the folder holds another model.
template <class X, config C>
bool load_huggingface(model<X, C>& net, gr::context<typename X::device>& ctx, const std::filesystem::path& folder) {
  const description found = describe(folder, C.embeds());
  check_compiled_for(C, found, folder);
  const family_files files = files_of(C.family);
  gr::sharded_safetensors tensors(
      gpt::huggingface_tensors(folder, C.embeds() ? "AutoModel" : "AutoModelForSequenceClassification"));
  const bool with_prefix = tensors.has(tensor_name(files, "tokens.weight", true));
  const auto name_of = [&](std::string_view name) {
    const std::string theirs = tensor_name(files, name, with_prefix);
    const std::string old =  // in files of 2018 and 2019
        gpt::renamed(theirs, {{"LayerNorm.weight", "LayerNorm.gamma"}, {"LayerNorm.bias", "LayerNorm.beta"}});
    return tensors.has(old) ? old : theirs;
  };
  const auto is_there = [&](std::string_view name) { return tensors.has(name_of(name)); };
  const bool with_classifier = !C.embeds() && is_there("classifier.weight");
  const bool with_pooler = with_classifier || is_there("pooler.weight");
  const auto where = [&](std::string_view name) -> gpt::huggingface_tensor {
    if (!with_pooler && name.starts_with("pooler.")) return {};
    if (!with_classifier && name.starts_with("classifier.")) return {};
    return {.name = name_of(name), .transposed = is_transposed(name)};
  };
  std::vector<std::string> known;
  gr::for_each_param(net, [&](std::string_view name, const auto&) { known.push_back(where(name).name); });
  if (C.embeds())
    for (const char* name : {"pooler.weight", "pooler.bias", "classifier.weight", "classifier.bias"})
      known.push_back(name_of(name));
  for (const gr::safetensors_file& file : tensors.files())
    for (const auto& [name, entry] : file.entries()) {
      const std::string_view own =
          std::string_view(name).substr(name.starts_with(files.prefix) ? files.prefix.size() : 0);
      if (own == "embeddings.position_ids" || own == "embeddings.token_type_ids" ||  // 0, 1, 2, ..., and 0, 0, 0, ...
          std::ranges::any_of(files.other_heads, [&](std::string_view head) { return own.starts_with(head); }))
        known.push_back(name);
    }
  gpt::check_huggingface_names(tensors, known, files.classes);
  gpt::read_huggingface(net, ctx, tensors, where);
  net.apply(found.settings);
  return with_classifier;
}

/// Writes the model into a folder, which must be there, as save_pretrained does: model.safetensors in the type that
/// parameters are stored in, and config.json; beside those of an embedding model, what sentence-transformers reads.
/// `labels` are names of the classes; if there are none, theirs are LABEL_0, LABEL_1, ... Throws gradus::error.
template <class X, config C>
void save_huggingface(const model<X, C>& net, const std::filesystem::path& folder,
                      const std::vector<std::string>& labels = {}) {
  const family_files files = files_of(C.family);
  gpt::write_huggingface_tensors(net, folder, [&](std::string_view name) {
    return gpt::huggingface_tensor{.name = tensor_name(files, name, !C.embeds()), .transposed = is_transposed(name)};
  });
  const auto write = [](const std::filesystem::path& path, const nlohmann::ordered_json& values) {
    gr::write_file_atomically(path, values.dump(2) + "\n");
  };
  write(folder / "config.json",
        config_of(C, net.settings(), net.dropout, labels, gpt::huggingface_type<typename X::store>));
  if constexpr (C.embeds()) {
    nlohmann::ordered_json modules = nlohmann::ordered_json::array();
    const auto add = [&](const char* type, const std::string& path) {
      const std::string number = std::to_string(modules.size());
      modules.push_back({{"idx", modules.size()},
                         {"name", number},
                         {"path", path.empty() ? "" : number + "_" + path},
                         {"type", std::string("sentence_transformers.models.") + type}});
      std::filesystem::create_directories(folder / modules.back()["path"].template get<std::string>());
    };
    add("Transformer", "");
    add("Pooling", "Pooling");
    if (net.normalized) add("Normalize", "Normalize");
    write(folder / "modules.json", modules);
    write(folder / "1_Pooling" / "config.json", {{"word_embedding_dimension", C.width},
                                                 {"pooling_mode_cls_token", net.pooling == bert::pooling::cls},
                                                 {"pooling_mode_mean_tokens", net.pooling == bert::pooling::mean}});
  }
}

}  // namespace bert
