#pragma once
#include "../../cpu/parallel.hpp"
#include "../../cpu/simd.hpp"
#include "../../tensor/gradient_slot.hpp"
#include "broadcast.hpp"

namespace gradus {

template <>
struct kernel<op::accumulate, cpu> {
  template <class T, class S>
  static void forward(context<cpu>&, view<T, S> to, view<const T, S> from) {
    using C = compute_type<T>;
    cpu_kit::parallel_ranges(S::size, 1 << 15, [&](index begin, index end) {
      for (index i = begin; i < end; ++i) to[i] = static_cast<T>(static_cast<C>(to[i]) + static_cast<C>(from[i]));
    });
  }
};

template <>
struct kernel<op::sum_to, cpu> {
  template <class T, class Small, class U, class Big>
  static void forward(context<cpu>&, view<T, Small> to, view<const U, Big> from, bool accumulate) {
    using C = compute_type<T>;
    // Columns that survive are summed block by block, each block by one task, rows in order: the same sums on any thread count.
    constexpr index columns = columns_of<Big>;
    constexpr index kept = columns_of<Small> == columns ? columns : 1;
    constexpr index rows = Big::size / columns;
    constexpr index out_rows = Small::size / kept;
    constexpr index block = 64;
    constexpr index blocks = kept == 1 ? 1 : (kept + block - 1) / block;
    cpu_kit::parallel_tasks(out_rows * blocks, [&](index task) {
      const index out_row = task / blocks;
      const index first = task % blocks * block;
      const index width = kept == 1 ? 1 : std::min(block, kept - first);
      C sums[block] = {};
      for (index k = 0; k < rows / out_rows; ++k) {
        const U* row = from.data() + source_row<Small, Big>(out_row, k) * columns;
        if constexpr (kept == 1) {
          C s = 0;
          for (index c = 0; c < columns; ++c) s += static_cast<C>(row[c]);
          sums[0] += s;
        } else {
          for (index c = 0; c < width; ++c) sums[c] += static_cast<C>(row[first + c]);
        }
      }
      T* out = to.data() + out_row * kept + first;
      for (index c = 0; c < width; ++c) out[c] = static_cast<T>(accumulate ? static_cast<C>(out[c]) + sums[c] : sums[c]);
    });
  }

 private:
  // Row of Big for row `out_row` of Small and number k along the axes that are summed away.
  template <class Small, class Big>
  static index source_row(index out_row, index k) {
    index row = 0;
    index stride = 1;
    for (index i = 1; i < Big::rank; ++i) {
      const index e = Big::extents[Big::rank - 1 - i];
      index& from = detail::padded_extent<Small>(i) == e ? out_row : k;
      row += from % e * stride;
      from /= e;
      stride *= e;
    }
    return row;
  }
};

}  // namespace gradus
