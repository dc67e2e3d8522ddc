#pragma once
// A config.json of Hugging Face's transformers.

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <gradus/core/error.hpp>
#include <gradus/core/extent.hpp>
#include <gradus/io/json.hpp>
#include <gradus/io/text_file.hpp>

namespace gpt {

namespace gr = gradus;

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
  nlohmann::json value(const char* key) const {
    read_.insert(key);
    return values_.value(key, nlohmann::json());
  }
  /// Throws if there is a key that was not read, and is none of `harmless`, which has a space before and after each.
  void check_all_read(const std::string& harmless = "") const {
    for (const auto& [key, found] : values_.items())
      if (!read_.contains(key) && harmless.find(" " + key + " ") == harmless.npos)
        fail(quoted(key.c_str()) + ", which is " + found.dump() + ", is not known, and could change what is computed");
  }
  bool has(const char* key) const { return values_.contains(key); }
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
  static std::string quoted(const char* key) { return "'" + std::string(key) + "'"; }

 private:
  std::string path_;
  nlohmann::json values_;
  mutable std::set<std::string> read_;  // keys
};

}  // namespace gpt
