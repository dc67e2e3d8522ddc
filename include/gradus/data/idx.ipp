#pragma once
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "idx.hpp"

namespace gradus::detail {

GRADUS_IMPL array_layout idx_layout(const random_access_file& file) {
  const auto fail = [&](const std::string& what) { throw error(file.path().string() + ": " + what); };
  std::array<unsigned char, 4> head{};  // 0, 0, the type's code, the number of axes
  if (file.size() < head.size()) fail("is too short for an IDX file");
  file.read(0, std::as_writable_bytes(std::span(head)));
  if (head[0] != 0 || head[1] != 0) fail("is not an IDX file: it does not begin with two zero bytes");
  array_layout layout;
  layout.big_endian = true;
  switch (head[2]) {
    case 0x08:
      layout.type = {"uint8", "u8", 1};
      break;
    case 0x09:
      layout.type = {"int8", "i32", 1, true};
      break;
    case 0x0B:
      layout.type = {"int16", "i32", 2, true};
      break;
    case 0x0C:
      layout.type = {"int32", "i32", 4};
      break;
    case 0x0D:
      layout.type = {"float", "f32", 4};
      break;
    case 0x0E:
      layout.type = {"double", "f64", 8};
      break;
    default:
      fail("is not an IDX file: its element type has the code " + std::to_string(head[2]) +
           "; known are 8, 9, 11, 12, 13, 14");
  }
  std::vector<unsigned char> extents(4 * std::size_t{head[3]});
  layout.begin = head.size() + extents.size();
  if (file.size() < layout.begin) fail("ends within its header");
  file.read(head.size(), std::as_writable_bytes(std::span(extents)));
  for (std::size_t i = 0; i < extents.size(); i += 4) {
    index_t extent = 0;
    for (std::size_t k = 0; k < 4; ++k) extent = extent << 8 | extents[i + k];
    layout.extents.push_back(extent);
  }
  return layout;
}

}  // namespace gradus::detail
