#pragma once
// The CPU kernel of slice, concat and split: moves a block.

#include <algorithm>
#include <cstring>

#include "../../cpu/parallel.hpp"
#include "slice.hpp"

namespace gradus {

template <>
struct kernel<op::move_block, cpu> {
  template <class T>
  static void forward(context<cpu>& ctx, T* to, const T* from, block_move b, bool accumulate) {
    using C = compute_type<T>;
    cpu_kit::parallel_elements(ctx, b.rows, std::max<index_t>(1, (1 << 14) / b.run), [&](index_t first, index_t last) {
      for (index_t r = first; r < last; ++r) {
        T* target = to + b.to_offset + r * b.to_stride;
        const T* source = from + b.from_offset + r * b.from_stride;
        if (!accumulate) std::memcpy(target, source, b.run * sizeof(T));
        else
          for (index_t i = 0; i < b.run; ++i)
            target[i] = static_cast<T>(static_cast<C>(target[i]) + static_cast<C>(source[i]));
      }
    });
  }
};

}  // namespace gradus
