#pragma once
// IDX files, the format of MNIST.

#include <filesystem>

#include "array_file.hpp"

namespace gradus {

namespace detail {
array_layout idx_layout(const random_access_file& file);
}

/// An open IDX file: a big-endian array of uint8, int8, int16, int32, float or double. Throws gradus::error like
/// array_file, and for a file that gzip compressed: unpack it first.
class idx_file : public array_file {
 public:
  explicit idx_file(const std::filesystem::path& path) : array_file(path, detail::idx_layout) {}
};

/// Reads an IDX file of any extents. Throws gradus::error like idx_file, and unless T is its dtype.
template <class T>
host_array<T> read_idx(const std::filesystem::path& path) {
  return idx_file(path).read<T>();
}

/// Reads an IDX file as a tensor on ctx's device. Throws gradus::error like idx_file, and unless T is its dtype and
/// Shape has its extents.
template <class T, class Shape, class D>
tensor<T, Shape, D> read_idx(context<D>& ctx, const std::filesystem::path& path, category what = category::activation) {
  return idx_file(path).read<T, Shape>(ctx, what);
}

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "idx.ipp"
#endif
