#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <utility>

#include "../io/extents.hpp"
#include "../io/text_file.hpp"
#include "array_file.hpp"

namespace gradus {

GRADUS_IMPL array_file::array_file(const std::filesystem::path& path,
                                   detail::array_layout (*read_header)(const random_access_file&))
    : file_(path) {
  static_assert(std::endian::native == std::endian::little, "array_file: a little-endian machine is needed");
  std::array<std::byte, 8> head{};
  file_.read(0, std::span(head).first(std::min(file_.size(), head.size())));
  detail::refuse_other_formats(path, head);
  layout_ = read_header(file_);
  std::uint64_t bytes = 0;
  if (!detail::multiply_fits(layout_.extents, layout_.type.bytes, bytes))
    fail("its header says " + detail::array_text(dtype(), extents()) + ": an array this large cannot exist");
  if (const std::size_t there = file_.size() - layout_.begin; bytes != there)
    fail("its header says " + detail::array_text(dtype(), extents()) + ", that is " + std::to_string(bytes) +
         " bytes, and " + std::to_string(there) + " follow");
  size_ = static_cast<std::size_t>(bytes) / layout_.type.bytes;
}

GRADUS_IMPL void array_file::fail(const std::string& what) const { throw error(path().string() + ": " + what); }

GRADUS_IMPL void array_file::check(std::string_view dtype, std::span<const index_t> extents) const {
  detail::check_array(path().string(), layout_.type.dtype, layout_.extents, dtype, extents);
}

GRADUS_IMPL void array_file::read_elements(std::span<std::byte> to, std::size_t element_bytes) const {
  const auto& [type, extents, big_endian, columns_first, begin] = layout_;
  if (size_ == 0) return;
  if (type.bytes == element_bytes && !(big_endian && type.bytes > 1) && !columns_first) {
    file_.read(begin, to);
  } else {
    std::vector<std::byte> stored(size_ * type.bytes);
    file_.read(begin, stored);
    // `offset` walks through the stored numbers in row-major order of their indices `at`.
    const std::size_t rank = extents.size();
    std::vector<index_t> at(rank), stride(rank);  // in bytes
    for (index_t axis = 0, step = type.bytes; axis < rank; ++axis) {
      const index_t a = columns_first ? axis : rank - 1 - axis;
      stride[a] = step;
      step *= extents[a];
    }
    std::size_t offset = 0;
    for (std::size_t i = 0; i < size_; ++i) {
      const std::byte* const from = stored.data() + offset;
      std::byte* const element = to.data() + i * element_bytes;
      if (big_endian) std::reverse_copy(from, from + type.bytes, element);
      else std::copy_n(from, type.bytes, element);
      const bool negative = type.has_sign && (element[type.bytes - 1] & std::byte{0x80}) != std::byte{};
      std::fill(element + type.bytes, element + element_bytes, negative ? std::byte{0xff} : std::byte{});
      for (index_t axis = rank; axis-- > 0;) {
        offset += stride[axis];
        if (++at[axis] < extents[axis]) break;
        offset -= std::exchange(at[axis], 0) * stride[axis];
      }
    }
  }
  if (type.dtype != dtype_name<bool>()) return;
  if (const auto bad = std::ranges::find_if(to, [](std::byte b) { return b > std::byte{1}; }); bad != to.end())
    fail("element " + std::to_string(bad - to.begin()) + " is the byte " + std::to_string(std::to_integer<int>(*bad)) +
         "; a boolean is 0 or 1");
}

}  // namespace gradus
