#pragma once
// The safetensors format: a 64-bit little-endian header length, a JSON header, and the tensors' bytes end to end.
// Where it is not compiled separately it includes nlohmann/json, and gradus.hpp does not include it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "../core/config.hpp"
#include "../core/dtype.hpp"
#include "../core/error.hpp"

namespace gradus {

namespace detail {

/// Bytes of one element of a dtype as safetensors spells it; 0 for a dtype that this library does not read.
std::size_t safetensors_element_bytes(std::string_view dtype);

/// "f32" as safetensors spells it: "F32".
std::string safetensors_dtype(std::string_view ours);
template <class T>
std::string safetensors_dtype() {
  return safetensors_dtype(dtype_name<T>());
}

}  // namespace detail

/// What the header says of one tensor. Offsets count from the first byte after the header.
struct safetensors_entry {
  std::string dtype;
  std::vector<std::size_t> shape;
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// An opened safetensors file. Everything the header claims is checked on construction: its length, the JSON, duplicate
/// names, dtypes, that a tensor's bytes are what its shape needs (without overflow), that the tensors lie end to end
/// from 0, and that they end where the file ends. Anything else throws gradus::error, which names the file and the
/// tensor. Values are read when they are asked for.
class safetensors_file {
 public:
  explicit safetensors_file(std::filesystem::path path);

  /// Reads the whole file and throws gradus::error if it has a checksum (see safetensors_writer::add_checksum) that is
  /// another than that of its bytes: a bit of a tensor has flipped, say. A file without a checksum is taken as it is; a
  /// program that changes such a file is to leave out `crc32c` of its metadata.
  void check_checksum();

  const std::filesystem::path& path() const { return path_; }
  /// The tensors by name.
  const std::map<std::string, safetensors_entry, std::less<>>& entries() const { return entries_; }
  /// The texts of `__metadata__`.
  const std::map<std::string, std::string, std::less<>>& metadata() const { return metadata_; }
  bool has(std::string_view name) const;
  const safetensors_entry& entry(std::string_view name) const;

  /// Throws gradus::error unless there is such a tensor, stored as `dtype` ("F32") and of this shape.
  void check(std::string_view name, std::string_view dtype, std::span<const std::size_t> shape) const;
  /// Reads a tensor that must be stored as T and have this shape.
  template <class T>
  std::vector<T> read(std::string_view name, std::span<const std::size_t> shape) {
    check_shape(name, shape);
    return read<T>(name);
  }
  /// Reads a tensor that must be stored as T, whatever its shape.
  template <class T>
  std::vector<T> read(std::string_view name) {
    const safetensors_entry& e = stored_as(name, detail::safetensors_dtype<T>());
    std::vector<T> values((e.end - e.begin) / sizeof(T));
    read_at(data_ + e.begin, values.data(), e.end - e.begin);
    return values;
  }

  /// Reads a tensor's bytes into `to`. It must be stored as `dtype` ("F32") and have as many bytes.
  void read_bytes(std::string_view name, std::string_view dtype, std::span<std::byte> to);

  /// Reads a tensor of this shape that is stored in any floating-point type, and converts its values to T, rounding to
  /// nearest (a value that T cannot hold becomes infinite).
  template <class T>
  std::vector<T> read_as(std::string_view name, std::span<const std::size_t> shape) {
    static_assert(is_floating<T>, "safetensors_file::read_as<T>: T must be f64, f32, bf16 or f16");
    const std::string& stored = entry(name).dtype;
    if (stored == detail::safetensors_dtype<T>()) return read<T>(name, shape);
    if (stored == "F64") return converted<T>(read<double>(name, shape));
    if (stored == "F32") return converted<T>(read<float>(name, shape));
    if (stored == "BF16") return converted<T>(read<bf16>(name, shape));
    if (stored == "F16") return converted<T>(read<f16>(name, shape));
    refuse_to_convert(name, detail::safetensors_dtype<T>());
  }

 private:
  struct json_reader;

  template <class T, class From>
  static std::vector<T> converted(const std::vector<From>& values) {
    std::vector<T> to(values.size());
    std::ranges::transform(values, to.begin(), [](From v) { return static_cast<T>(static_cast<compute_type<T>>(v)); });
    return to;
  }
  /// The tensor of this name, which must be stored as `dtype`.
  const safetensors_entry& stored_as(std::string_view name, std::string_view dtype) const;
  [[noreturn]] void refuse_to_convert(std::string_view name, std::string_view dtype) const;
  void check_shape(std::string_view name, std::span<const std::size_t> shape) const;
  static std::string quoted(std::string_view name);
  [[noreturn]] void fail(const std::string& what) const;

  void read_at(std::uint64_t position, void* to, std::size_t bytes);

  void parse(const std::string& header);
  void check_layout(std::uint64_t data_bytes) const;

  std::filesystem::path path_;
  std::ifstream in_;
  std::uint64_t data_ = 0;
  std::map<std::string, safetensors_entry, std::less<>> entries_;
  std::map<std::string, std::string, std::less<>> metadata_;
};

/// Collects tensors and writes them as one safetensors file, in the order they were added. Values are not copied: they
/// must stay where they are until write() has returned.
class safetensors_writer {
 public:
  void set_metadata(const std::string& key, const std::string& text) { metadata_[key] = text; }
  /// Has the metadata get an entry `crc32c`, by which safetensors_file::check_checksum() finds damage: eight
  /// hexadecimal digits, the CRC-32C of all of the file behind its first 8 bytes, with zeros in the place of these
  /// digits.
  void add_checksum();

  /// Throws gradus::error if the name was added before, or if the values are not as many as the shape says.
  template <class T, std::size_t N>
  void add(std::string_view name, std::span<const std::size_t> shape, std::span<T, N> values) {
    add_bytes(name, detail::safetensors_dtype<std::remove_const_t<T>>(), shape, values.size(), std::as_bytes(values));
  }
  /// The same for `count` values of a type that is known by name alone ("F32").
  void add_bytes(std::string_view name, const std::string& dtype, std::span<const std::size_t> shape, std::size_t count,
                 std::span<const std::byte> bytes);

  /// Writes the file in one step (see atomic_file). `before_rename` is called when all bytes are on the disk and the
  /// file is about to take its place.
  void write(const std::filesystem::path& path, const std::function<void()>& before_rename = nullptr) const;

 private:
  struct part {
    std::string name;
    std::string dtype;
    std::vector<std::size_t> shape;
    std::span<const std::byte> bytes;
  };
  std::vector<part> parts_;
  std::set<std::string> names_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "safetensors.ipp"
#endif
