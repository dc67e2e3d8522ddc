#pragma once
// Which file of a folder is the model: of a run's, and of one of Hugging Face's.

#include <filesystem>
#include <string>
#include <system_error>

#include <gradus/core/error.hpp>

namespace gpt {

namespace gr = gradus;

/// Whether there is such a file or folder; false for what cannot be looked at.
inline bool is_there(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}
inline bool is_folder(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

/// The folder of a model, whose other files say how it is used: itself, or that of the file.
inline std::filesystem::path folder_of(const std::filesystem::path& model) {
  return is_folder(model) ? model : model.parent_path();
}

/// What holds a model: a file of gpt_train, a folder of Hugging Face's, or a GGUF file.
enum class model_format { own, folder, gguf };
/// The format of what is there: a folder is one of Hugging Face's if it has a config.json, and else a run's.
inline model_format format_to_read(const std::filesystem::path& from) {
  if (from.extension() == ".gguf") return model_format::gguf;
  return is_there(from / "config.json") ? model_format::folder : model_format::own;
}
/// The format that the name of what is to be written stands for.
inline model_format format_to_write(const std::filesystem::path& to) {
  if (to.extension() == ".gguf") return model_format::gguf;
  return to.extension() == ".safetensors" ? model_format::own : model_format::folder;
}

/// The model in a run's folder: the last one; if the run has not ended, or was resumed, the best one, or else the
/// checkpoint, which may not be there either.
inline std::filesystem::path model_in(const std::filesystem::path& run) {
  const std::filesystem::path model = run / "model.safetensors", best = run / "best.safetensors",
                              checkpoint = run / "checkpoint.safetensors";
  std::error_code ignored;
  const bool resumed =
      is_there(model) && is_there(checkpoint) &&
      std::filesystem::last_write_time(model, ignored) < std::filesystem::last_write_time(checkpoint, ignored);
  if (is_there(model) && !resumed) return model;
  return is_there(best) ? best : checkpoint;
}

/// The file, or the index of several, that holds the tensors of a folder of Hugging Face's; it may not be there.
/// `auto_class` of transformers reads such a model. Throws gr::error for a folder that has them in another format.
inline std::filesystem::path huggingface_tensors(const std::filesystem::path& folder,
                                                 const std::string& auto_class = "AutoModelForCausalLM") {
  const auto has = [&](const char* name) { return is_there(folder / name); };
  if (!has("model.safetensors")) {
    if (has("model.safetensors.index.json")) return folder / "model.safetensors.index.json";
    if (has("pytorch_model.bin") || has("pytorch_model.bin.index.json"))
      throw gr::error(folder.string() +
                      ": has pytorch_model.bin and no model.safetensors, which transformers makes of it: " +
                      "python3 -c 'from transformers import " + auto_class + " as M; M.from_pretrained(\"" +
                      folder.string() + "\").save_pretrained(\"" + folder.string() + "\")'");
  }
  return folder / "model.safetensors";
}

}  // namespace gpt
