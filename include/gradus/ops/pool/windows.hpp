#pragma once
// The windows of a pooling along one axis.

#include "../../core/config.hpp"
#include "../../core/extent.hpp"
#include "../../core/per_axis.hpp"

namespace gradus {

/// Windows of max_pool2d and its like, for both axes of an image: `pool{.size = {2, 3}}` are of 2 rows and 3 columns.
/// Windows of a sequence (max_pool1d) read the second number of each pair.
struct pool {
  per_axis size = 1;
  per_axis stride = 0;   ///< from a window to the next; 0: size, windows side by side
  per_axis padding = 0;  ///< entries on each side of the image
};

/// Windows along one axis: of `size` entries, `stride` apart; or, if `outputs` is not 0, that many windows that divide
/// the axis as evenly as they can.
struct pool_rule {
  index_t size = 1, stride = 1, padding = 0, outputs = 0;
};

/// The windows along an axis of `entries` entries. Those that divide it, if `adaptive`, do so as evenly as they can: of
/// m windows and n entries, window i has the entries floor(i n / m) .. ceil((i + 1) n / m) - 1, as in PyTorch.
/// @tparam Count type of entries: GPUs count in 32 bits
template <class Count>
struct basic_pool_windows {
  Count entries, outputs, size, stride, padding;
  bool adaptive;

  /// In an adaptive pooling `size` is the length of the longest window, or one more.
  static constexpr basic_pool_windows of(const pool_rule& r, index_t n) {
    if (r.outputs == 0) return {n, (n + 2 * r.padding - r.size) / r.stride + 1, r.size, r.stride, r.padding, false};
    return {n, r.outputs, n % r.outputs == 0 ? n / r.outputs : n / r.outputs + 2, 0, 0, true};
  }

  /// The first entry of window i, and the one after its last. Padding has no entries.
  GRADUS_HD constexpr Count begin(Count i) const {
    if (adaptive) return ratio(i, entries, outputs);
    return i * stride < padding ? 0 : i * stride - padding;
  }
  GRADUS_HD constexpr Count end(Count i) const {
    if (adaptive) return ratio(i + 1, entries, outputs, outputs - 1);
    const Count last = i * stride + size - padding;
    return last < entries ? last : entries;
  }
  /// The number of entry e in window i, padding included, and the entry of that number.
  GRADUS_HD constexpr Count number_of(Count e, Count i) const {
    return adaptive ? e - begin(i) : e + padding - i * stride;
  }
  GRADUS_HD constexpr Count entry_of(Count number, Count i) const {
    return adaptive ? number + begin(i) : number + i * stride - padding;
  }
  /// By how many entries the window's mean divides: padding counts.
  GRADUS_HD constexpr Count divisor(Count i) const { return adaptive ? end(i) - begin(i) : size; }
  /// The first window that has entry e, and the one after the last. There may be none.
  GRADUS_HD constexpr Count first_with(Count e) const {
    if (adaptive) return ratio(e, outputs, entries);
    return e + padding < size ? 0 : (e + padding - size) / stride + 1;
  }
  GRADUS_HD constexpr Count end_with(Count e) const {
    const Count last = adaptive ? ratio(e + 1, outputs, entries, entries - 1) : (e + padding) / stride + 1;
    return last < outputs ? last : outputs;
  }

 private:
  // (i of + more) / by, in 64 bits.
  static GRADUS_HD constexpr Count ratio(Count i, Count of, Count by, Count more = 0) {
    return static_cast<Count>((static_cast<index_t>(i) * of + more) / by);
  }
};
using pool_windows = basic_pool_windows<index_t>;

}  // namespace gradus
