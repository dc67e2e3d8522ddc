#pragma once
// NumPy's .npy files, read and written.

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>

#include "array_file.hpp"

namespace gradus {

namespace detail {
array_layout npy_layout(const random_access_file& file);
void write_npy(const std::filesystem::path& path, std::string_view dtype, std::span<const index_t> extents,
               std::span<const std::byte> values);
}  // namespace detail

/// An open .npy file, of format version 1, 2 or 3, either byte order, and C or Fortran order. Throws gradus::error for
/// other element types (complex numbers, texts, structs, objects), and otherwise like array_file.
class npy_file : public array_file {
 public:
  explicit npy_file(const std::filesystem::path& path) : array_file(path, detail::npy_layout) {}
};

/// Reads a .npy file of any extents. Throws gradus::error like npy_file, and unless T is its dtype.
template <class T>
host_array<T> read_npy(const std::filesystem::path& path) {
  return npy_file(path).read<T>();
}

/// Reads a .npy file as a tensor on ctx's device. Throws gradus::error like npy_file, and unless T is its dtype and
/// Shape has its extents.
template <class T, class Shape, class D>
tensor<T, Shape, D> read_npy(context<D>& ctx, const std::filesystem::path& path, category what = category::activation) {
  return npy_file(path).read<T, Shape>(ctx, what);
}

/// Writes an array as the .npy file that NumPy's np.save writes, byte for byte, atomically (see atomic_file). Throws
/// gradus::error if it cannot be written, or if the number of values does not match the extents.
template <class T>
void write_npy(const std::filesystem::path& path, const host_array<T>& array) {
  static_assert(!std::is_same_v<T, bf16>, "write_npy: NumPy has no bf16; convert the values to float");
  detail::check_array_values("write_npy: the array", array.extents, array.values.size());
  detail::write_npy(path, dtype_name<T>(), array.extents, std::as_bytes(std::span(array.values)));
}

/// Writes a tensor as the .npy file that np.save writes, atomically; waits for the device. Throws gradus::error if the
/// file cannot be written, or t is empty.
template <class T, class Shape, class D>
void write_npy(const std::filesystem::path& path, const tensor<T, Shape, D>& t) {
  static_assert(!std::is_same_v<T, bf16>, "write_npy: NumPy has no bf16; write gr::cast<float>(x)");
  t.check_present();
  const auto& extents = t.extents();
  const auto host = std::make_unique<T[]>(extents.size);
  device_access<D>::download(t.owner(), host.get(), t.data(), extents.size * sizeof(T));
  detail::write_npy(path, dtype_name<T>(), extents.extents, std::as_bytes(std::span(host.get(), extents.size)));
}

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "npy.ipp"
#endif
