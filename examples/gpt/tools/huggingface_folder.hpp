#pragma once
// Folders of Hugging Face's transformers, whatever the architecture: config.json, model.safetensors (or several files
// and an index), tokenizer.json.

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <gradus/data/bpe.hpp>
#include <gradus/data/text.hpp>
#include <gradus/data/tokenizer_json.hpp>
#include <gradus/io/atomic_file.hpp>
#include <gradus/io/json.hpp>
#include <gradus/io/safetensors.hpp>
#include <gradus/io/sharded_safetensors.hpp>

#include "../architecture.hpp"
#include "../model_folder.hpp"
#include "generation_config.hpp"
#include "gguf.hpp"

namespace gpt {

/// A config.json, to compare with a model. The checks throw gradus::error, which names the file and the key.
class huggingface_config {
 public:
  explicit huggingface_config(const std::filesystem::path& path)
      : huggingface_config(path.string(), gr::parse_json(gr::read_text(path), path.string())) {}
  /// The values of a config.json, whose name in messages is `path`.
  huggingface_config(std::string path, nlohmann::json values) : path_(std::move(path)), values_(std::move(values)) {
    if (!values_.is_object()) fail("is not a JSON object");
  }
  /// The object that a key holds.
  huggingface_config inner(const char* key) const { return {path_ + ": " + quoted(key), value(key)}; }

  /// The value of a key; null if there is none.
  nlohmann::json value(const char* key) const { return values_.value(key, nlohmann::json()); }
  /// The number that a key holds; `otherwise` if there is none. Without it, there must be one.
  double number(const char* key, std::optional<double> otherwise = {}) const {
    const auto found = value(key);
    if (found.is_null() && otherwise) return *otherwise;
    if (!found.is_number()) fail(quoted(key) + " is " + found.dump() + " where a number is needed");
    return found.get<double>();
  }
  /// The key must be there, and have this value.
  void check_text(const char* key, const char* wanted) const {
    if (value(key) != wanted) fail(quoted(key) + " is " + value(key).dump() + " where \"" + wanted + "\" is needed");
  }
  void check_size(const char* key, gr::index_t wanted) const {
    const auto found = value(key);
    if (found.is_null()) fail("has no " + quoted(key));
    if (found != wanted)
      fail(quoted(key) + " is " + found.dump() + ", and this program was compiled for " + std::to_string(wanted));
  }
  /// The key must have this value; not there, it means `otherwise`, or this value, too.
  void check_flag(const char* key, bool wanted, std::optional<bool> otherwise = {}) const {
    const auto found = value(key);
    if (found.is_null() ? otherwise.value_or(wanted) != wanted : found != wanted)
      fail(quoted(key) + " is " + found.dump() + " where " + (wanted ? "true" : "false") + " is needed");
  }
  [[noreturn]] void fail(const std::string& what) const { throw gr::error(path_ + ": " + what); }
  static std::string quoted(const char* key) { return "'" + std::string(key) + "'"; }

 private:
  std::string path_;
  nlohmann::json values_;
};

/// A model to read: a folder of Hugging Face's, or a GGUF file, whose tensors have the names of such a folder.
class huggingface_source {
 public:
  explicit huggingface_source(const std::filesystem::path& from)
      : config_(config_of(from)), tensors_(tensors_of(from)) {}

  const huggingface_config& config() const { return config_; }
  bool has(std::string_view name) const {
    return std::visit([&](const auto& in) { return in.has(name); }, tensors_);
  }
  std::vector<std::string> names() const {
    return std::visit([&](const auto& in) { return in.names(); }, tensors_);
  }
  /// The file that holds a tensor.
  std::filesystem::path path_of(std::string_view name) {
    return std::visit([&](auto& in) { return in.path_of(name); }, tensors_);
  }
  /// Reads a tensor of this shape, whatever its type, and rounds it to T. Throws gradus::error.
  template <class T>
  std::vector<T> read_as(std::string_view name, std::span<const std::size_t> shape) {
    return std::visit([&](auto& in) { return in.template read_as<T>(name, shape); }, tensors_);
  }

 private:
  using tensors = std::variant<gr::sharded_safetensors, gguf_tensors>;
  static huggingface_config config_of(const std::filesystem::path& from) {
    if (format_to_read(from) == model_format::gguf) return {from.string(), gguf_config(gguf_tensors(from))};
    return huggingface_config(from / "config.json");
  }
  static tensors tensors_of(const std::filesystem::path& from) {
    if (format_to_read(from) == model_format::gguf) return gguf_tensors(from);
    return gr::sharded_safetensors(huggingface_tensors(from));
  }

  huggingface_config config_;
  tensors tensors_;
};

/// Rejects tensors whose name is not in `known`, which this model does not have, such as further layers. `what` names
/// the model.
template <class Tensors>
void check_huggingface_names(Tensors& tensors, std::vector<std::string> known, const std::string& what) {
  std::ranges::sort(known);
  for (const std::string& name : tensors.names())
    if (!std::ranges::binary_search(known, name))
      throw gr::error(tensors.path_of(name).string() + ": '" + name + "' is not a tensor of this " + what);
}

/// A name in which our words are replaced by theirs.
inline std::string renamed(std::string name,
                           std::initializer_list<std::pair<std::string_view, std::string_view>> ours_and_theirs) {
  for (const auto& [ours, theirs] : ours_and_theirs)
    if (const auto at = name.find(ours); at != std::string::npos) name.replace(at, ours.size(), theirs);
  return name;
}

/// Where a folder has a parameter of ours.
struct huggingface_tensor {
  std::string name;
  gr::index_t rows = 0;     ///< of a table that we pad; 0: all of the parameter's
  bool transposed = false;  ///< a matrix [out, in], which lies as [in, out] here

  template <class Shape>
  std::vector<std::size_t> shape() const {
    std::vector<std::size_t> all(Shape::extents.begin(), Shape::extents.end());
    if (rows > 0) all[0] = rows;
    if (transposed) std::ranges::reverse(all);
    return all;
  }
};

/// A matrix of `rows` rows as one of as many columns.
template <class T>
std::vector<T> transposed(std::span<const T> from, std::size_t rows) {
  const std::size_t columns = from.size() / rows;
  std::vector<T> to(from.size());
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) to[j * rows + i] = from[i * columns + j];
  return to;
}

/// The values of a parameter of type P in a folder; rows that pad it are zero. Throws gradus::error.
template <class P, class Tensors>
std::vector<typename P::value_type> read_huggingface(Tensors& tensors, const huggingface_tensor& from) {
  using T = typename P::value_type;
  const auto shape = from.shape<typename P::shape>();
  std::vector<T> values = tensors.template read_as<T>(from.name, shape);
  if (from.transposed) values = transposed<T>(values, shape[0]);
  values.resize(P::shape::size);
  return values;
}
/// Fills a model from the tensors of a folder: `where(name)` is the huggingface_tensor of our parameter `name`; one
/// without a name leaves the parameter as it is. The model is as it was until all of the folder has been read once.
/// Calls after(parameter) for each that was read, before the next one is. Throws gradus::error.
template <class Net, class Tensors, class Where, class After = gr::nothing_after>
void read_huggingface(Net& net, gr::context<typename Net::device>& ctx, Tensors& tensors, const Where& where,
                      const After& after = {}) {
  gr::for_each_param(net, [&]<class P>(std::string_view name, const P&) {
    if (const auto from = where(name); !from.name.empty()) static_cast<void>(read_huggingface<P>(tensors, from));
  });
  gr::for_each_param(net, [&]<class P>(std::string_view name, P& p) {
    const auto from = where(name);
    if (from.name.empty()) return;
    const auto values = read_huggingface<P>(tensors, from);
    p.set(gr::from_host<typename P::value_type, typename P::shape>(ctx, values.data(), gr::category::parameter));
    after(p);
  });
}
/// Rejects a file whose head differs from its token table: the model has one table for both.
template <class P, class Tensors>
void check_head_is_table(Tensors& tensors, const huggingface_tensor& table) {
  huggingface_tensor head = table;
  head.name = "lm_head.weight";
  if (tensors.has(head.name) && read_huggingface<P>(tensors, head) != read_huggingface<P>(tensors, table))
    throw gr::error(tensors.path_of(head.name).string() + ": 'lm_head.weight' is not '" +
                    table.name.substr(table.name.find('.') + 1) + "', and this model has one table for both");
}
/// The largest file of tensors in a folder that is written.
inline constexpr std::size_t huggingface_shard_bytes = 5'000'000'000;
/// Writes the parameters of a model into a folder, where read_huggingface() finds them: several files and an index if
/// they have more than `shard_bytes`. Throws gradus::error.
template <class Net, class Where>
void write_huggingface_tensors(const Net& net, const std::filesystem::path& folder, const Where& where,
                               std::size_t shard_bytes = huggingface_shard_bytes) {
  gr::safetensors_writer file;
  file.set_metadata("format", "pt");
  std::vector<std::shared_ptr<const void>> kept;  // until the file is written
  gr::for_each_param(net, [&]<class P>(std::string_view name, const P& p) {
    using T = typename P::value_type;
    const huggingface_tensor to = where(name);
    const auto shape = to.shape<typename P::shape>();
    std::span<const T> values = p.value().values();
    if (to.rows > 0) values = values.first(shape.front() * shape.back());
    if (to.transposed) {
      const auto turned = std::make_shared<const std::vector<T>>(transposed(values, shape.back()));
      kept.push_back(turned);
      values = *turned;
    }
    file.add(to.name, shape, values);
  });
  file.write_shards(folder, shard_bytes);
}

/// A type of parameters by the name that transformers has for it.
template <class T>
inline constexpr const char* huggingface_type = std::is_same_v<T, float>    ? "float32"
                                                : std::is_same_v<T, double> ? "float64"
                                                                            : "bfloat16";

/// A tokenizer whose tokens are bytes, as a BPE without merges: what Hugging Face's tokenizers can read.
inline gr::bpe_tokenizer bytes_as_bpe() {
  std::vector<std::string> tokens;
  std::array<gr::bpe_tokenizer::token, 256> byte_tokens{};
  for (std::size_t b = 0; b < byte_tokens.size(); ++b) {
    tokens.emplace_back(1, static_cast<char>(static_cast<unsigned char>(b)));
    byte_tokens[b] = static_cast<gr::bpe_tokenizer::token>(b);
  }
  return {std::move(tokens), byte_tokens, {}};
}

/// Whether the tokens of two tokenizers are the same.
inline bool same_tokenizer(const gr::bpe_tokenizer& a, const gr::bpe_tokenizer& b) {
  return gr::tokenizer_json(a) == gr::tokenizer_json(b);
}

/// The tokens that begin and end a text, if the tokenizer has them; GPT-2's is one for both.
struct text_ends {
  std::optional<gr::bpe_tokenizer::token> begin, end;
  explicit text_ends(const gr::bpe_tokenizer& tokenizer)
      : begin(tokenizer.begin_token() ? tokenizer.begin_token() : tokenizer.end_token()), end(tokenizer.end_token()) {}
};
/// A token's id as JSON, or null.
inline nlohmann::json json_of(std::optional<gr::bpe_tokenizer::token> id) {
  return id ? nlohmann::json(*id) : nlohmann::json();
}

/// Writes what AutoTokenizer reads into a folder: tokenizer.json and tokenizer_config.json. A text of more tokens than
/// `context` makes it warn.
inline void save_huggingface_tokenizer(const gr::bpe_tokenizer& tokenizer, std::size_t context,
                                       const std::filesystem::path& folder) {
  nlohmann::ordered_json settings{{"tokenizer_class", "PreTrainedTokenizerFast"},
                                  {"clean_up_tokenization_spaces", false},
                                  {"model_max_length", context}};
  const text_ends ends(tokenizer);
  if (ends.begin) settings["bos_token"] = tokenizer.bytes_of(*ends.begin);
  if (ends.end) settings["eos_token"] = tokenizer.bytes_of(*ends.end);
  gr::write_tokenizer_json(folder / "tokenizer.json", tokenizer);
  gr::write_file_atomically(folder / "tokenizer_config.json", settings.dump(2) + "\n");
}

}  // namespace gpt
