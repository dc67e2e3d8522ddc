#pragma once
// GPT-2 as Hugging Face's transformers stores it: a folder with config.json, model.safetensors (or several files and an
// index) and tokenizer.json. Its matrices lie as ours do, [in, out].

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <gradus/data/bpe.hpp>
#include <gradus/data/text.hpp>
#include <gradus/data/tokenizer_json.hpp>
#include <gradus/io/atomic_file.hpp>
#include <gradus/io/json.hpp>
#include <gradus/io/safetensors.hpp>
#include <gradus/io/sharded_safetensors.hpp>

#include "../model.hpp"

namespace gpt {

/// The name that GPT2LMHeadModel has for our parameter `name`: "h.3.attn.c_attn.weight" for
/// "blocks.3.attention.qkv.weight", without the prefix "transformer.", which some files omit.
inline std::string huggingface_name(std::string name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 8> ours_and_theirs{{
      {".norm1.", ".ln_1."},
      {".norm2.", ".ln_2."},
      {".attention.qkv.", ".attn.c_attn."},
      {".attention.projection.", ".attn.c_proj."},
      {".mlp.up.", ".mlp.c_fc."},
      {".mlp.down.", ".mlp.c_proj."},
      {"blocks.", "h."},
      {"tokens.", "wte."},
  }};
  if (name == "positions") return "wpe.weight";
  if (name.starts_with("norm.")) return "ln_f." + name.substr(5);
  for (const auto& [ours, theirs] : ours_and_theirs)
    if (const auto at = name.find(ours); at != std::string::npos) name.replace(at, ours.size(), theirs);
  return name;
}

namespace detail {

inline constexpr double layer_norm_epsilon = 1e-5;

/// A config.json, to compare with a model's sizes.
class huggingface_config {
 public:
  explicit huggingface_config(const std::filesystem::path& path)
      : path_(path.string()), values_(gr::parse_json(gr::read_text(path), path_)) {
    if (!values_.is_object()) fail("is not a JSON object");
  }
  void check(const config& sizes) const {
    if (value("model_type") != "gpt2")
      fail("'model_type' is " + value("model_type").dump() + " where \"gpt2\" is needed");
    check_number("n_layer", sizes.layers);
    check_number("n_head", sizes.heads);
    check_number("n_embd", sizes.width);
    check_number("n_positions", sizes.context);
    check_number("vocab_size", sizes.vocabulary);
    if (const auto inner = value("n_inner"); !inner.is_null() && inner != 4 * sizes.width)
      fail("'n_inner' is " + inner.dump() + ", and a block of this program is " + std::to_string(4 * sizes.width) +
           " wide inside");
    if (const auto f = value("activation_function"); !f.is_null() && f != "gelu_new" && f != "gelu_pytorch_tanh")
      fail("'activation_function' is " + f.dump() + " where \"gelu_new\" is needed");
    if (const auto e = value("layer_norm_epsilon");
        !e.is_null() && !(e.is_number() && std::abs(e.get<double>() / layer_norm_epsilon - 1) < 1e-6))
      fail("'layer_norm_epsilon' is " + e.dump() + " where 1e-05 is needed");
    check_flag("tie_word_embeddings", true);
    check_flag("scale_attn_weights", true);
    check_flag("scale_attn_by_inverse_layer_idx", false);
    check_flag("add_cross_attention", false);
  }

 private:
  nlohmann::json value(const char* key) const { return values_.value(key, nlohmann::json()); }
  void check_number(const char* key, gr::index_t wanted) const {
    const auto found = value(key);
    if (found.is_null()) fail("has no '" + std::string(key) + "'");
    if (found != wanted)
      fail("'" + std::string(key) + "' is " + found.dump() + ", and this program was compiled for " +
           std::to_string(wanted));
  }
  void check_flag(const char* key, bool wanted) const {
    const auto found = value(key);
    if (!found.is_null() && found != wanted)
      fail("'" + std::string(key) + "' is " + found.dump() + " where " + (wanted ? "true" : "false") + " is needed");
  }
  [[noreturn]] void fail(const std::string& what) const { throw gr::error(path_ + ": " + what); }

  std::string path_;
  nlohmann::json values_;
};

/// The file, or the index of several, that holds a folder's tensors.
inline std::filesystem::path huggingface_tensors(const std::filesystem::path& folder) {
  const auto has = [&](const char* name) {
    std::error_code ignored;
    return std::filesystem::exists(folder / name, ignored);
  };
  if (!has("model.safetensors")) {
    if (has("model.safetensors.index.json")) return folder / "model.safetensors.index.json";
    if (has("pytorch_model.bin") || has("pytorch_model.bin.index.json"))
      throw gr::error(folder.string() +
                      ": has pytorch_model.bin and no model.safetensors, which transformers makes of it: " +
                      "python3 -c 'from transformers import AutoModelForCausalLM as M; M.from_pretrained(\"" +
                      folder.string() + "\").save_pretrained(\"" + folder.string() + "\")'");
  }
  return folder / "model.safetensors";
}

/// Rejects tensors that this GPT-2 does not have, such as those of more layers. Ignores the masks in old files.
inline void check_huggingface_names(const gr::sharded_safetensors& tensors, std::string_view prefix,
                                    std::vector<std::string> known) {
  std::ranges::sort(known);
  for (const gr::safetensors_file& file : tensors.files())
    for (const auto& [name, entry] : file.entries()) {
      const bool mask = name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
      const std::string_view rest = std::string_view(name).substr(name.starts_with(prefix) ? prefix.size() : 0);
      if (!mask && name != "lm_head.weight" && !(name.starts_with(prefix) && std::ranges::binary_search(known, rest)))
        throw gr::error(file.path().string() + ": '" + name + "' is not a tensor of this GPT-2");
    }
}

}  // namespace detail

/// Fills the model from a folder of Hugging Face's, whatever type of floating-point number it holds; rows of the token
/// table beyond the vocabulary become zero. The model is as it was until all of the folder has been read once. Throws
/// gradus::error where the folder holds another model than GPT-2 of these sizes.
template <class X, config C>
void load_huggingface(model<X, C>& net, gr::context<typename X::device>& ctx, const std::filesystem::path& folder) {
  detail::huggingface_config(folder / "config.json").check(C);
  gr::sharded_safetensors tensors(detail::huggingface_tensors(folder));
  const std::string prefix = tensors.has("transformer.wte.weight") ? "transformer." : "";
  std::vector<std::string> names;
  gr::for_each_param(net,
                     [&](std::string_view name, const auto&) { names.push_back(huggingface_name(std::string(name))); });
  detail::check_huggingface_names(tensors, prefix, names);

  const auto values_of = [&]<class P>(const std::string& name, const P&) {
    using S = typename P::shape;
    std::vector<std::size_t> shape(S::extents.begin(), S::extents.end());
    if (name == "wte.weight" || name == "lm_head.weight") shape[0] = C.vocabulary;
    const std::string theirs = name == "lm_head.weight" ? name : prefix + name;
    auto values = tensors.file_of(theirs).template read_as<typename P::value_type>(theirs, shape);
    values.resize(S::size);
    return values;
  };
  gr::for_each_param(
      net, [&](std::string_view name, const auto& p) { (void)values_of(huggingface_name(std::string(name)), p); });
  if (tensors.has("lm_head.weight") &&
      values_of("lm_head.weight", net.tokens.weight) != values_of("wte.weight", net.tokens.weight))
    throw gr::error(tensors.file_of("lm_head.weight").path().string() +
                    ": 'lm_head.weight' is not 'wte.weight', and this model has one table for both");
  gr::for_each_param(net, [&]<class P>(std::string_view name, P& p) {
    const auto values = values_of(huggingface_name(std::string(name)), p);
    p.set(gr::from_host<typename P::value_type, typename P::shape>(ctx, values.data(), gr::category::parameter));
  });
}

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

/// Writes what AutoTokenizer reads into a folder: tokenizer.json and tokenizer_config.json. A text of more tokens than
/// `context` makes it warn.
inline void save_huggingface_tokenizer(const gr::bpe_tokenizer& tokenizer, std::size_t context,
                                       const std::filesystem::path& folder) {
  nlohmann::ordered_json settings{{"tokenizer_class", "PreTrainedTokenizerFast"},
                                  {"clean_up_tokenization_spaces", false},
                                  {"model_max_length", context}};
  if (tokenizer.added_token_id("<|endoftext|>"))
    for (const char* role : {"bos_token", "eos_token"}) settings[role] = "<|endoftext|>";
  gr::write_tokenizer_json(folder / "tokenizer.json", tokenizer);
  gr::write_file_atomically(folder / "tokenizer_config.json", settings.dump(2) + "\n");
}

/// Writes the model into a folder, which must be there, as save_pretrained of GPT2LMHeadModel and of its tokenizer do:
/// model.safetensors in the type that parameters are stored in, without the rows that pad the token table, config.json,
/// and what save_huggingface_tokenizer writes unless `tokenizer` is null. Throws gradus::error.
template <class X, config C>
void save_huggingface(const model<X, C>& net, const std::filesystem::path& folder,
                      const gr::bpe_tokenizer* tokenizer = nullptr) {
  using T = typename X::store;
  std::optional<gr::bpe_tokenizer::token> end;
  if (tokenizer != nullptr) end = tokenizer->added_token_id("<|endoftext|>");
  else if (C.vocabulary == 50257) end = 50256;  // GPT-2's own
  gr::safetensors_writer file;
  file.set_metadata("format", "pt");
  gr::for_each_param(net, [&]<class P>(std::string_view name, const P& p) {
    using S = typename P::shape;
    const std::string theirs = huggingface_name(std::string(name));
    std::vector<std::size_t> shape(S::extents.begin(), S::extents.end());
    std::span<const T> values = p.value().values();
    if (theirs == "wte.weight") {
      shape[0] = C.vocabulary;
      values = values.first(C.vocabulary * C.width);
    }
    file.add("transformer." + theirs, shape, values);
  });
  const nlohmann::ordered_json settings{
      {"architectures", {"GPT2LMHeadModel"}},
      {"model_type", "gpt2"},
      {"activation_function", "gelu_new"},
      {"n_layer", C.layers},
      {"n_head", C.heads},
      {"n_embd", C.width},
      {"n_positions", C.context},
      {"n_ctx", C.context},
      {"n_inner", nullptr},
      {"vocab_size", C.vocabulary},
      {"layer_norm_epsilon", detail::layer_norm_epsilon},
      {"scale_attn_weights", true},
      {"scale_attn_by_inverse_layer_idx", false},
      {"tie_word_embeddings", true},
      {"bos_token_id", end ? nlohmann::json(*end) : nlohmann::json()},
      {"eos_token_id", end ? nlohmann::json(*end) : nlohmann::json()},
      {"attn_pdrop", net.dropout},
      {"embd_pdrop", net.dropout},
      {"resid_pdrop", net.dropout},
      {"torch_dtype", std::is_same_v<T, float>    ? "float32"
                      : std::is_same_v<T, double> ? "float64"
                                                  : "bfloat16"},
  };
  file.write(folder / "model.safetensors");
  gr::write_file_atomically(folder / "config.json", settings.dump(2) + "\n");
  if (tokenizer != nullptr) save_huggingface_tokenizer(*tokenizer, C.context, folder);
}

}  // namespace gpt
