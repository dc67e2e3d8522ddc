#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "../core/parse_number.hpp"
#include "../core/printable.hpp"
#include "../io/atomic_file.hpp"
#include "npy.hpp"

namespace gradus::detail {

inline constexpr std::string_view npy_magic = "\x93NUMPY";
inline constexpr std::size_t longest_npy_header = 65535;

// The first type of a dtype is the one to write.
inline constexpr stored_type npy_types[] = {{"f8", "f64", 8},       {"f4", "f32", 4},  {"f2", "f16", 2},
                                            {"i8", "i64", 8},       {"i4", "i32", 4},  {"u2", "u16", 2},
                                            {"u1", "u8", 1},        {"b1", "bool", 1}, {"i2", "i32", 2, true},
                                            {"i1", "i32", 1, true}, {"u4", "i64", 4}};

/// Reads a header, the text of a Python dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
struct npy_header_reader {
  const std::filesystem::path& path;
  std::string_view rest;

  [[noreturn]] void fail(const std::string& what) const { throw error(path.string() + ": " + what); }
  [[noreturn]] void refuse_syntax() const {
    fail("is not a .npy file: its header is not the dictionary that NumPy writes");
  }

  bool accept(std::string_view text) {
    rest.remove_prefix(std::min(rest.find_first_not_of(" \n"), rest.size()));
    if (!rest.starts_with(text)) return false;
    rest.remove_prefix(text.size());
    return true;
  }
  void expect(std::string_view text) {
    if (!accept(text)) refuse_syntax();
  }
  std::string_view quoted() {
    const std::string_view quote = accept("'") ? "'" : "\"";
    if (quote == "\"") expect("\"");
    const std::size_t end = rest.find(quote);
    if (end == std::string_view::npos) refuse_syntax();
    const std::string_view text = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    return text;
  }
  void read_type(array_layout& to) {
    if (accept("[")) fail("holds structs; only arrays of numbers are read");
    const std::string_view descr = quoted();
    const auto* const type =
        std::ranges::find(npy_types, descr.substr(std::min<std::size_t>(descr.size(), 1)), &stored_type::name);
    if (type == std::end(npy_types) || std::string_view("<>|=").find(descr.front()) == std::string_view::npos)
      fail("holds elements of NumPy's type '" + printable(descr.substr(0, 40)) +
           "'; only f8 f4 f2 i8 i4 i2 i1 u4 u2 u1 b1 are read");
    to.type = *type;
    to.big_endian = descr.front() == '>';
  }
  void read_extents(array_layout& to) {
    expect("(");
    while (!accept(")")) {
      accept("");  // spaces
      const std::string_view digits = rest.substr(0, rest.find_first_not_of("0123456789"));
      const auto extent = parse_number<index_t>(digits);
      if (!extent) digits.empty() ? refuse_syntax() : fail("its header says an extent of " + std::string(digits));
      to.extents.push_back(*extent);
      rest.remove_prefix(digits.size());
      accept("L");  // Python 2 writes (2L, 3L)
      if (!accept(",") && !rest.starts_with(")")) refuse_syntax();
    }
  }
  void read(array_layout& to) {
    bool has_type = false, has_order = false, has_extents = false;
    expect("{");
    while (!accept("}")) {
      const std::string_view key = quoted();
      expect(":");
      if (key == "descr" && !std::exchange(has_type, true)) {
        read_type(to);
      } else if (key == "shape" && !std::exchange(has_extents, true)) {
        read_extents(to);
      } else if (key == "fortran_order" && !std::exchange(has_order, true)) {
        to.columns_first = accept("True");
        if (!to.columns_first) expect("False");
      } else {
        refuse_syntax();
      }
      if (!accept(",") && !rest.starts_with("}")) refuse_syntax();
    }
    accept("");
    if (!rest.empty() || !has_type || !has_order || !has_extents) refuse_syntax();
  }
};

GRADUS_IMPL array_layout npy_layout(const random_access_file& file) {
  const auto fail = [&](const std::string& what) { throw error(file.path().string() + ": " + what); };
  std::array<unsigned char, 12> head{};  // magic, version, and the header's length in 2 or 4 bytes
  file.read(0, std::as_writable_bytes(std::span(head).first(std::min(file.size(), head.size()))));
  if (!std::ranges::equal(npy_magic, std::span(head).first(npy_magic.size()),
                          [](char a, unsigned char b) { return static_cast<unsigned char>(a) == b; }))
    fail("is not a .npy file");
  if (file.size() < head.size()) fail("ends within its header");
  const unsigned version = head[6];
  if (version < 1 || version > 3)
    fail("has version " + std::to_string(version) + " of the .npy format; only 1, 2 and 3 are read");
  array_layout layout;
  layout.begin = version == 1 ? 10 : 12;
  std::size_t length = 0;
  for (std::size_t i = layout.begin; i-- > 8;) length = length << 8 | head[i];
  if (length > longest_npy_header)
    fail("has a header of " + std::to_string(length) + " bytes; that of an array of numbers has at most " +
         std::to_string(longest_npy_header));
  if (file.size() < layout.begin + length) fail("ends within its header");
  std::string header(length, '\0');
  file.read(layout.begin, std::as_writable_bytes(std::span(header)));
  layout.begin += length;
  npy_header_reader{file.path(), header}.read(layout);
  return layout;
}

GRADUS_IMPL void write_npy(const std::filesystem::path& path, std::string_view dtype, std::span<const index_t> extents,
                           std::span<const std::byte> values) {
  if (extents.size() > 32)
    throw error(path.string() + ": " + std::to_string(extents.size()) + " axes; arrays of NumPy 1 have at most 32");
  const auto& type = *std::ranges::find(npy_types, dtype, &stored_type::dtype);
  std::string header = std::string("{'descr': '") + (type.bytes == 1 ? '|' : '<') + std::string(type.name) +
                       "', 'fortran_order': False, 'shape': (";
  for (std::size_t i = 0; i < extents.size(); ++i)
    header.append(i == 0 ? "" : " ").append(std::to_string(extents[i])).append(i + 1 < extents.size() ? "," : "");
  header.append(extents.size() == 1 ? ",), }" : "), }");
  // NumPy leaves room for a first extent of 21 digits, and aligns the values to 64 bytes, by 1 to 64 spaces.
  if (!extents.empty()) header.append(21 - std::to_string(extents[0]).size(), ' ');
  const std::size_t before = npy_magic.size() + 4;
  header.append(64 - (before + header.size() + 1) % 64, ' ').append("\n");
  const unsigned char version_and_length[] = {1, 0, static_cast<unsigned char>(header.size()),
                                              static_cast<unsigned char>(header.size() >> 8)};
  atomic_file file(path);
  file.write(npy_magic);
  file.write(version_and_length, sizeof version_and_length);
  file.write(header);
  file.write(values.data(), values.size());
  file.commit();
}

}  // namespace gradus::detail
