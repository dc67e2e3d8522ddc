#pragma once
// The safetensors format: a 64-bit little-endian header length, a JSON header, and the tensors' bytes end to end. It
// includes nlohmann/json, and gradus.hpp does not include it.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../core/dtype.hpp"
#include "../core/error.hpp"
#include "atomic_file.hpp"
#include "crc32c.hpp"
#include "json.hpp"

namespace gradus {

namespace detail {

inline constexpr std::uint64_t longest_safetensors_header = 100'000'000;

/// Bytes of one element of a dtype as safetensors spells it; 0 for a dtype that this library does not read.
inline std::size_t safetensors_element_bytes(std::string_view dtype) {
  if (dtype == "F64" || dtype == "I64" || dtype == "U64") return 8;
  if (dtype == "F32" || dtype == "I32" || dtype == "U32") return 4;
  if (dtype == "F16" || dtype == "BF16" || dtype == "I16" || dtype == "U16") return 2;
  if (dtype == "I8" || dtype == "U8" || dtype == "BOOL" || dtype == "F8_E4M3" || dtype == "F8_E5M2") return 1;
  return 0;
}

/// "f32" as safetensors spells it: "F32".
inline std::string safetensors_dtype(std::string_view ours) {
  std::string name(ours);
  for (char& c : name)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return name;
}
template <class T>
std::string safetensors_dtype() {
  return safetensors_dtype(dtype_name<T>());
}

/// a * b, or false where it does not fit.
inline bool multiply_fits(std::uint64_t a, std::uint64_t b, std::uint64_t& product) {
  if (b != 0 && a > std::numeric_limits<std::uint64_t>::max() / b) return false;
  product = a * b;
  return true;
}

// `"crc32c":"00000000"` in a header: the checksum's place, and that of its digits in it.
inline constexpr std::string_view safetensors_checksum_key = "crc32c", safetensors_no_checksum = "00000000";
inline std::size_t find_safetensors_checksum(std::string_view header, std::string_view digits) {
  const std::string before = std::string("\"").append(safetensors_checksum_key).append("\":\"");
  const std::size_t at = header.find(std::string(before).append(digits).append("\""));
  return at == std::string_view::npos ? at : at + before.size();
}
inline std::string hexadecimal(std::uint32_t value) {
  std::string text(8, '0');
  for (std::size_t i = 0; i < 8; ++i) text[7 - i] = "0123456789abcdef"[(value >> (4 * i)) & 15u];
  return text;
}

inline std::string shape_text(std::span<const std::size_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
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
/// names, dtypes, that a tensor's bytes are what its shape needs (without overflow), that the tensors lie end to end from 0,
/// and that they end where the file ends. Anything else throws gradus::error, which names the file and the tensor. Values are
/// read when they are asked for.
class safetensors_file {
 public:
  explicit safetensors_file(std::filesystem::path path) : path_(std::move(path)) {
    static_assert(std::endian::native == std::endian::little, "safetensors_file: a little-endian machine is needed");
    std::error_code problem;
    if (!std::filesystem::exists(path_, problem)) fail("no such file");
    if (std::filesystem::is_directory(path_, problem)) fail("is a directory");
    if (!std::filesystem::is_regular_file(path_, problem)) fail("is not a plain file");
    in_.open(path_, std::ios::binary);
    const std::uint64_t file_bytes = std::filesystem::file_size(path_, problem);
    if (!in_ || problem) fail("cannot be read");
    if (file_bytes < 8) fail("is too short for a safetensors file");
    std::uint64_t header_bytes = 0;
    read_at(0, &header_bytes, 8);
    if (header_bytes > detail::longest_safetensors_header)
      fail("is not a safetensors file: the header length is over 100 MB");
    if (header_bytes > file_bytes - 8) fail("ends within its header");
    std::string header(header_bytes, '\0');
    read_at(8, header.data(), header.size());
    data_ = 8 + header_bytes;
    parse(header);
    check_layout(file_bytes - data_);
  }

  /// Reads the whole file and throws gradus::error if it has a checksum (see safetensors_writer::add_checksum) that is another than that of
  /// its bytes: a bit of a tensor has flipped, say. A file without a checksum is taken as it is; a program that changes such a file is to leave
  /// out `crc32c` of its metadata.
  void check_checksum() {
    const auto found = metadata_.find(detail::safetensors_checksum_key);
    if (found == metadata_.end()) return;
    std::string header(static_cast<std::size_t>(data_ - 8), '\0');
    read_at(8, header.data(), header.size());
    const std::size_t digits = detail::find_safetensors_checksum(header, found->second);
    if (digits != std::string::npos && found->second.size() == 8)
      header.replace(digits, 8, detail::safetensors_no_checksum);
    crc32c sum;
    sum.add(std::as_bytes(std::span(header)));
    std::vector<std::byte> some(std::size_t{1} << 20);
    std::uint64_t bytes = 0;
    for (const auto& [name, e] : entries_) bytes = std::max<std::uint64_t>(bytes, e.end);
    for (std::uint64_t at = 0; at < bytes; at += some.size()) {
      some.resize(static_cast<std::size_t>(std::min<std::uint64_t>(some.size(), bytes - at)));
      read_at(data_ + at, some.data(), some.size());
      sum.add(some);
    }
    if (const std::string computed = detail::hexadecimal(sum.value()); computed != found->second)
      fail("is damaged: its checksum is " + found->second + ", and that of its bytes " + computed);
  }

  /// The tensors by name.
  const std::map<std::string, safetensors_entry, std::less<>>& entries() const { return entries_; }
  /// The texts of `__metadata__`.
  const std::map<std::string, std::string, std::less<>>& metadata() const { return metadata_; }
  bool has(std::string_view name) const { return entries_.find(name) != entries_.end(); }
  const safetensors_entry& entry(std::string_view name) const {
    const auto found = entries_.find(name);
    if (found == entries_.end()) fail("has no tensor '" + std::string(name) + "'");
    return found->second;
  }

  /// Throws gradus::error unless there is such a tensor, stored as `dtype` ("F32") and of this shape.
  void check(std::string_view name, std::string_view dtype, std::span<const std::size_t> shape) const {
    const safetensors_entry& e = entry(name);
    if (e.dtype != dtype)
      fail(quoted(name) + " is stored as " + e.dtype + " where " + std::string(dtype) + " is needed");
    check_shape(name, shape);
  }
  /// Reads a tensor that must be stored as T and have this shape.
  template <class T>
  std::vector<T> read(std::string_view name, std::span<const std::size_t> shape) {
    check_shape(name, shape);
    return read<T>(name);
  }
  /// Reads a tensor that must be stored as T, whatever its shape.
  template <class T>
  std::vector<T> read(std::string_view name) {
    const safetensors_entry& e = entry(name);
    if (e.dtype != detail::safetensors_dtype<T>())
      fail(quoted(name) + " is stored as " + e.dtype + " where " + detail::safetensors_dtype<T>() + " is needed");
    std::vector<T> values((e.end - e.begin) / sizeof(T));
    read_at(data_ + e.begin, values.data(), e.end - e.begin);
    return values;
  }

  /// Reads a tensor's bytes into `to`. It must be stored as `dtype` ("F32") and have as many bytes.
  void read_bytes(std::string_view name, std::string_view dtype, std::span<std::byte> to) {
    const safetensors_entry& e = entry(name);
    if (e.dtype != dtype)
      fail(quoted(name) + " is stored as " + e.dtype + " where " + std::string(dtype) + " is needed");
    if (e.end - e.begin != to.size())
      fail(quoted(name) + " has " + std::to_string(e.end - e.begin) + " bytes where " + std::to_string(to.size()) +
           " are needed");
    read_at(data_ + e.begin, to.data(), to.size());
  }

  /// Reads a tensor of this shape that is stored in any floating-point type, and converts its values to T, rounding to nearest
  /// (a value that T cannot hold becomes infinite).
  template <class T>
  std::vector<T> read_as(std::string_view name, std::span<const std::size_t> shape) {
    static_assert(is_floating<T>, "safetensors_file::read_as<T>: T must be f64, f32, bf16 or f16");
    const std::string& stored = entry(name).dtype;
    if (stored == detail::safetensors_dtype<T>()) return read<T>(name, shape);
    if (stored == "F64") return converted<T>(read<double>(name, shape));
    if (stored == "F32") return converted<T>(read<float>(name, shape));
    if (stored == "BF16") return converted<T>(read<bf16>(name, shape));
    if (stored == "F16") return converted<T>(read<f16>(name, shape));
    fail(quoted(name) + " is stored as " + stored + ", which is not a floating-point type to convert to " +
         detail::safetensors_dtype<T>());
  }

 private:
  template <class T, class From>
  static std::vector<T> converted(const std::vector<From>& values) {
    std::vector<T> to(values.size());
    std::ranges::transform(values, to.begin(), [](From v) { return static_cast<T>(static_cast<compute_type<T>>(v)); });
    return to;
  }
  void check_shape(std::string_view name, std::span<const std::size_t> shape) const {
    const safetensors_entry& e = entry(name);
    if (!std::ranges::equal(e.shape, shape))
      fail(quoted(name) + " has the shape " + detail::shape_text(e.shape) + " where " + detail::shape_text(shape) +
           " is needed");
  }
  static std::string quoted(std::string_view name) { return std::string("'").append(name).append("'"); }
  [[noreturn]] void fail(const std::string& what) const { throw error(path_.string() + ": " + what); }

  void read_at(std::uint64_t position, void* to, std::size_t bytes) {
    in_.seekg(static_cast<std::streamoff>(position));
    if (!in_.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes))) fail("cannot be read to its end");
  }

  void parse(const std::string& header) {
    // The format forbids names that occur twice.
    detail::strict_json_builder builder;
    const bool parsed_all = nlohmann::json::sax_parse(header, &builder);
    if (!builder.twice.empty()) fail(quoted(builder.twice) + " occurs twice");
    // A writer pads with spaces at the end, never in front.
    const nlohmann::json& parsed = builder.result;
    if (!parsed_all || !parsed.is_object() || header.front() != '{')
      fail("is not a safetensors file: its header is not a JSON object");
    for (const auto& item : parsed.items()) {
      if (item.key() == "__metadata__") parse_metadata(item.value());
      else entries_.emplace(item.key(), parse_entry(item.key(), item.value()));
    }
  }
  void parse_metadata(const nlohmann::json& texts) {
    if (!texts.is_object()) fail("'__metadata__' is not a JSON object");
    for (const auto& item : texts.items()) {
      if (!item.value().is_string()) fail("'__metadata__': " + quoted(item.key()) + " is not a string");
      metadata_.emplace(item.key(), item.value().get<std::string>());
    }
  }
  safetensors_entry parse_entry(const std::string& name, const nlohmann::json& from) const {
    const auto whole_numbers = [&](const char* key) {
      if (!from.contains(key) || !from[key].is_array()) fail(quoted(name) + " has no list '" + key + "'");
      std::vector<std::size_t> numbers;
      for (const auto& number : from[key]) {
        if (!number.is_number_unsigned())
          fail(quoted(name) + ": '" + key + "' holds something other than whole numbers");
        numbers.push_back(number.get<std::size_t>());
      }
      return numbers;
    };
    if (!from.is_object()) fail(quoted(name) + " is not a JSON object");
    if (!from.contains("dtype") || !from["dtype"].is_string()) fail(quoted(name) + " has no 'dtype'");
    safetensors_entry e;
    e.dtype = from["dtype"].get<std::string>();
    e.shape = whole_numbers("shape");
    const auto offsets = whole_numbers("data_offsets");
    if (offsets.size() != 2 || offsets[0] > offsets[1])
      fail(quoted(name) + ": 'data_offsets' must be a begin and an end");
    e.begin = offsets[0];
    e.end = offsets[1];

    std::uint64_t bytes = detail::safetensors_element_bytes(e.dtype);
    if (bytes == 0) fail(quoted(name) + " has the unknown dtype '" + e.dtype + "'");
    for (const std::size_t extent : e.shape)
      if (!detail::multiply_fits(bytes, extent, bytes)) fail(quoted(name) + ": a tensor this large cannot exist");
    if (bytes != e.end - e.begin)
      fail(quoted(name) + " has " + std::to_string(e.end - e.begin) + " bytes, and its shape and dtype need " +
           std::to_string(bytes));
    return e;
  }
  void check_layout(std::uint64_t data_bytes) const {
    std::vector<std::pair<std::string_view, const safetensors_entry*>> order;
    for (const auto& [name, e] : entries_) order.emplace_back(name, &e);
    std::ranges::sort(order, {}, [](const auto& item) { return std::pair(item.second->begin, item.second->end); });
    std::uint64_t at = 0;
    for (const auto& [name, e] : order) {
      if (e->begin != at)
        fail(quoted(name) + " begins at byte " + std::to_string(e->begin) + " where " + std::to_string(at) + " is due");
      at = e->end;
    }
    if (at != data_bytes)
      fail("holds " + std::to_string(data_bytes) + " bytes of values, and its header accounts for " +
           std::to_string(at));
  }

  std::filesystem::path path_;
  std::ifstream in_;
  std::uint64_t data_ = 0;
  std::map<std::string, safetensors_entry, std::less<>> entries_;
  std::map<std::string, std::string, std::less<>> metadata_;
};

/// Collects tensors and writes them as one safetensors file, in the order they were added. Values are not copied: they must
/// stay where they are until write() has returned.
class safetensors_writer {
 public:
  void set_metadata(const std::string& key, const std::string& text) { metadata_[key] = text; }
  /// Has the metadata get an entry `crc32c`, by which safetensors_file::check_checksum() finds damage: eight hexadecimal digits, the CRC-32C of all
  /// of the file behind its first 8 bytes, with zeros in the place of these digits.
  void add_checksum() { metadata_[std::string(detail::safetensors_checksum_key)] = detail::safetensors_no_checksum; }

  /// Throws gradus::error if the name was added before, or if the values are not as many as the shape says.
  template <class T, std::size_t N>
  void add(std::string_view name, std::span<const std::size_t> shape, std::span<T, N> values) {
    add_bytes(name, detail::safetensors_dtype<std::remove_const_t<T>>(), shape, values.size(), std::as_bytes(values));
  }
  /// The same for `count` values of a type that is known by name alone ("F32").
  void add_bytes(std::string_view name, const std::string& dtype, std::span<const std::size_t> shape, std::size_t count,
                 std::span<const std::byte> bytes) {
    std::uint64_t needed = 1;
    for (const std::size_t extent : shape)
      if (!detail::multiply_fits(needed, extent, needed))
        throw error("safetensors: '" + std::string(name) + "': a tensor this large cannot exist");
    if (needed != count)
      throw error("safetensors: '" + std::string(name) + "' has " + std::to_string(count) + " values for the shape " +
                  detail::shape_text(shape));
    if (name == "__metadata__" || !names_.insert(std::string(name)).second)
      throw error("safetensors: the name '" + std::string(name) + "' is taken");
    parts_.push_back({std::string(name), dtype, {shape.begin(), shape.end()}, bytes});
  }

  /// Writes the file in one step (see atomic_file). `before_rename` is called when all bytes are on the disk and the file is about to take
  /// its place.
  void write(const std::filesystem::path& path, const std::function<void()>& before_rename = nullptr) const {
    std::string text = "{";
    const auto add = [&](const std::string& name, const nlohmann::ordered_json& value) {
      text.append(text.size() > 1 ? "," : "").append(nlohmann::json(name).dump()).append(":").append(value.dump());
    };
    if (!metadata_.empty()) add("__metadata__", metadata_);
    std::size_t at = 0;
    for (const part& p : parts_) {
      add(p.name, {{"dtype", p.dtype}, {"shape", p.shape}, {"data_offsets", {at, at + p.bytes.size()}}});
      at += p.bytes.size();
    }
    text += "}";
    text.resize((text.size() + 7) / 8 * 8, ' ');
    const std::uint64_t length = text.size();
    const std::size_t checksum = detail::find_safetensors_checksum(text, detail::safetensors_no_checksum);
    atomic_file file(path);
    crc32c sum;
    const auto write = [&](std::span<const std::byte> bytes) {
      // In pieces that are in cache when they are written.
      for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), std::size_t{1} << 18))) {
        const auto piece = bytes.first(std::min(bytes.size(), std::size_t{1} << 18));
        if (checksum != std::string::npos) sum.add(piece);
        file.write(piece.data(), piece.size());
      }
    };
    file.write(&length, 8);
    write(std::as_bytes(std::span(text)));
    for (const part& p : parts_) write(p.bytes);
    if (checksum != std::string::npos)
      file.overwrite(static_cast<long>(8 + checksum), detail::hexadecimal(sum.value()).data(), 8);
    file.commit(before_rename);
  }

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
