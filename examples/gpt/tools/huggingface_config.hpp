#pragma once
// A config.json of Hugging Face's transformers.

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <gradus/core/error.hpp>
#include <gradus/core/extent.hpp>
#include <gradus/io/json.hpp>
#include <gradus/io/text_file.hpp>

namespace gpt {

namespace gr = gradus;

/// Keys of a config.json that change nothing in what any model computes: how transformers runs, trains and generates,
/// names, tokens. Each has a space before and after it.
inline constexpr std::string_view harmless_keys =
    " _attn_implementation _attn_implementation_autoset _name_or_path _num_labels architectures attention_dropout "
    "attn_implementation attn_pdrop bad_words_ids begin_suppress_tokens bos_token_id cache_implementation "
    "chunk_size_feed_forward classifier_dropout cls_token_id decoder_start_token_id diversity_penalty do_sample "
    "dtype early_stopping embd_pdrop encoder_no_repeat_ngram_size eos_token_id exponential_decay_length_penalty "
    "finetuning_task forced_bos_token_id forced_eos_token_id gradient_checkpointing id2label initializer_range "
    "keys_to_ignore_at_inference label2id length_penalty max_length min_length model_max_length model_type n_ctx "
    "name_or_path no_repeat_ngram_size num_beam_groups num_beams num_labels num_return_sequences output_attentions "
    "output_hidden_states output_past output_scores pad_token_id prefix pretraining_tp problem_type "
    "remove_invalid_values reorder_and_upcast_attn repetition_penalty resid_pdrop return_dict "
    "return_dict_in_generate sep_token_id summary_activation summary_first_dropout summary_proj_to_labels "
    "summary_type summary_use_proj suppress_tokens task_specific_params temperature tokenizer_class top_k top_p "
    "torch_dtype torchscript transformers.js_config transformers_version typical_p unk_token_id unsloth_fixed "
    "unsloth_version use_cache ";
/// Whether a key is one of `harmless_keys`, or of `more`, a list of the same kind.
inline bool is_harmless(const std::string& key, std::string_view more = "") {
  const std::string spaced = " " + key + " ";
  return harmless_keys.find(spaced) != harmless_keys.npos || more.find(spaced) != more.npos;
}

/// A config.json, to compare with a model. The checks throw gradus::error, which names the file and the key.
class huggingface_config {
 public:
  explicit huggingface_config(const std::filesystem::path& path)
      : huggingface_config(path.string(), gr::parse_json(gr::read_text(path), path.string())) {}
  /// The values of a config.json, whose name in messages is `path`.
  huggingface_config(std::string path, nlohmann::json values) : path_(std::move(path)), values_(std::move(values)) {
    if (!values_.is_object()) fail("is not a JSON object");
  }
  /// The same file with other values.
  huggingface_config with(nlohmann::json values) const { return {path_, std::move(values)}; }
  /// The object that a key holds.
  huggingface_config inner(const char* key) const { return {path_ + ": " + quoted(key), value(key)}; }

  /// The value of a key; null if there is none.
  nlohmann::json value(const char* key) const {
    read_.insert(key);
    return values_.value(key, nlohmann::json());
  }
  /// Throws if there is a key that was not read, is not null, and is neither harmless nor in `more` (is_harmless()).
  void check_all_read(std::string_view more = "") const {
    for (const auto& [key, found] : values_.items())
      if (!read_.contains(key) && !found.is_null() && !is_harmless(key, more))
        fail(quoted(key.c_str()) + ", which is " + found.dump() + ", is not known, and could change what is computed");
  }
  /// Throws for code that comes with the model, and for quantised weights.
  void check_is_plain() const {
    if (!value("auto_map").is_null())
      fail(
          "'auto_map' names code that comes with the model, and this program runs none; if transformers reads the "
          "model without it, remove the key");
    if (const auto how = value("quantization_config"); !how.is_null())
      fail("'quantization_config': its weights are quantised" +
           (how.contains("quant_method") ? " by " + how["quant_method"].dump() : "") +
           "; take the model in bfloat16, float16 or float32");
  }
  /// The key must have this value, or be null.
  void check_fixed(const char* key, const nlohmann::json& wanted) const {
    if (const auto found = value(key); !found.is_null() && found != wanted)
      fail(key, " where " + wanted.dump() + " is needed");
  }
  /// The key must have one of these values, the first of which messages name.
  void check_one_of(const char* key, const nlohmann::json& possible) const {
    const auto found = value(key);
    if (std::ranges::find(possible, found) == possible.end()) fail(key, " where " + possible[0].dump() + " is needed");
  }
  const nlohmann::json& all() const { return values_; }
  bool has(const char* key) const { return values_.contains(key); }
  /// The whole number from `least` on that a key holds, or true or false as 1 or 0 if `least` is 0.
  gr::index_t whole(const char* key, gr::index_t least = 1) const {
    const auto found = value(key);
    if (found.is_boolean() && least == 0) return found.get<bool>() ? 1 : 0;
    if (!found.is_number_integer() || found < least || found > 999999999)
      fail(key, " where a whole number from " + std::to_string(least) + " on is needed");
    return found.get<gr::index_t>();
  }
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
    if (found != wanted) fail_compiled(key, std::to_string(wanted));
  }
  /// The key must have this value; not there, it means `otherwise`, or this value, too.
  void check_flag(const char* key, bool wanted, std::optional<bool> otherwise = {}) const {
    const auto found = value(key);
    if (found.is_null() ? otherwise.value_or(wanted) != wanted : found != wanted)
      fail(quoted(key) + " is " + found.dump() + " where " + (wanted ? "true" : "false") + " is needed");
  }
  [[noreturn]] void fail_compiled(const char* key, const std::string& wanted) const {
    fail(quoted(key) + " is " + value(key).dump() + ", and this program was compiled for " + wanted);
  }
  [[noreturn]] void fail(const std::string& what) const { throw gr::error(path_ + ": " + what); }
  /// "'key' is VALUE", and then what is wrong with that.
  [[noreturn]] void fail(const char* key, const std::string& what) const {
    fail(quoted(key) + " is " + value(key).dump() + what);
  }
  static std::string quoted(const char* key) { return "'" + std::string(key) + "'"; }

 private:
  std::string path_;
  nlohmann::json values_;
  mutable std::set<std::string> read_;  // keys
};

}  // namespace gpt
