#pragma once
// Random changes of images that keep what they show, by key.

#include <algorithm>
#include <cstddef>
#include <string>

#include "../core/error.hpp"
#include "../core/extent.hpp"
#include "../core/philox.hpp"
#include "host_array.hpp"

namespace gradus {

/// Options of shift_and_flip.
struct shift_and_flip_options {
  index_t shift = 0;  ///< the most rows and columns by which an image moves, in either direction
  bool flip = false;  ///< mirrors every second image or so, left and right exchanged
};

/// Images [N, H, W] or [N, C, H, W], each moved by as many rows and columns as its key draws, 0 where nothing moved in,
/// and mirrored or not. Image i of the array is a pure function of the key and i. Throws gradus::error unless there are
/// three or four axes, with values for their extents.
template <class T>
host_array<T> shift_and_flip(const host_array<T>& images, const shift_and_flip_options& options,
                             const random_key& key) {
  const std::size_t rank = images.extents.size();
  if (rank != 3 && rank != 4)
    throw error("shift_and_flip: images have 3 axes, [N, H, W], or 4, [N, C, H, W], not " + std::to_string(rank));
  detail::check_array_values("shift_and_flip: the images", images.extents, images.values.size());
  const index_t height = images.extents[rank - 2], width = images.extents[rank - 1];
  const index_t planes = rank == 3 ? 1 : images.extents[1], reach = 2 * options.shift + 1;
  host_array<T> made{images.extents, {}};
  made.values.resize(images.values.size());
  for (index_t i = 0; i < images.extents[0]; ++i) {
    const auto words = key.words(i);
    const index_t down = words[0] % reach, right = words[1] % reach;  // and back by options.shift
    const bool flip = options.flip && words[2] % 2 == 1;
    for (index_t row = 0; row < planes * height; ++row) {
      const index_t from_y = row % height + options.shift - down;  // above the image: huge
      if (from_y >= height) continue;
      const T* const from = images.values.data() + (i * planes + row / height) * height * width + from_y * width;
      T* const to = made.values.data() + (i * planes * height + row) * width;
      for (index_t x = 0; x < width; ++x) {
        const index_t from_x = (flip ? width - 1 - x : x) + options.shift - right;
        if (from_x < width) to[x] = from[from_x];
      }
    }
  }
  return made;
}

}  // namespace gradus
