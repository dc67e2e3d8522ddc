#pragma once
#include <bit>
#include <cmath>
#include <cstring>

#include "../core/printable.hpp"
#include "../core/quantize_block.hpp"
#include "atomic_file.hpp"
#include "extents.hpp"
#include "gguf.hpp"

namespace gradus {

namespace detail {

inline constexpr std::uint64_t gguf_alignment = 32;  // unless the metadata say another one
constexpr std::uint64_t aligned_up(std::uint64_t bytes, std::uint64_t to) { return (bytes + to - 1) / to * to; }

template <class T>
T loaded_from(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}
template <class T>
void read_gguf_value(const std::byte* from, float* to) {
  *to = loaded_from<T>(from);
}
GRADUS_IMPL float f16_at(const std::byte* bytes) { return f16::from_bits(loaded_from<std::uint16_t>(bytes)); }

/// Q8_0: f16 d, 32 values q of 8 bits: d * q.
GRADUS_IMPL void read_q8_0(const std::byte* block, float* to) {
  const float d = f16_at(block);
  for (std::size_t i = 0; i < 32; ++i) to[i] = d * static_cast<float>(loaded_from<std::int8_t>(block + 2 + i));
}
/// Blocks of the K types (ggml's k_quants): 256 values in groups, each with a scale of its own.
/// Q4_K: f16 d, f16 m, 8 scales and 8 minima of 6 bits, 256 values q of 4 bits: d * scale * q - m * minimum.
GRADUS_IMPL void read_q4_k(const std::byte* block, float* to) {
  const float d = f16_at(block), m = f16_at(block + 2);
  const auto byte = [&](std::size_t i) { return std::to_integer<unsigned>(block[4 + i]); };
  for (std::size_t group = 0; group < 8; ++group) {
    unsigned scale = byte(group % 4) & 63u, minimum = byte(4 + group % 4) & 63u;
    if (group >= 4) {
      scale = (byte(4 + group) & 15u) | ((byte(group - 4) >> 2) & 48u);
      minimum = (byte(4 + group) >> 4) | ((byte(group) >> 2) & 48u);
    }
    const float by = d * static_cast<float>(scale), less = m * static_cast<float>(minimum);
    for (std::size_t i = 0; i < 32; ++i) {
      const unsigned two = byte(12 + group / 2 * 32 + i), q = group % 2 == 0 ? two & 15u : two >> 4;
      to[group * 32 + i] = by * static_cast<float>(q) - less;
    }
  }
}
/// Q6_K: the lower 4 bits of 256 values q, their upper 2 bits, 16 scales of 8 bits, f16 d: d * scale * (q - 32).
GRADUS_IMPL void read_q6_k(const std::byte* block, float* to) {
  const float d = f16_at(block + 208);
  for (std::size_t i = 0; i < 256; ++i) {
    const std::size_t half = i / 128, quarter = i / 32 % 4, in_quarter = i % 32;
    const auto low = std::to_integer<unsigned>(block[half * 64 + quarter % 2 * 32 + in_quarter]) >> (quarter / 2 * 4);
    const auto high = std::to_integer<unsigned>(block[128 + half * 32 + in_quarter]) >> (quarter * 2);
    const auto scale = static_cast<float>(loaded_from<std::int8_t>(block + 192 + i / 16));
    to[i] = d * scale * static_cast<float>(static_cast<int>((low & 15u) | (high & 3u) << 4) - 32);
  }
}

/// A type of tensors: `values` values take `bytes` bytes, which `read` turns into floats. Tensors of a type without it
/// may be in a file, and are not read.
struct gguf_type {
  std::uint32_t number;
  std::string_view name;
  std::size_t values, bytes;
  void (*read)(const std::byte* block, float* to) = nullptr;
};
inline constexpr std::array gguf_types{gguf_type{0, "F32", 1, 4, read_gguf_value<float>},
                                       gguf_type{1, "F16", 1, 2, read_gguf_value<f16>},
                                       gguf_type{30, "BF16", 1, 2, read_gguf_value<bf16>},
                                       gguf_type{8, "Q8_0", 32, 34, read_q8_0},
                                       gguf_type{12, "Q4_K", 256, 144, read_q4_k},
                                       gguf_type{14, "Q6_K", 256, 210, read_q6_k},
                                       gguf_type{2, "Q4_0", 32, 18},
                                       gguf_type{3, "Q4_1", 32, 20},
                                       gguf_type{6, "Q5_0", 32, 22},
                                       gguf_type{7, "Q5_1", 32, 24},
                                       gguf_type{9, "Q8_1", 32, 40},
                                       gguf_type{10, "Q2_K", 256, 84},
                                       gguf_type{11, "Q3_K", 256, 110},
                                       gguf_type{13, "Q5_K", 256, 176},
                                       gguf_type{15, "Q8_K", 256, 292},
                                       gguf_type{16, "IQ2_XXS", 256, 66},
                                       gguf_type{17, "IQ2_XS", 256, 74},
                                       gguf_type{18, "IQ3_XXS", 256, 98},
                                       gguf_type{19, "IQ1_S", 256, 50},
                                       gguf_type{20, "IQ4_NL", 32, 18},
                                       gguf_type{21, "IQ3_S", 256, 110},
                                       gguf_type{22, "IQ2_S", 256, 82},
                                       gguf_type{23, "IQ4_XS", 256, 136},
                                       gguf_type{24, "I8", 1, 1},
                                       gguf_type{25, "I16", 1, 2},
                                       gguf_type{26, "I32", 1, 4},
                                       gguf_type{27, "I64", 1, 8},
                                       gguf_type{28, "F64", 1, 8},
                                       gguf_type{29, "IQ1_M", 256, 56},
                                       gguf_type{34, "TQ1_0", 256, 54},
                                       gguf_type{35, "TQ2_0", 256, 66},
                                       gguf_type{39, "MXFP4", 32, 17},
                                       gguf_type{40, "NVFP4", 64, 36},
                                       gguf_type{41, "Q1_0", 128, 18}};
GRADUS_IMPL const gguf_type& gguf_type_named(std::string_view name) {
  return *std::ranges::find(gguf_types, name, &gguf_type::name);
}

template <class T>
void append_gguf(std::string& to, const T& value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof(T));
}
GRADUS_IMPL void append_gguf(std::string& to, const std::string& text) {
  append_gguf(to, static_cast<std::uint64_t>(text.size()));
  to.append(text);
}
GRADUS_IMPL void append_gguf(std::string& to, bool truth) { to.push_back(truth ? '\1' : '\0'); }
GRADUS_IMPL void append_gguf(std::string&, std::monostate) {}
GRADUS_IMPL void append_gguf(std::string& to, const gguf_list& list) {
  append_gguf(to, static_cast<std::uint32_t>(list.index()));
  std::visit(
      [&]<class Values>(const Values& values) {
        if constexpr (!std::is_same_v<Values, std::monostate>) {
          append_gguf(to, static_cast<std::uint64_t>(values.size()));
          // By its type: an element of vector<bool> is no bool, and no reference.
          for (const auto& value : values) append_gguf(to, static_cast<const typename Values::value_type&>(value));
        }
      },
      list);
}

/// The bytes of values in a type that is written.
GRADUS_IMPL std::string gguf_bytes(std::string_view dtype, std::span<const float> values) {
  std::string to;
  const gguf_type& type = gguf_type_named(dtype);
  to.reserve(values.size() / type.values * type.bytes);
  if (dtype == "Q8_0") {
    for (; !values.empty(); values = values.subspan(32)) {
      std::array<std::uint8_t, 32> codes{};
      append_gguf(to, f16(quantize_block<std::size_t{32}>(codes.data(), values.data())).bits);
      to.append(reinterpret_cast<const char*>(codes.data()), codes.size());
    }
  } else if (dtype == "F32") {
    to.assign(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  } else {
    const bool half = dtype == "F16";
    for (const float x : values) append_gguf(to, half ? f16(x).bits : bf16(x).bits);
  }
  return to;
}

}  // namespace detail

/// Reads a file's head from its first byte on.
struct gguf_parser {
  gguf_file& file;
  std::span<const std::byte> rest;

  explicit gguf_parser(gguf_file& of) : file(of), rest(of.file_.bytes()) {}

  void parse() {
    if (rest.size() < 4 || std::memcmp(rest.data(), "GGUF", 4) != 0)
      file.fail("is not a GGUF file: it does not begin with \"GGUF\"");
    rest = rest.subspan(4);
    const auto version = next<std::uint32_t>();
    if (version != 2 && version != 3)
      file.fail("is a GGUF file of version " + std::to_string(version) + "; versions 2 and 3 are read");
    const auto tensors = next<std::uint64_t>(), keys = next<std::uint64_t>();
    for (std::uint64_t i = 0; i < keys; ++i) {
      const auto key = next<std::string>();
      if (!file.metadata_.emplace(key, next_value(key)).second) file.fail("the key '" + key + "' occurs twice");
    }
    std::uint64_t alignment = detail::gguf_alignment;
    if (file.has_key("general.alignment")) {
      alignment = file.value<std::uint32_t>("general.alignment");
      if (!std::has_single_bit(alignment)) file.fail("'general.alignment' is " + std::to_string(alignment));
    }
    std::uint64_t at = 0;  // where the next tensor is due
    for (std::uint64_t i = 0; i < tensors; ++i) at = next_entry(at, alignment);
    const std::uint64_t head = file.file_.size() - rest.size(), begin = detail::aligned_up(head, alignment);
    for (auto& [name, e] : file.entries_) {
      e.begin += begin;
      if (e.bytes > 0 && (e.begin > file.file_.size() || e.bytes > file.file_.size() - e.begin))
        file.fail("ends within the tensor '" + name + "': the file was cut short");
    }
  }

 private:
  template <class T>
  T next() {
    if constexpr (std::is_same_v<T, std::string>) {
      const auto length = next<std::uint64_t>();
      check(length);
      std::string text(reinterpret_cast<const char*>(rest.data()), length);
      rest = rest.subspan(length);
      return text;
    } else if constexpr (std::is_same_v<T, bool>) {
      return next<std::uint8_t>() != 0;
    } else {
      check(sizeof(T));
      const T value = detail::loaded_from<T>(rest.data());
      rest = rest.subspan(sizeof(T));
      return value;
    }
  }
  void check(std::uint64_t bytes) const {
    if (bytes > rest.size()) file.fail("ends within its head: the file was cut short");
  }

  // One of the alternatives of a variant, by its index; read(alternative) makes it.
  template <class Variant, std::size_t At = 0, class Read>
  Variant alternative(std::uint32_t index, const std::string& key, const Read& read) {
    if constexpr (At == std::variant_size_v<Variant>) {
      file.fail("'" + key + "' has a value of the unknown type " + std::to_string(index));
    } else {
      if (index == At)
        return Variant(std::in_place_index<At>, read(std::type_identity<std::variant_alternative_t<At, Variant>>()));
      return alternative<Variant, At + 1>(index, key, read);
    }
  }
  gguf_list next_list(const std::string& key) {
    const auto type = next<std::uint32_t>();
    return alternative<gguf_list>(type, key, [&]<class Values>(std::type_identity<Values>) -> Values {
      if constexpr (std::is_same_v<Values, std::monostate>) {
        file.fail("'" + key + "' is a list of lists, which are not read");
      } else {
        using T = typename Values::value_type;
        const auto count = next<std::uint64_t>();
        // Nothing is allocated for more than the file can hold.
        if (count > rest.size() / (std::is_same_v<T, std::string> ? 8 : sizeof(T))) check(rest.size() + 1);
        Values values;
        values.reserve(count);
        for (std::uint64_t i = 0; i < count; ++i) values.push_back(next<T>());
        return values;
      }
    });
  }
  gguf_value next_value(const std::string& key) {
    const auto type = next<std::uint32_t>();
    return alternative<gguf_value>(type, key, [&]<class T>(std::type_identity<T>) -> T {
      if constexpr (std::is_same_v<T, gguf_list>) return next_list(key);
      else return next<T>();
    });
  }

  // Reads the entry of a tensor that is due at a place of the data; returns where the next one is.
  std::uint64_t next_entry(std::uint64_t due, std::uint64_t alignment) {
    const auto name = next<std::string>();
    const std::string quoted = "'" + name + "'";
    gguf_entry e;
    const auto dimensions = next<std::uint32_t>();
    if (dimensions > 4) file.fail(quoted + " has " + std::to_string(dimensions) + " dimensions; 4 are the most");
    for (std::uint32_t i = 0; i < dimensions; ++i) e.shape.insert(e.shape.begin(), next<std::uint64_t>());
    const auto number = next<std::uint32_t>();
    const auto type = std::ranges::find(detail::gguf_types, number, &detail::gguf_type::number);
    if (type == detail::gguf_types.end())
      file.fail(quoted + " is stored as the unknown type " + std::to_string(number));
    e.dtype = type->name;
    const std::size_t innermost = e.shape.empty() ? 1 : e.shape.back();
    if (innermost % type->values != 0)
      file.fail(quoted + " has the shape " + detail::shape_text(e.shape) + ", and " + e.dtype + " stores " +
                std::to_string(type->values) + " values together");
    std::uint64_t bytes = 0;
    if (!detail::multiply_fits(e.shape, type->bytes, bytes) || bytes / type->values > file.file_.size())
      file.fail(quoted + " has the shape " + detail::shape_text(e.shape) + ", which is more than the file holds");
    e.bytes = bytes / type->values;
    e.begin = next<std::uint64_t>();
    if (e.begin != due)
      file.fail(quoted + " begins at byte " + std::to_string(e.begin) + " where " + std::to_string(due) + " is due");
    const std::uint64_t end = e.begin + e.bytes;
    if (!file.entries_.emplace(name, std::move(e)).second) file.fail(quoted + " occurs twice");
    return detail::aligned_up(end, alignment);
  }
};

GRADUS_IMPL gguf_file::gguf_file(std::filesystem::path path) : file_(std::move(path)) {
  static_assert(std::endian::native == std::endian::little, "gguf_file: a little-endian machine is needed");
  gguf_parser(*this).parse();
}

GRADUS_IMPL double gguf_file::number(std::string_view key, std::optional<double> otherwise) const {
  const auto found = metadata_.find(key);
  if (found == metadata_.end() && otherwise) return *otherwise;
  if (found == metadata_.end()) fail_key(key);
  return std::visit(
      [&]<class T>(const T& value) -> double {
        if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) return static_cast<double>(value);
        else fail_key(key);
      },
      found->second);
}

GRADUS_IMPL std::size_t gguf_file::count(std::string_view key, std::optional<std::size_t> otherwise) const {
  if (!has_key(key) && otherwise) return *otherwise;
  const double found = number(key);
  if (!(found >= 0 && found < 4294967296.0 && found == std::floor(found)))
    fail("'" + std::string(key) + "' is not a whole number below 2^32");
  return static_cast<std::size_t>(found);
}

GRADUS_IMPL const gguf_entry& gguf_file::entry(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) fail("has no tensor '" + std::string(name) + "'");
  return found->second;
}

GRADUS_IMPL void gguf_file::check_readable(std::string_view name) const {
  const gguf_entry& e = entry(name);
  if (detail::gguf_type_named(e.dtype).read == nullptr)
    fail(std::string("'").append(name) + "' is stored as " + e.dtype +
         "; F32, F16, BF16, Q8_0, Q4_K and Q6_K are read");
}

GRADUS_IMPL std::vector<float> gguf_file::read_floats(std::string_view name, std::span<const std::size_t> shape) const {
  const gguf_entry& e = entry(name);
  if (!std::ranges::equal(e.shape, shape))
    fail(std::string("'").append(name) + "' has the shape " + detail::shape_text(e.shape) + " where " +
         detail::shape_text(shape) + " is needed");
  check_readable(name);
  const detail::gguf_type& type = detail::gguf_type_named(e.dtype);
  const std::size_t blocks = e.bytes / type.bytes;
  std::vector<float> values(blocks * type.values);
  const std::byte* from = file_.bytes().data() + e.begin;
  for (std::size_t i = 0; i < blocks; ++i) type.read(from + i * type.bytes, values.data() + i * type.values);
  return values;
}

GRADUS_IMPL void gguf_file::fail(const std::string& what) const {
  throw error(path().string() + ": " + printable(what));  // names in the file may hold anything
}
GRADUS_IMPL void gguf_file::fail_key(std::string_view key) const {
  fail((has_key(key) ? "has a value of another type than is needed for '" : "has no key '") + std::string(key) + "'");
}

GRADUS_IMPL void gguf_writer::set(const std::string& key, gguf_value value) {
  if (std::ranges::find(metadata_, key, &std::pair<std::string, gguf_value>::first) != metadata_.end())
    throw error("gguf: the key '" + key + "' is taken");
  metadata_.emplace_back(key, std::move(value));
}

GRADUS_IMPL void gguf_writer::add(const std::string& name, const std::string& dtype, std::vector<std::size_t> shape,
                                  value_source values) {
  const auto fail = [&](const std::string& what) { throw error("gguf: '" + name + "' " + what); };
  if (name.size() > 63) fail("is a name of more than 63 bytes");
  if (std::ranges::find(parts_, name, &part::name) != parts_.end()) fail("is taken");
  if (dtype != "F32" && dtype != "F16" && dtype != "BF16" && dtype != "Q8_0")
    fail("is to be written as " + dtype + " where F32, F16, BF16 or Q8_0 is needed");
  if (shape.size() > 4) fail("has " + std::to_string(shape.size()) + " dimensions; 4 are the most");
  if (dtype == "Q8_0" && (shape.empty() || shape.back() % 32 != 0))
    fail("has the shape " + detail::shape_text(shape) + ", and Q8_0 stores 32 values together");
  parts_.push_back({name, dtype, std::move(shape), std::move(values)});
}

GRADUS_IMPL void gguf_writer::write(const std::filesystem::path& path) const {
  using detail::append_gguf;
  std::string head = "GGUF";
  append_gguf(head, std::uint32_t{3});
  append_gguf(head, static_cast<std::uint64_t>(parts_.size()));
  append_gguf(head, static_cast<std::uint64_t>(metadata_.size()));
  for (const auto& [key, value] : metadata_) {
    append_gguf(head, key);
    append_gguf(head, static_cast<std::uint32_t>(value.index()));
    std::visit([&](const auto& v) { append_gguf(head, v); }, value);
  }
  std::uint64_t at = 0;
  std::vector<std::size_t> counts;
  for (const part& p : parts_) {
    const detail::gguf_type& type = detail::gguf_type_named(p.dtype);
    std::uint64_t count = 1, ignored = 0;
    if (!detail::multiply_fits(p.shape, 1, count) || !detail::multiply_fits(count, type.bytes, ignored))
      throw error("gguf: '" + p.name + "': a tensor this large cannot exist");
    counts.push_back(count);
    append_gguf(head, p.name);
    append_gguf(head, static_cast<std::uint32_t>(p.shape.size()));
    for (std::size_t i = p.shape.size(); i-- > 0;) append_gguf(head, static_cast<std::uint64_t>(p.shape[i]));
    append_gguf(head, type.number);
    append_gguf(head, at);
    at = detail::aligned_up(at + count / type.values * type.bytes, detail::gguf_alignment);
  }
  atomic_file file(path);
  const auto write = [&](std::string bytes) {
    bytes.resize(detail::aligned_up(bytes.size(), detail::gguf_alignment), '\0');
    file.write(bytes);
  };
  write(std::move(head));
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const std::vector<float> values = parts_[i].values();
    if (values.size() != counts[i])
      throw error("gguf: '" + parts_[i].name + "' has " + std::to_string(values.size()) + " values for the shape " +
                  detail::shape_text(parts_[i].shape));
    write(detail::gguf_bytes(parts_[i].dtype, values));
  }
  file.commit();
}

}  // namespace gradus
