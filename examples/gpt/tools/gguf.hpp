#pragma once
// GGUF files of llama.cpp, which hold what a folder of Hugging Face's does: config.json as metadata, tensors under
// other names, tokenizer.json. gguf.cpp has a table of what is called how. Models of any size, whose types are not
// compiled.

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradus/io/gguf.hpp>
#include <gradus/io/json.hpp>

namespace gpt {

namespace gr = gradus;

/// The types of a written file's matrices, by the names of --type.
inline const std::vector<std::string> gguf_types{"f32", "f16", "bf16", "q8_0"};

struct gguf_architecture;  // a row of the table

/// The tensors of a GGUF file under the names, and in the shapes and order of rows, that Hugging Face's files have.
class gguf_tensors {
 public:
  /// Throws gradus::error for a file of an unknown architecture, a tensor that its models do not have or that is not
  /// read, and another number of blocks than there are tensors of.
  explicit gguf_tensors(const std::filesystem::path& path);

  const gr::gguf_file& file() const { return file_; }
  const gguf_architecture& architecture() const { return *architecture_; }
  std::filesystem::path path_of(std::string_view) const { return file_.path(); }
  std::vector<std::string> names() const;
  bool has(std::string_view name) const;
  std::vector<std::size_t> shape(std::string_view name) const;
  /// Reads a tensor of this shape, whatever its type, and rounds it to T.
  template <class T>
  std::vector<T> read_as(std::string_view name, std::span<const std::size_t> of) const {
    std::vector<float> values = read(name, of);
    if constexpr (std::is_same_v<T, float>) return values;
    else return std::vector<T>(values.begin(), values.end());
  }

 private:
  std::vector<float> read(std::string_view name, std::span<const std::size_t> of) const;

  gr::gguf_file file_;
  const gguf_architecture* architecture_;
};

/// What config.json says of the model in a GGUF file. Throws gradus::error for a setting that is not known.
nlohmann::ordered_json gguf_config(const gguf_tensors& from);

/// Writes the model and the tokenizer of a folder of Hugging Face's to a GGUF file. Matrices have the type "f32",
/// "f16", "bf16" or "q8_0" ("f16" where rows are not whole blocks of 32 values); vectors and positions are F32. Throws
/// gradus::error for a model that llama.cpp would compute otherwise, a tensor or setting that is not known, and a
/// tokenizer that the format cannot express.
void write_gguf(const std::filesystem::path& folder, const std::filesystem::path& to, const std::string& type);

/// Writes the model and the tokenizer of a GGUF file into a folder, which must be there, as transformers reads it:
/// files of at most `shard_bytes`, or of one tensor. Quantised tensors become F32. Throws gradus::error.
void write_folder_of_gguf(const std::filesystem::path& from, const std::filesystem::path& folder,
                          std::size_t shard_bytes);

/// Sets the tokenizer's metadata from tokenizer.json and the files beside it in a folder, for a model of `vocabulary`
/// tokens: where there is no tokenizer.json, only the special tokens. Throws gradus::error.
void set_gguf_tokenizer(gr::gguf_writer& to, const std::filesystem::path& folder, const nlohmann::json& config,
                        std::size_t vocabulary);
/// A number as the shortest text says it: 1e-05, not what its float is as a double.
double shortest(float x);
/// The token at which text ends, a list of several, or null: eos, and the ends of a turn and of a message.
nlohmann::json end_ids_of_gguf(const gr::gguf_file& from);
/// Writes generation_config.json into a folder, and if the file has a tokenizer tokenizer.json and
/// tokenizer_config.json. `context` is the longest text in tokens. Throws gradus::error.
void write_tokenizer_of_gguf(const gr::gguf_file& from, std::size_t context, const std::filesystem::path& folder);

}  // namespace gpt
