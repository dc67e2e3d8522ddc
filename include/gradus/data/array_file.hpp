#pragma once
// Files that hold one array of numbers: what .npy and IDX files have in common.

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../core/config.hpp"
#include "../core/dtype.hpp"
#include "../core/error.hpp"
#include "../io/random_access_file.hpp"
#include "host_array.hpp"

namespace gradus {

namespace detail {

/// How a file stores numbers, and the element type in which they are read.
struct stored_type {
  std::string_view name;   ///< the format's own
  std::string_view dtype;  ///< of the elements: "f32"
  std::size_t bytes = 0;   ///< of a stored number
  bool has_sign = false;   ///< a stored integer, shorter than the element, is signed
};

/// What the header of a file says.
struct array_layout {
  stored_type type;
  std::vector<index_t> extents;
  bool big_endian = false;
  bool columns_first = false;  ///< the first axis varies fastest, as in Fortran
  std::size_t begin = 0;       ///< offset of the values
};

}  // namespace detail

/// An open file of one array. Its constructor checks the header, and that the file has exactly the bytes that the
/// header promises, before anything is allocated. Values are read on request; the file must not change until then.
///
/// Throws gradus::error with the file's name and one line.
class array_file {
 public:
  const std::filesystem::path& path() const { return file_.path(); }
  std::span<const index_t> extents() const { return layout_.extents; }
  /// The element type of the values as they are read: "f32", as dtype_name<float>(). Integers of a type without tensors
  /// are read as the next longer one: int8 and int16 as i32, uint32 as i64.
  std::string_view dtype() const { return layout_.type.dtype; }

  /// Reads all values, row-major. Throws gradus::error unless T is the file's dtype.
  template <class T>
  host_array<T> read() const {
    check(dtype_name<T>(), layout_.extents);
    host_array<T> array{layout_.extents, std::vector<typename host_array<T>::stored>(size_)};
    read_elements(std::as_writable_bytes(std::span(array.values)), sizeof(T));
    return array;
  }
  /// Reads all values as a tensor. Throws gradus::error unless T is the file's dtype and Shape has its extents.
  template <class T, class Shape, class D>
  tensor<T, Shape, D> read(context<D>& ctx, category what = category::activation) const {
    check(dtype_name<T>(), Shape::in_type);
    return detail::tensor_from_array<Shape>(ctx, path().string(), read<T>(), what);
  }

 protected:
  array_file(const std::filesystem::path& path, detail::array_layout (*read_header)(const random_access_file&));

 private:
  [[noreturn]] void fail(const std::string& what) const;
  void check(std::string_view dtype, std::span<const index_t> extents) const;
  void read_elements(std::span<std::byte> to, std::size_t element_bytes) const;

  random_access_file file_;
  detail::array_layout layout_;
  std::size_t size_ = 0;  // number of elements
};

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "array_file.ipp"
#endif
