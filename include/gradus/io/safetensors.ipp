#pragma once
#include <bit>
#include <system_error>
#include <utility>

#include "../core/printable.hpp"
#include "atomic_file.hpp"
#include "crc32c.hpp"
#include "extents.hpp"
#include "json.hpp"
#include "safetensors.hpp"

namespace gradus {

namespace detail {

inline constexpr std::uint64_t longest_safetensors_header = 10'000'000;

GRADUS_IMPL std::size_t safetensors_element_bits(std::string_view dtype) {
  if (dtype == "F64" || dtype == "I64" || dtype == "U64" || dtype == "C64") return 64;
  if (dtype == "F32" || dtype == "I32" || dtype == "U32") return 32;
  if (dtype == "F16" || dtype == "BF16" || dtype == "I16" || dtype == "U16") return 16;
  if (dtype == "F6_E2M3" || dtype == "F6_E3M2") return 6;
  if (dtype == "F4") return 4;
  for (const char* eight : {"I8", "U8", "BOOL", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"})
    if (dtype == eight) return 8;
  return 0;
}

GRADUS_IMPL std::string safetensors_dtype(std::string_view ours) {
  std::string name(ours);
  for (char& c : name)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return name;
}

// `"crc32c":"00000000"` in a header, replaced by the checksum.
inline constexpr std::string_view safetensors_checksum_key = "crc32c", safetensors_no_checksum = "00000000";
GRADUS_IMPL std::size_t find_safetensors_checksum(std::string_view header, std::string_view digits) {
  const std::string before = std::string("\"").append(safetensors_checksum_key).append("\":\"");
  const std::size_t at = header.find(std::string(before).append(digits).append("\""));
  return at == std::string_view::npos ? at : at + before.size();
}
GRADUS_IMPL std::string hexadecimal(std::uint32_t value) {
  std::string text(8, '0');
  for (std::size_t i = 0; i < 8; ++i) text[7 - i] = "0123456789abcdef"[(value >> (4 * i)) & 15u];
  return text;
}

}  // namespace detail

GRADUS_IMPL safetensors_file::safetensors_file(std::filesystem::path path) : path_(std::move(path)) {
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
    fail("is not a safetensors file: its header would have more than 10 MB");
  if (header_bytes > file_bytes - 8) fail("ends within its header");
  std::string header(header_bytes, '\0');
  read_at(8, header.data(), header.size());
  data_ = 8 + header_bytes;
  parse(header);
  check_layout(file_bytes - data_);
}

GRADUS_IMPL void safetensors_file::check_checksum() {
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

GRADUS_IMPL bool safetensors_file::has(std::string_view name) const { return entries_.find(name) != entries_.end(); }

GRADUS_IMPL const safetensors_entry& safetensors_file::entry(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) fail("has no tensor '" + std::string(name) + "'");
  return found->second;
}

GRADUS_IMPL void safetensors_file::check(std::string_view name, std::string_view dtype,
                                         std::span<const std::size_t> shape) const {
  stored_as(name, dtype);
  check_shape(name, shape);
}

GRADUS_IMPL void safetensors_file::read_bytes(std::string_view name, std::string_view dtype, std::span<std::byte> to) {
  const safetensors_entry& e = stored_as(name, dtype);
  if (e.end - e.begin != to.size())
    fail(quoted(name) + " has " + std::to_string(e.end - e.begin) + " bytes where " + std::to_string(to.size()) +
         " are needed");
  read_at(data_ + e.begin, to.data(), to.size());
}

GRADUS_IMPL void safetensors_file::read_bytes(std::string_view name, std::string_view dtype, std::size_t begin,
                                              std::span<std::byte> to) {
  const safetensors_entry& e = stored_as(name, dtype);
  const std::size_t bytes = e.end - e.begin;
  if (begin > bytes || to.size() > bytes - begin)
    fail(quoted(name) + " has " + std::to_string(bytes) + " bytes where " + std::to_string(to.size()) + " from byte " +
         std::to_string(begin) + " on are needed");
  read_at(data_ + e.begin + begin, to.data(), to.size());
}

GRADUS_IMPL const safetensors_entry& safetensors_file::stored_as(std::string_view name, std::string_view dtype) const {
  const safetensors_entry& e = entry(name);
  if (e.dtype != dtype) fail(quoted(name) + " is stored as " + e.dtype + " where " + std::string(dtype) + " is needed");
  return e;
}

GRADUS_IMPL void safetensors_file::check_floating(std::string_view name, std::string_view dtype) const {
  const std::string& stored = entry(name).dtype;
  if (stored != "F64" && stored != "F32" && stored != "BF16" && stored != "F16")
    fail(quoted(name) + " is stored as " + stored + ", which is not a floating-point type to convert to " +
         std::string(dtype));
}

GRADUS_IMPL void safetensors_file::check_shape(std::string_view name, std::span<const std::size_t> shape) const {
  const safetensors_entry& e = entry(name);
  if (!std::ranges::equal(e.shape, shape))
    fail(quoted(name) + " has the shape " + detail::shape_text(e.shape) + " where " + detail::shape_text(shape) +
         " is needed");
}

GRADUS_IMPL std::string safetensors_file::quoted(std::string_view name) {
  return std::string("'").append(name).append("'");
}

GRADUS_IMPL void safetensors_file::fail(const std::string& what) const {
  throw error(path_.string() + ": " + printable(what));  // names in the file may hold anything
}

GRADUS_IMPL void safetensors_file::read_at(std::uint64_t position, void* to, std::size_t bytes) {
  in_.seekg(static_cast<std::streamoff>(position));
  if (!in_.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes))) fail("cannot be read to its end");
}

/// Reads the header's JSON into a safetensors_file.
struct safetensors_file::json_reader {
  safetensors_file& file;

  void read(const std::string& header) {
    // The format forbids duplicate names.
    detail::strict_json_builder builder;
    const bool parsed_all = builder.parse(header);
    if (!builder.twice.empty()) file.fail(quoted(builder.twice) + " occurs twice");
    // A writer pads with spaces at the end only.
    const nlohmann::json& parsed = builder.result;
    if (!parsed_all || !parsed.is_object() || header.front() != '{')
      file.fail("is not a safetensors file: its header is not a JSON object");
    for (const auto& item : parsed.items()) {
      if (item.key() == "__metadata__") read_metadata(item.value());
      else file.entries_.emplace(item.key(), read_entry(item.key(), item.value()));
    }
  }
  void read_metadata(const nlohmann::json& texts) {
    if (!texts.is_object()) file.fail("'__metadata__' is not a JSON object");
    for (const auto& item : texts.items()) {
      if (!item.value().is_string()) file.fail("'__metadata__': " + quoted(item.key()) + " is not a string");
      file.metadata_.emplace(item.key(), item.value().get<std::string>());
    }
  }
  safetensors_entry read_entry(const std::string& name, const nlohmann::json& from) const {
    const auto whole_numbers = [&](const char* key) {
      if (!from.contains(key) || !from[key].is_array()) file.fail(quoted(name) + " has no list '" + key + "'");
      std::vector<std::size_t> numbers;
      for (const auto& number : from[key]) {
        if (!number.is_number_unsigned()) file.fail(quoted(name) + ": '" + key + "' must hold whole numbers");
        numbers.push_back(number.get<std::size_t>());
      }
      return numbers;
    };
    if (!from.is_object()) file.fail(quoted(name) + " is not a JSON object");
    if (!from.contains("dtype") || !from["dtype"].is_string()) file.fail(quoted(name) + " has no 'dtype'");
    safetensors_entry e;
    e.dtype = from["dtype"].get<std::string>();
    e.shape = whole_numbers("shape");
    const auto offsets = whole_numbers("data_offsets");
    if (offsets.size() != 2 || offsets[0] > offsets[1])
      file.fail(quoted(name) + ": 'data_offsets' must hold a begin and an end");
    e.begin = offsets[0];
    e.end = offsets[1];

    const std::size_t bits_each = detail::safetensors_element_bits(e.dtype);
    std::uint64_t bits = 0;
    if (bits_each == 0) file.fail(quoted(name) + " has the unknown dtype '" + e.dtype + "'");
    if (!detail::multiply_fits(e.shape, bits_each, bits))
      file.fail(quoted(name) + ": a tensor this large cannot exist");
    if (bits % 8 != 0)
      file.fail(quoted(name) + " has the dtype " + e.dtype + ", and its values do not fill whole bytes");
    const std::uint64_t bytes = bits / 8;
    if (bytes != e.end - e.begin)
      file.fail(quoted(name) + " has " + std::to_string(e.end - e.begin) + " bytes; its shape and dtype need " +
                std::to_string(bytes));
    return e;
  }
};

GRADUS_IMPL void safetensors_file::parse(const std::string& header) { json_reader{*this}.read(header); }

GRADUS_IMPL void safetensors_file::check_layout(std::uint64_t data_bytes) const {
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
    fail("holds " + std::to_string(data_bytes) + " bytes of values; its header describes " + std::to_string(at));
}

GRADUS_IMPL void safetensors_writer::add_checksum() {
  metadata_[std::string(detail::safetensors_checksum_key)] = detail::safetensors_no_checksum;
}

GRADUS_IMPL void safetensors_writer::add_bytes(std::string_view name, const std::string& dtype,
                                               std::span<const std::size_t> shape, std::size_t count,
                                               std::span<const std::byte> bytes) {
  add_parts(name, dtype, shape, count, [bytes](const byte_sink& sink) { sink(bytes); });
}

GRADUS_IMPL void safetensors_writer::add_parts(std::string_view name, const std::string& dtype,
                                               std::span<const std::size_t> shape, std::size_t count,
                                               byte_source source) {
  std::uint64_t needed = 1;
  if (!detail::multiply_fits(shape, 1, needed))
    throw error("safetensors: '" + std::string(name) + "': a tensor this large cannot exist");
  if (needed != count)
    throw error("safetensors: '" + std::string(name) + "' has " + std::to_string(count) + " values for the shape " +
                detail::shape_text(shape));
  if (name == "__metadata__" || !names_.insert(std::string(name)).second)
    throw error("safetensors: the name '" + std::string(name) + "' is taken");
  parts_.push_back({std::string(name),
                    dtype,
                    {shape.begin(), shape.end()},
                    count * detail::safetensors_element_bits(dtype) / 8,
                    std::move(source)});
}

GRADUS_IMPL void safetensors_writer::write(const std::filesystem::path& path,
                                           const std::function<void()>& before_rename) const {
  write(path, parts_, before_rename);
}

GRADUS_IMPL void safetensors_writer::write_shards(const std::filesystem::path& folder, std::size_t most_bytes) const {
  std::vector<std::span<const part>> shards;
  std::size_t first = 0, all_bytes = 0;
  for (std::size_t i = 0, bytes = 0; i < parts_.size(); ++i) {
    if (i > first && bytes + parts_[i].bytes > most_bytes) {
      shards.push_back(std::span(parts_).subspan(first, i - first));
      first = i;
      bytes = 0;
    }
    bytes += parts_[i].bytes;
    all_bytes += parts_[i].bytes;
  }
  if (shards.empty()) return write(folder / "model.safetensors");
  shards.push_back(std::span(parts_).subspan(first));
  const auto numbered = [](std::size_t n) {
    const std::string digits = std::to_string(n);
    return std::string(5 - std::min<std::size_t>(digits.size(), 5), '0') + digits;
  };
  nlohmann::ordered_json places;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name = "model-" + numbered(i + 1) + "-of-" + numbered(shards.size()) + ".safetensors";
    write(folder / name, shards[i], nullptr);
    for (const part& p : shards[i]) places[p.name] = name;
  }
  const nlohmann::ordered_json index{{"metadata", {{"total_size", all_bytes}}}, {"weight_map", places}};
  write_file_atomically(folder / "model.safetensors.index.json", index.dump(2) + "\n");
}

GRADUS_IMPL void safetensors_writer::write(const std::filesystem::path& path, std::span<const part> parts,
                                           const std::function<void()>& before_rename) const {
  std::string text = "{";
  const auto add = [&](const std::string& name, const std::string& value) {
    text.append(text.size() > 1 ? "," : "").append(nlohmann::json(name).dump()).append(":").append(value);
  };
  if (!metadata_.empty()) add("__metadata__", nlohmann::json(metadata_).dump());
  std::size_t at = 0;
  for (const part& p : parts) {
    const std::size_t begin = std::exchange(at, at + p.bytes);
    add(p.name, "{\"dtype\":\"" + p.dtype + "\",\"shape\":" + nlohmann::json(p.shape).dump() + ",\"data_offsets\":[" +
                    std::to_string(begin) + "," + std::to_string(at) + "]}");
  }
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  const std::size_t checksum = detail::find_safetensors_checksum(text, detail::safetensors_no_checksum);
  atomic_file file(path);
  crc32c sum;
  const auto write = [&](std::span<const std::byte> bytes) {
    // Part by part, so that the CRC reads from the cache.
    for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), std::size_t{1} << 18))) {
      const auto piece = bytes.first(std::min(bytes.size(), std::size_t{1} << 18));
      if (checksum != std::string::npos) sum.add(piece);
      file.write(piece.data(), piece.size());
    }
  };
  file.write(&length, 8);
  write(std::as_bytes(std::span(text)));
  for (const part& p : parts) {
    std::size_t written = 0;
    p.source([&](std::span<const std::byte> bytes) {
      write(bytes);
      written += bytes.size();
    });
    if (written != p.bytes)
      throw error("safetensors: '" + p.name + "' has " + std::to_string(written) + " bytes where " +
                  std::to_string(p.bytes) + " are needed");
  }
  if (checksum != std::string::npos) file.overwrite(8 + checksum, detail::hexadecimal(sum.value()).data(), 8);
  file.commit(before_rename);
}

}  // namespace gradus
