#pragma once
// Folders of Hugging Face's transformers, whatever the architecture: config.json, model.safetensors (or several files
// and an index), tokenizer.json.

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <initializer_list>
#include <map>
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

#include <gradus/io/atomic_file.hpp>
#include <gradus/io/json.hpp>
#include <gradus/io/safetensors.hpp>
#include <gradus/io/sharded_safetensors.hpp>
#include <gradus/io/text_file.hpp>
#include <gradus/tokenizer/text_settings_json.hpp>
#include <gradus/tokenizer/tokenizer_json.hpp>

#include "../architecture.hpp"
#include "../model_folder.hpp"
#include "generation_config.hpp"
#include "gguf.hpp"
#include "huggingface_config.hpp"

namespace gpt {

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
  gr::index_t rows = 0;          ///< of a table that we pad; 0: all of the parameter's
  bool transposed = false;       ///< a matrix [out, in], which lies as [in, out] here
  double added = 0;              ///< to their numbers, for ours
  gr::index_t from = 0, of = 0;  ///< the parameter is the rows from `from` on of a tensor of `of` rows; 0: all of it
  gr::index_t count =
      0;  ///< of tensors, one for each of the parameter's first axis, '#' in the name its number; 0: one

  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (gr::index_t i = 0; i < std::max<gr::index_t>(count, 1); ++i)
      all.push_back(count == 0 ? name : renamed(name, {{"#", std::to_string(i)}}));
    return all;
  }
  /// The shape of the parameter's part of a tensor.
  template <class Shape>
  std::vector<std::size_t> shape() const {
    std::vector<std::size_t> all(Shape::extents.begin() + (count > 0 ? 1 : 0), Shape::extents.end());
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
  auto stored = shape;
  if (from.of > 0) stored[0] = from.of;
  std::vector<T> all;
  for (const std::string& name : from.names()) {
    std::vector<T> values = tensors.template read_as<T>(name, stored);
    if (from.of > 0) {
      const std::size_t row = values.size() / from.of;
      values.erase(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(from.from * row));
      values.resize(shape[0] * row);
    }
    if (from.transposed) values = transposed<T>(values, shape[0]);
    if (from.added != 0)
      for (T& x : values) x = static_cast<T>(static_cast<double>(x) + from.added);
    if (from.count == 0) all = std::move(values);
    else all.insert(all.end(), values.begin(), values.end());
  }
  all.resize(P::shape::size);
  return all;
}
/// Fills a model from the tensors of a folder: `where(name)` is the huggingface_tensor of our parameter `name`; one
/// without a name leaves the parameter as it is. The model is as it was until all of the folder has been read once.
/// Calls after(parameter) for each that was read and may be trained, before the next one is. Throws gradus::error.
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
    if constexpr (P::trains) after(p);
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
  using T = typename gr::model_traits<Net>::value_type;
  gr::safetensors_writer file;
  file.set_metadata("format", "pt");
  std::vector<std::shared_ptr<const std::vector<T>>> kept;  // until the file is written
  std::map<std::string, std::pair<std::vector<T>, std::size_t>>
      joined;  // of several parameters, and rows that are there
  const auto add = [&](const std::string& name, const std::vector<std::size_t>& shape, std::vector<T> values) {
    kept.push_back(std::make_shared<const std::vector<T>>(std::move(values)));
    file.add(name, std::span<const std::size_t>(shape), std::span<const T>(*kept.back()));
  };
  gr::for_each_param(net, [&]<class P>(std::string_view ours, const P& p) {
    const huggingface_tensor to = where(ours);
    auto shape = to.shape<typename P::shape>();
    const std::span<const T> all = p.value().values();
    if (!to.transposed && to.added == 0 && to.of == 0 && to.count == 0) {
      const std::size_t rows = to.rows > 0 ? to.rows : P::shape::extents[0];
      file.add(to.name, std::span<const std::size_t>(shape), all.first(rows * (all.size() / P::shape::extents[0])));
      return;
    }
    const std::size_t size = all.size() / std::max<gr::index_t>(to.count, 1);
    for (std::size_t i = 0; const std::string& name : to.names()) {
      const std::span<const T> part = all.subspan(size * i++, size);
      std::vector<T> values = to.transposed ? transposed(part, shape.back()) : std::vector<T>(part.begin(), part.end());
      if (to.added != 0)
        for (T& x : values) x = static_cast<T>(static_cast<double>(x) - to.added);
      if (to.of == 0) {
        add(name, shape, std::move(values));
        continue;
      }
      auto& [rows, there] = joined[name];
      const std::size_t row = size / shape[0];
      rows.resize(to.of * row);
      std::ranges::copy(values, rows.begin() + static_cast<std::ptrdiff_t>(to.from * row));
      there += shape[0];
      shape[0] = to.of;
      if (there == to.of) add(name, shape, std::move(rows));
    }
  });
  file.write_shards(folder, shard_bytes);
}

/// A type of parameters by the name that transformers has for it.
template <class T>
inline constexpr const char* huggingface_type = std::is_same_v<T, float>    ? "float32"
                                                : std::is_same_v<T, double> ? "float64"
                                                                            : "bfloat16";

/// Whether the tokens of two tokenizers are the same.
inline bool same_tokenizer(const gr::tokenizer& a, const gr::tokenizer& b) {
  return gr::tokenizer_json(a) == gr::tokenizer_json(b);
}

/// The tokens that begin, end and pad a text, if there are: as the files beside the tokenizer say; where they say
/// nothing, GPT-2's is one for begin and end.
struct text_ends {
  std::optional<gr::tokenizer::token> begin, end, pad;
  explicit text_ends(const gr::tokenizer& tokenizer) : begin(tokenizer.begin_token()), end(tokenizer.end_token()) {
    const gr::text_settings& said = tokenizer.settings();
    if (said.begin) begin = tokenizer.id_of(*said.begin);
    else if (!begin && said.files.empty()) begin = end;
    if (said.pad) pad = tokenizer.id_of(*said.pad);
  }
};
/// A token's id as JSON, or null.
inline nlohmann::json json_of(std::optional<gr::tokenizer::token> id) {
  return id ? nlohmann::json(*id) : nlohmann::json();
}

/// Writes what AutoTokenizer reads into a folder: tokenizer.json, the files of settings() as they are, and without a
/// tokenizer_config.json among them one that makes a text of more tokens than `context` warn.
inline void save_huggingface_tokenizer(const gr::tokenizer& tokenizer, std::size_t context,
                                       const std::filesystem::path& folder) {
  gr::text_settings said = tokenizer.settings();
  if (!said.files.contains("tokenizer_config.json")) {
    nlohmann::ordered_json settings{{"tokenizer_class", "PreTrainedTokenizerFast"},
                                    {"clean_up_tokenization_spaces", false},
                                    {"model_max_length", context}};
    const text_ends ends(tokenizer);
    if (ends.begin) settings["bos_token"] = tokenizer.spelling(*ends.begin);
    if (ends.end) settings["eos_token"] = tokenizer.spelling(*ends.end);
    if (ends.pad) settings["pad_token"] = tokenizer.spelling(*ends.pad);
    said.files["tokenizer_config.json"] = settings.dump(2) + "\n";
  }
  for (const char* of_model : {"generation_config.json", "token_ids.json"}) said.files.erase(of_model);
  gr::write_tokenizer_json(folder / "tokenizer.json", tokenizer);
  gr::write_text_settings(folder, said);
}

/// Gives a config.json the ids of the tokens that begin, end and pad texts, those that the model's own had, or else the
/// tokenizer's. What it says of them stays where neither is known.
inline void set_text_ends(nlohmann::ordered_json& config, const gr::tokenizer* tokenizer,
                          const gr::text_settings& said) {
  if (const auto ids = said.files.find("token_ids.json"); ids != said.files.end()) {
    for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) config.erase(key);
    config.update(nlohmann::ordered_json::parse(ids->second));
  } else if (tokenizer != nullptr) {
    const text_ends ends(*tokenizer);
    config["bos_token_id"] = json_of(ends.begin);
    config["eos_token_id"] = json_of(ends.end);
    if (ends.pad) config["pad_token_id"] = json_of(ends.pad);
  }
}

/// Writes the files of a folder that are no tensors: config.json, generation_config.json, and what
/// save_huggingface_tokenizer writes unless `tokenizer` is null. `said` is what is known of texts: settings() of the
/// tokenizer, if there is one.
inline void save_huggingface_settings(const std::filesystem::path& folder, nlohmann::ordered_json config,
                                      const gr::tokenizer* tokenizer, const gr::text_settings& said,
                                      std::size_t context) {
  set_text_ends(config, tokenizer, said);
  gr::write_file_atomically(folder / "config.json", config.dump(2) + "\n");
  if (const auto own = said.files.find("generation_config.json"); own != said.files.end())
    gr::write_file_atomically(folder / own->first, own->second);
  else write_generation_config(folder, config);
  if (tokenizer != nullptr) save_huggingface_tokenizer(*tokenizer, context, folder);
}

}  // namespace gpt
