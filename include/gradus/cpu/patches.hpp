#pragma once
// Images as matrices of patches, which are not in memory as such: where their elements are.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "../core/config.hpp"
#include "../core/extent.hpp"
#include "convert.hpp"
#include "transpose.hpp"

namespace gradus::cpu_kit::inline GRADUS_BUILD {

/// One axis of the patches of an image: tap t of position p is at p * stride + first + t * step.
struct patch_axis {
  index_t extent = 1;                  ///< of the image
  index_t taps = 1;                    ///< of a patch
  std::ptrdiff_t first = 0, step = 1;  ///< the first tap of position 0, and from tap to tap
  index_t stride = 1, positions = 1;   ///< from position to position, and their number

  /// True if the positions are the elements of the axis.
  constexpr bool is_whole() const { return taps == 1 && first == 0 && stride == 1 && positions == extent; }
};

/// Images as a matrix: row (channel, tap along y, tap along x), column (image, position along y, position along x). Its
/// elements outside an image are 0.
template <class S>
struct patch_matrix {
  S* data;
  index_t channels, image;  ///< channels of a patch, and elements from image to image
  patch_axis y, x;

  index_t plane() const { return y.extent * x.extent; }
  index_t rows() const { return channels * y.taps * x.taps; }
  index_t positions() const { return y.positions * x.positions; }
  /// This matrix with rows as long as possible.
  patch_matrix flattened() const {
    if (!y.is_whole() || !x.is_whole()) return *this;
    patch_matrix flat = *this;
    flat.x.extent = flat.x.positions = plane();
    flat.y.extent = flat.y.positions = 1;
    return flat;
  }
};

/// A row of a matrix of patches: each element is `offset` behind its column's place, for taps number y and x.
struct patch_row {
  std::ptrdiff_t offset;
  std::uint32_t y, x;
};
/// Row number `row`; that behind the last is 0.
template <class S>
patch_row row_of(const patch_matrix<S>& of, index_t row) {
  if (row >= of.rows()) return {0, static_cast<std::uint32_t>(of.y.taps), static_cast<std::uint32_t>(of.x.taps)};
  const index_t x = row % of.x.taps, y = row / of.x.taps % of.y.taps, channel = row / of.x.taps / of.y.taps;
  const auto along = [](index_t tap, const patch_axis& axis) { return static_cast<std::ptrdiff_t>(tap) * axis.step; };
  return {static_cast<std::ptrdiff_t>(channel * of.plane()) +
              along(y, of.y) * static_cast<std::ptrdiff_t>(of.x.extent) + along(x, of.x),
          static_cast<std::uint32_t>(y), static_cast<std::uint32_t>(x)};
}

/// Adjacent columns of a matrix of patches, in groups of Width: their places, and which of their taps are within the
/// image. It takes memory from its user.
template <index_t Width>
class patch_columns {
 public:
  /// Columns that are `spacing` apart in memory: lane l is at offset + l * spacing, and bit l * spacing of `lanes` set.
  struct run {
    std::ptrdiff_t offset;
    std::uint32_t lanes;
  };
  struct group {
    index_t runs;
    run at[Width];
  };

  template <class S>
  static std::size_t bytes(const patch_matrix<S>& of, index_t columns) {
    const std::size_t masks = (of.y.taps + of.x.taps + 2) * sizeof(std::uint32_t);
    return ((columns + Width - 1) / Width * (sizeof(group) + masks) + 127) / 64 * 64;
  }

  /// Describes columns first .. first + count - 1, in `groups` groups or more, the last ones empty.
  template <class S>
  void describe(const patch_matrix<S>& of, index_t first, index_t count, index_t groups, void* memory) {
    groups_ = static_cast<group*>(memory);
    count_ = groups;
    masks_ = reinterpret_cast<std::uint32_t*>(groups_ + groups);
    of_y_ = of.y.taps + 1;
    of_both_ = of_y_ + of.x.taps + 1;
    spacing_ = of.x.stride == 2 && Width * 2 <= 32 ? 2 : 1;
    const index_t positions = of.positions();
    index_t image = first / positions, y = first % positions / of.x.positions, x = first % of.x.positions;
    for (index_t g = 0; g < groups; ++g) {
      group& to = groups_[g];
      std::uint32_t* const masks = masks_ + g * of_both_;
      to.runs = 0;
      to.at[0] = {0, 0};
      std::fill_n(masks, of_both_, 0u);
      const index_t lanes = std::min(Width, count - std::min(count, g * Width));
      for (index_t l = 0; l < lanes; ++l) {
        const std::uint32_t bit = std::uint32_t{1} << l * spacing_;
        const std::ptrdiff_t at_y = mark(of.y, y, bit, masks), at_x = mark(of.x, x, bit, masks + of_y_);
        const std::ptrdiff_t offset = static_cast<std::ptrdiff_t>(image * of.image) +
                                      at_y * static_cast<std::ptrdiff_t>(of.x.extent) + at_x -
                                      static_cast<std::ptrdiff_t>(l * spacing_);
        if (l == 0 || offset != to.at[to.runs - 1].offset) to.at[to.runs++] = {offset, 0};
        to.at[to.runs - 1].lanes |= bit;
        if (++x < of.x.positions) continue;
        x = 0;
        if (++y < of.y.positions) continue;
        y = 0;
        ++image;
      }
    }
  }

  /// Loads the elements of a row in group g.
  template <class S>
  GRADUS_INLINE void load(const S* data, const patch_row& row, index_t g, S (&to)[Width]) const {
    const group& from = groups_[g];
    const std::uint32_t* const masks = masks_ + g * of_both_;
    const std::uint32_t inside = masks[row.y] & masks[of_y_ + row.x];
    const S* const later = data + (groups_[std::min(g + ahead, count_ - 1)].at[0].offset + row.offset);
    __builtin_prefetch(later);
    if (spacing_ == 2) __builtin_prefetch(later + Width);
    words_of<S> x = read(data + (from.at[0].offset + row.offset), inside & from.at[0].lanes);
    for (index_t r = 1; r < from.runs; ++r)
      x |= read(data + (from.at[r].offset + row.offset), inside & from.at[r].lanes);
    std::memcpy(static_cast<void*>(to), &x, sizeof x);
  }
  /// Loads and stores the elements of group g of a matrix with one tap, for a row that begins at `data`.
  template <class S>
  GRADUS_INLINE void load(const S* data, index_t g, S (&to)[Width]) const {
    load(data, {0, 0, 0}, g, to);
  }
  template <class S>
  GRADUS_INLINE void store(const S (&from)[Width], index_t g, S* data) const {
    words_of<S> x;
    std::memcpy(&x, static_cast<const void*>(from), sizeof x);
    for (index_t r = 0; r < groups_[g].runs; ++r) {
      const run& to = groups_[g].at[r];
      if (spacing_ == 1) {
        write_lanes<Width>(x, to.lanes, data + to.offset);
      } else {
        words_of<S> low, high;
        detail::riffle<0>(x, x, low, all);
        detail::riffle<Width / 2>(x, x, high, all);
        write_lanes<Width>(low, to.lanes & first_half, data + to.offset);
        write_lanes<Width>(high, to.lanes >> (Width % 32), data + to.offset + Width);
      }
    }
  }

 private:
  template <class S>
  using words_of = typename vector_of<detail::word_of<S>, Width>::type;
  static constexpr index_t ahead = 4;  // groups from a load to its prefetch: two panels of the products
  static constexpr auto all = std::make_index_sequence<Width>{};
  static constexpr std::uint32_t first_half = static_cast<std::uint32_t>((std::uint64_t{1} << Width) - 1);

  // The lanes of a run; the others are 0.
  template <class S>
  GRADUS_INLINE words_of<S> read(const S* from, std::uint32_t which) const {
    words_of<S> x, high;
    read_lanes<Width>(from, which & first_half, x);
    if (spacing_ == 1) return x;
    read_lanes<Width>(from + Width, which >> (Width % 32), high);
    detail::every_other<0>(x, high, x, all);
    return x;
  }
  // Sets the bit of a lane at this position for each tap that is within the image; returns the position's place.
  static std::ptrdiff_t mark(const patch_axis& axis, index_t position, std::uint32_t bit, std::uint32_t* masks) {
    const std::ptrdiff_t place = static_cast<std::ptrdiff_t>(position * axis.stride) + axis.first;
    for (index_t t = 0; t < axis.taps; ++t)
      if (static_cast<index_t>(place + static_cast<std::ptrdiff_t>(t) * axis.step) < axis.extent) masks[t] |= bit;
    return place;
  }

  group* groups_ = nullptr;
  std::uint32_t* masks_ = nullptr;  // of each group: of taps along y, 0, of taps along x, 0
  index_t count_ = 0, of_y_ = 0, of_both_ = 0, spacing_ = 1;
};

}  // namespace gradus::cpu_kit::inline GRADUS_BUILD
