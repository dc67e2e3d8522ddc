#pragma once
// GGUF, the file format of llama.cpp: metadata, the tensors' names, shapes and places, and their bytes, from aligned
// places on. Versions 2 and 3 are read, and 3 is written.

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "../core/config.hpp"
#include "../core/dtype.hpp"
#include "../core/error.hpp"
#include "mapped_file.hpp"

namespace gradus {

/// A list in the metadata. The alternatives have the numbers that the format gives to types; a list of lists (9) is not
/// read.
using gguf_list = std::variant<std::vector<std::uint8_t>, std::vector<std::int8_t>, std::vector<std::uint16_t>,
                               std::vector<std::int16_t>, std::vector<std::uint32_t>, std::vector<std::int32_t>,
                               std::vector<float>, std::vector<bool>, std::vector<std::string>, std::monostate,
                               std::vector<std::uint64_t>, std::vector<std::int64_t>, std::vector<double>>;
/// A value of the metadata. The alternatives have the numbers that the format gives to types.
using gguf_value = std::variant<std::uint8_t, std::int8_t, std::uint16_t, std::int16_t, std::uint32_t, std::int32_t,
                                float, bool, std::string, gguf_list, std::uint64_t, std::int64_t, double>;
using gguf_metadata = std::map<std::string, gguf_value, std::less<>>;

/// One tensor of a file.
struct gguf_entry {
  std::string dtype;               ///< "F32", "Q8_0": the format's name
  std::vector<std::size_t> shape;  ///< the innermost dimension last
  std::size_t begin = 0;           ///< bytes of the file before it
  std::size_t bytes = 0;
};

/// An open GGUF file, mapped into memory. The constructor checks the magic and version, all metadata, duplicate keys
/// and names, and that the tensors, in types of known size, follow each other within the file. Otherwise throws
/// gradus::error, which names the file and the key or tensor.
class gguf_file {
 public:
  explicit gguf_file(std::filesystem::path path);

  const std::filesystem::path& path() const { return file_.path(); }
  const gguf_metadata& metadata() const { return metadata_; }
  /// The tensors, by name.
  const std::map<std::string, gguf_entry, std::less<>>& entries() const { return entries_; }

  bool has_key(std::string_view key) const { return metadata_.find(key) != metadata_.end(); }
  /// The number that a key holds, of whatever type; `otherwise` if there is none. Without it, there must be one.
  double number(std::string_view key, std::optional<double> otherwise = {}) const;
  /// The whole number below 2^32 that a key holds, of whatever type; `otherwise` if there is none. Without it, there
  /// must be one.
  std::size_t count(std::string_view key, std::optional<std::size_t> otherwise = {}) const;
  /// The text, number or truth value of type T that a key holds; `otherwise` if there is none. Without it, there must
  /// be one.
  template <class T>
  T value(std::string_view key, std::optional<std::type_identity_t<T>> otherwise = {}) const {
    const auto found = metadata_.find(key);
    if (found == metadata_.end() && otherwise) return *std::move(otherwise);
    if (found == metadata_.end() || !std::holds_alternative<T>(found->second)) fail_key(key);
    return std::get<T>(found->second);
  }
  /// The list of values of type T that a key holds, which must be there.
  template <class T>
  const std::vector<T>& list(std::string_view key) const {
    const auto found = metadata_.find(key);
    const gguf_list* list = found == metadata_.end() ? nullptr : std::get_if<gguf_list>(&found->second);
    const std::vector<T>* values = list == nullptr ? nullptr : std::get_if<std::vector<T>>(list);
    if (values == nullptr) fail_key(key);
    return *values;
  }

  bool has(std::string_view name) const { return entries_.find(name) != entries_.end(); }
  const gguf_entry& entry(std::string_view name) const;
  /// Throws gradus::error unless it is there, in a type that read_as() knows: F32, F16, BF16, Q8_0, Q4_K or Q6_K.
  void check_readable(std::string_view name) const;
  /// Reads a tensor of this shape that check_readable() accepts, and rounds it to T (to nearest, or to infinity).
  template <class T>
  std::vector<T> read_as(std::string_view name, std::span<const std::size_t> shape) const {
    static_assert(is_floating<T>, "gguf_file::read_as<T>: T must be f64, f32, bf16 or f16");
    std::vector<float> values = read_floats(name, shape);
    if constexpr (std::is_same_v<T, float>) {
      return values;
    } else {
      std::vector<T> to(values.size());
      std::ranges::transform(values, to.begin(), [](float v) { return static_cast<T>(v); });
      return to;
    }
  }

 private:
  friend struct gguf_parser;
  std::vector<float> read_floats(std::string_view name, std::span<const std::size_t> shape) const;
  [[noreturn]] void fail(const std::string& what) const;
  [[noreturn]] void fail_key(std::string_view key) const;

  mapped_file file_;
  gguf_metadata metadata_;
  std::map<std::string, gguf_entry, std::less<>> entries_;
};

/// Collects metadata and tensors and writes them to one GGUF file, in order.
class gguf_writer {
 public:
  /// The values of a tensor.
  using value_source = std::function<std::vector<float>()>;

  /// Adds metadata. Throws gradus::error if there is a value for the key.
  void set(const std::string& key, gguf_value value);
  template <class T>
  void set(const std::string& key, std::vector<T> values) {
    set(key, gguf_value(gguf_list(std::move(values))));
  }
  void set(const std::string& key, const char* text) { set(key, gguf_value(std::string(text))); }
  /// Adds a tensor, the innermost dimension of `shape` last, written as `dtype`: "F32", "F16", "BF16" (to nearest even,
  /// or infinity) or "Q8_0" (32 values by a common scale, all NaN if one is not finite: the innermost dimension must be
  /// a multiple). write() calls `values` when it comes to this tensor. Throws gradus::error for another type, a name
  /// that is taken or longer than 63 bytes, and more than four dimensions.
  void add(const std::string& name, const std::string& dtype, std::vector<std::size_t> shape, value_source values);

  /// Writes the file atomically (see atomic_file). Throws gradus::error if a tensor's values do not match its shape.
  void write(const std::filesystem::path& path) const;

 private:
  struct part {
    std::string name, dtype;
    std::vector<std::size_t> shape;
    value_source values;
  };
  std::vector<std::pair<std::string, gguf_value>> metadata_;
  std::vector<part> parts_;
};

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "gguf.ipp"
#endif
