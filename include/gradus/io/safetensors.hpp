#pragma once
// The safetensors format: a 64-bit little-endian header length, a JSON header, and the tensors' bytes. Not part of
// gradus.hpp: without GRADUS_COMPILED it includes nlohmann/json.

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

/// Bits per element of a safetensors dtype; 0 if the format has none of the name.
std::size_t safetensors_element_bits(std::string_view dtype);

/// The safetensors name of a dtype: "F32" for "f32".
std::string safetensors_dtype(std::string_view ours);
template <class T>
std::string safetensors_dtype() {
  return safetensors_dtype(dtype_name<T>());
}

}  // namespace detail

/// One tensor in the header. Offsets count from the first byte after the header.
struct safetensors_entry {
  std::string dtype;
  std::vector<std::size_t> shape;
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// An open safetensors file. The constructor checks the header: its length, the JSON, duplicate names, dtypes, that
/// each tensor's bytes match its shape (without overflow), and that the tensors fill the file from 0 to its end without
/// gaps. Otherwise throws gradus::error, which names the file and the tensor. Values are read on request.
class safetensors_file {
 public:
  explicit safetensors_file(std::filesystem::path path);

  /// Reads the whole file; throws gradus::error if its checksum (see safetensors_writer::add_checksum) does not match.
  /// Accepts files without one; a program that modifies a file should remove `crc32c` from its metadata.
  void check_checksum();

  const std::filesystem::path& path() const { return path_; }
  /// The tensors, by name.
  const std::map<std::string, safetensors_entry, std::less<>>& entries() const { return entries_; }
  /// The entries of `__metadata__`.
  const std::map<std::string, std::string, std::less<>>& metadata() const { return metadata_; }
  bool has(std::string_view name) const;
  const safetensors_entry& entry(std::string_view name) const;

  /// Throws gradus::error unless the tensor exists with this dtype ("F32") and shape.
  void check(std::string_view name, std::string_view dtype, std::span<const std::size_t> shape) const;
  /// Reads a tensor stored as T with this shape.
  template <class T>
  std::vector<T> read(std::string_view name, std::span<const std::size_t> shape) {
    check_shape(name, shape);
    return read<T>(name);
  }
  /// Reads a tensor stored as T, of any shape.
  template <class T>
  std::vector<T> read(std::string_view name) {
    const safetensors_entry& e = stored_as(name, detail::safetensors_dtype<T>());
    std::vector<T> values((e.end - e.begin) / sizeof(T));
    read_at(data_ + e.begin, values.data(), e.end - e.begin);
    return values;
  }

  /// Reads a tensor's bytes into `to`. The tensor must have this dtype ("F32") and as many bytes.
  void read_bytes(std::string_view name, std::string_view dtype, std::span<std::byte> to);
  /// Reads to.size() bytes of a tensor from byte `begin` on. The tensor must have this dtype, and these bytes.
  void read_bytes(std::string_view name, std::string_view dtype, std::size_t begin, std::span<std::byte> to);

  /// Throws gradus::error unless read_as<T>() can read the tensor: it exists with this shape, in a floating-point type.
  template <class T>
  void check_as(std::string_view name, std::span<const std::size_t> shape) const {
    check_shape(name, shape);
    check_floating(name, detail::safetensors_dtype<T>());
  }
  /// Reads a tensor of this shape, stored in any floating-point type, and rounds it to T (to nearest, or to infinity).
  template <class T>
  std::vector<T> read_as(std::string_view name, std::span<const std::size_t> shape) {
    static_assert(is_floating<T>, "safetensors_file::read_as<T>: T must be f64, f32, bf16 or f16");
    const std::string& stored = entry(name).dtype;
    if (stored == detail::safetensors_dtype<T>()) return read<T>(name, shape);
    check_floating(name, detail::safetensors_dtype<T>());
    if (stored == "F64") return converted<T>(read<double>(name, shape));
    if (stored == "F32") return converted<T>(read<float>(name, shape));
    if (stored == "BF16") return converted<T>(read<bf16>(name, shape));
    return converted<T>(read<f16>(name, shape));
  }

 private:
  struct json_reader;

  template <class T, class From>
  static std::vector<T> converted(const std::vector<From>& values) {
    std::vector<T> to(values.size());
    std::ranges::transform(values, to.begin(), [](From v) { return static_cast<T>(static_cast<compute_type<T>>(v)); });
    return to;
  }
  /// The tensor of this name, which must have this dtype.
  const safetensors_entry& stored_as(std::string_view name, std::string_view dtype) const;
  /// Throws gradus::error unless the tensor has a floating-point type, which can be converted to `dtype`.
  void check_floating(std::string_view name, std::string_view dtype) const;
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

/// Collects tensors and writes them to one safetensors file, in order. Values must stay valid until write() returns.
class safetensors_writer {
 public:
  /// Takes the next bytes of a tensor.
  using byte_sink = std::function<void(std::span<const std::byte>)>;
  /// Passes all bytes of a tensor to its argument, part by part.
  using byte_source = std::function<void(const byte_sink&)>;

  void set_metadata(const std::string& key, const std::string& text) { metadata_[key] = text; }
  /// Adds a metadata entry `crc32c` for safetensors_file::check_checksum(): eight hexadecimal digits, the CRC-32C of
  /// the file after its first 8 bytes, computed with zeros instead of these digits.
  void add_checksum();

  /// Throws gradus::error if the name exists, or the number of values does not match the shape.
  template <class T, std::size_t N>
  void add(std::string_view name, std::span<const std::size_t> shape, std::span<T, N> values) {
    add_bytes(name, detail::safetensors_dtype<std::remove_const_t<T>>(), shape, values.size(), std::as_bytes(values));
  }
  /// Adds a tensor with its own shape: gradus::tensor, or another type with extents() that to_host() copies. It shares
  /// the elements until the writer ends, and reads them when write() is called.
  template <class Tensor>
    requires requires(const Tensor& t) { to_host(t), t.extents(); }
  void add(std::string_view name, const Tensor& values) {
    const auto& extents = values.extents().extents;
    const std::vector<std::size_t> shape(extents.begin(), extents.end());
    add_parts(name, detail::safetensors_dtype<typename Tensor::value_type>(), shape, values.extents().size,
              [values](const byte_sink& sink) {
                const auto host = to_host(values);
                if constexpr (std::is_same_v<typename Tensor::value_type, bool>) {
                  const std::vector<std::uint8_t> bytes(host.begin(), host.end());
                  sink(std::as_bytes(std::span(bytes)));
                } else {
                  sink(std::as_bytes(std::span(host)));
                }
              });
  }
  /// Adds a tensor of `count` values whose type is given by its dtype ("F32"). The bytes are read when write() is
  /// called. Throws gradus::error if the name exists, or `count` does not match the shape.
  void add_bytes(std::string_view name, const std::string& dtype, std::span<const std::size_t> shape, std::size_t count,
                 std::span<const std::byte> bytes);
  /// Adds a tensor of `count` values that `source` has when write() calls it, as it comes to this tensor. Throws as
  /// add_bytes.
  void add_parts(std::string_view name, const std::string& dtype, std::span<const std::size_t> shape, std::size_t count,
                 byte_source source);

  /// Writes the file atomically (see atomic_file). Calls `before_rename` when all bytes are on disk, before the rename.
  void write(const std::filesystem::path& path, const std::function<void()>& before_rename = nullptr) const;
  /// Writes model.safetensors into a folder; or, if the tensors have more than `most_bytes`, files of at most as many
  /// (or of one tensor), model-00001-of-00003.safetensors and so on, and model.safetensors.index.json, in which
  /// sharded_safetensors and transformers find them.
  void write_shards(const std::filesystem::path& folder, std::size_t most_bytes) const;

 private:
  struct part {
    std::string name;
    std::string dtype;
    std::vector<std::size_t> shape;
    std::size_t bytes;
    byte_source source;
  };
  void write(const std::filesystem::path& path, std::span<const part> parts,
             const std::function<void()>& before_rename) const;

  std::vector<part> parts_;
  std::set<std::string> names_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "safetensors.ipp"
#endif
