#pragma once
// Matrix products with patches of images, which are packed from the images: no matrix of patches is in memory.

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "../core/config.hpp"
#include "../core/dtype.hpp"
#include "../core/extent.hpp"
#include "gemm.hpp"
#include "gemm_packed.hpp"
#include "parallel.hpp"
#include "patches.hpp"
#include "transpose.hpp"

namespace gradus::cpu_kit::inline GRADUS_BUILD {

/// Images that a product writes: channel (row) and position (column), with a bias per channel, if given; or it adds.
template <class S, class SBias>
struct patch_result {
  patch_matrix<S> images;
  const SBias* bias;
  bool accumulate;
};

/// Products of one tile on one thread; see packed_gemm.
template <class T, class Factor, class Tiles = tiles_for<T, Factor>>
class patch_gemm : factor_gemm<T, Factor, Tiles> {
  using base = factor_gemm<T, Factor, Tiles>;
  using lanes = typename base::lanes;
  using base::depth, base::per_word, base::width, base::strip, base::short_strip, base::load, base::store,
      base::steps_of;
  using typename base::vector, typename base::word, typename base::words, typename base::block_sizes,
      typename base::direct_type, typename base::rows_of_t;
  using columns = patch_columns<width>;
  static constexpr auto all = std::make_index_sequence<width>{};

 public:
  using base::tile_rows, base::tile_columns, base::prepare;

  /// images = A patches, for A [m, k] and n positions.
  template <class SA, class SB, class SC, class SBias>
  class convolution {
   public:
    convolution(gemm_operand<SA> a, const patch_matrix<const SB>& b, const patch_result<SC, SBias>& c)
        : a_(a), b_(b.flattened()), c_(c.images.flattened()), bias_(c.bias), accumulate_(c.accumulate) {}

    // The sums of one image do not depend on how many there are.
    static block_sizes sizes(index_t, index_t k, index_t tallest, index_t widest) {
      return sizes_of(lanes::kc_of(tile_columns, k), k, tallest, widest);
    }
    std::size_t bytes(const block_sizes& of) const {
      return columns::bytes(b_, of.nc) + columns::bytes(c_, of.nc) + (of.kc + per_word) * sizeof(patch_row);
    }
    void start(void* memory, const block_sizes& of, index_t first_column) {
      rows_ = static_cast<patch_row*>(memory);
      of_b_ = rows_ + of.kc + per_word;
      of_c_ = static_cast<std::byte*>(of_b_) + columns::bytes(b_, of.nc);
      first_ = first_column;
    }
    void start_columns(index_t j, index_t across) {
      const index_t groups = (across + tile_columns - 1) / tile_columns * (tile_columns / width);
      from_.describe(b_, first_ + j, across, groups, of_b_);
      to_.describe(c_, first_ + j, across, groups, of_c_);
    }
    void start_terms(index_t, index_t) {}
    void pack_b(index_t p, index_t inner, index_t, index_t across, word* to) {
      const index_t steps = steps_of(inner);
      for (index_t i = 0; i < steps * per_word; ++i) rows_[i] = row_of(b_, p + i);
      // A few channels at a time, so that the rows of their images stay in the L1 cache from panel to panel.
      for (index_t s = 0; s < steps; s += few_steps)
        for (index_t j = 0; j < across; j += tile_columns)
          pack_panel(s, std::min(steps, s + few_steps), j / width, to + steps * j + s * tile_columns);
    }
    void pack_a(index_t i, index_t rows, index_t p, index_t inner, word* to) const {
      base::template pack_a<false>(a_.at(i, p), a_.stride, inner, rows, to);
    }
    void put(index_t i, index_t rows, index_t, index_t across, const T* sums, index_t stride) const {
      for (index_t r = 0; r < rows; ++r, sums += stride) {
        SC* const to = c_.data + (i + r) * c_.plane();
        const T shift = bias_ == nullptr ? T(0) : static_cast<T>(bias_[i + r]);
        for (index_t g = 0; g * width < across; ++g) put_columns(load(sums + g * width) + shift, g, to);
      }
    }

   private:
    void pack_panel(index_t s, index_t end, index_t group, word* to) const {
      for (; s < end; ++s)
        for (index_t g = group; g < group + tile_columns / width; ++g, to += width) {
          SB from[per_word * width];
          for (index_t e = 0; e < per_word; ++e) {
            SB row[width];
            from_.load(b_.data, rows_[s * per_word + e], g, row);
            std::memcpy(static_cast<void*>(from + e * width), row, sizeof row);
          }
          store(lanes::load_across(from, width), to);
        }
    }
    void put_columns(vector x, index_t g, SC* to) const {
      SC at[width];
      if (accumulate_) {
        to_.load(static_cast<const SC*>(to), g, at);
        x += load(at);
      }
      store_as<T, width>(x, at);
      to_.store(at, g, to);
    }

    gemm_operand<SA> a_;
    patch_matrix<const SB> b_;
    patch_matrix<SC> c_;
    const SBias* bias_;
    bool accumulate_;
    patch_row* rows_ = nullptr;
    void *of_b_ = nullptr, *of_c_ = nullptr;
    columns from_, to_;
    index_t first_ = 0;
  };

  /// C^T (+)= patches images^T, for C [n, m] with `stride` elements from row to row: the sum over all positions.
  template <class SA, class SB, class SC>
  class correlation {
   public:
    correlation(const patch_matrix<const SA>& a, const patch_matrix<const SB>& b, SC* c, index_t stride,
                bool accumulate)
        : a_(a.flattened()), b_(b.flattened()), c_(c), stride_(stride), accumulate_(accumulate) {}

    static block_sizes sizes(index_t n, index_t k, index_t tallest, index_t widest) {
      return sizes_of(lanes::kc_of(n, k), k, lanes::part(tallest, most_rows, tile_rows), widest);
    }
    std::size_t bytes(const block_sizes& of) const { return columns::bytes(a_, of.kc) + columns::bytes(b_, of.kc); }
    void start(void* memory, const block_sizes& of, index_t first_column) {
      of_a_ = memory;
      of_b_ = static_cast<std::byte*>(memory) + columns::bytes(a_, of.kc);
      first_ = first_column;
    }
    void start_columns(index_t, index_t) {}
    void start_terms(index_t p, index_t inner) {
      const index_t groups = (inner + per_word * width - 1) / (per_word * width) * per_word;
      left_.describe(a_, p, inner, groups, of_a_);
      right_.describe(b_, p, inner, groups, of_b_);
    }
    void pack_b(index_t, index_t inner, index_t j, index_t across, word* to) {
      const index_t steps = steps_of(inner);
      for (index_t i = 0; i < across; i += tile_columns, to += steps * tile_columns)
        for (index_t s = 0; s < tile_columns; s += width)
          for (index_t p = 0; p < steps; p += width)
            pack_square(first_ + j + i + s, p / width, to + p * tile_columns + s, all);
    }
    void pack_a(index_t i, index_t rows, index_t, index_t inner, word* to) const {
      const index_t steps = steps_of(inner);
      for (index_t r = 0; r < tile_rows; ++r, to += base::row_stride) {
        const patch_row row = row_of(a_, r < rows ? i + r : a_.rows());
        for (index_t s = 0; s < steps; s += width)
          store(words_of(left_, a_.data, row, s / width), to + s * base::step_stride);
      }
    }
    void put(index_t i, index_t rows, index_t j, index_t across, const T* sums, index_t stride) const {
      for (index_t s = 0; s < across; ++s) {
        SC* const to = c_ + (first_ + j + s) * stride_ + i;
        for (index_t r = 0; r < rows; ++r) {
          const T sum = sums[r * stride + s];
          to[r] = convert_element<SC>(accumulate_ ? sum + static_cast<T>(to[r]) : sum);
        }
      }
    }

   private:
    // `width` words along k of one row.
    template <class S>
    static GRADUS_INLINE words words_of(const columns& table, const S* data, const patch_row& row, index_t at) {
      S from[per_word * width];
      for (index_t e = 0; e < per_word; ++e) {
        S part[width];
        table.load(data, row, at * per_word + e, part);
        std::memcpy(static_cast<void*>(from + e * width), part, sizeof part);
      }
      return lanes::load_along(from);
    }
    template <std::size_t... Is>
    void pack_square(index_t row, index_t at, word* to, std::index_sequence<Is...> of) const {
      words x[width] = {words_of(right_, b_.data, row_of(b_, row + Is), at)...};
      transpose_registers(x, of);
      (store(x[Is], to + Is * tile_columns), ...);
    }

    patch_matrix<const SA> a_;
    patch_matrix<const SB> b_;
    SC* c_;
    index_t stride_;
    bool accumulate_;
    void *of_a_ = nullptr, *of_b_ = nullptr;
    columns left_, right_;
    index_t first_ = 0;
  };

  /// Computes rows i .. i + m - 1 and columns j .. j + n - 1 of a product of k terms.
  template <class Product>
  static void tile(Product of, const block_sizes& sizes, index_t i, index_t m, index_t j, index_t n, index_t k,
                   void* memory) {
    [[maybe_unused]] const typename base::session open{};
    word* const left = static_cast<word*>(memory);
    word* const right = left + sizes.right;
    T* const sums = static_cast<T*>(memory) + sizes.sums;
    of.start(static_cast<std::byte*>(memory) + aligned(sizes.bytes()), sizes, j);
    for (index_t s = 0; s < n; s += sizes.nc) {
      const index_t across = std::min(sizes.nc, n - s);
      of.start_columns(s, across);
      for (index_t top = 0; top < m; top += sizes.mc) {
        const index_t bottom = std::min(m, top + sizes.mc);
        index_t p = 0;
        do {  // once even if k is 0
          const index_t inner = std::min(sizes.kc, k - p), steps = steps_of(inner);
          of.start_terms(p, inner);
          of.pack_b(p, inner, s, across, right);
          for (index_t r = top, there; r < bottom; r += there) {
            there = base::next_strip_rows(bottom - r);
            of.pack_a(i + r, there, p, inner, left);
            T* const to = sums + (k <= sizes.kc ? 0 : r - top) * sizes.nc;
            const auto multiply = there > short_strip ? &base::template multiply_strip<false, tile_rows, direct_type>
                                                      : &base::template multiply_strip<false, short_strip, direct_type>;
            multiply(there, across, steps, {{}, left, {}}, {{}, 0, right, steps},
                     p > 0 ? rows_of_t{to, sizes.nc} : rows_of_t{}, to, sizes.nc);
            if (p + sizes.kc >= k) of.put(i + r, there, s, across, to, sizes.nc);
          }
          p += sizes.kc;
        } while (p < k);
      }
    }
  }

  /// Scratch of a tile.
  template <class Product>
  static std::size_t bytes(const Product& of, const block_sizes& sizes) {
    return aligned(sizes.bytes()) + of.bytes(sizes);
  }

 private:
  static constexpr index_t few_steps = 144;
  static constexpr index_t most_rows = 24 * tile_rows;  // of a block of patches: packs the other operand again

  // Blocks whose packed B and sums fit in the L2 cache together.
  static block_sizes sizes_of(index_t kc, index_t k, index_t mc, index_t widest) {
    block_sizes p{};
    p.kc = kc;
    p.mc = mc;
    const index_t words = kc / per_word, rows = k <= kc ? tile_rows : mc;
    p.nc = lanes::part(widest, std::max(lanes::block / (words + rows) / tile_columns, index_t{1}) * tile_columns,
                       tile_columns);
    p.right = strip * depth;
    p.bias = p.sums = p.right + words * p.nc;
    p.all = p.sums + rows * p.nc;
    return p;
  }
  static constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }
};

/// Computes `count` products of m x n elements and k terms, of(0) .. of(count - 1), on the context's threads.
template <class Kernel, class Of>
void multiply_patches(context<cpu>& ctx, index_t count, index_t m, index_t n, index_t k, const Of& of) {
  Kernel::prepare(ctx.stream());
  const auto g = tile_grid::for_threads(static_cast<index_t>(thread_count(ctx.stream())), m, n, Kernel::tile_rows,
                                        Kernel::tile_columns);
  const auto sizes = of(0).sizes(n, k, g.tallest(), g.widest());
  parallel_tasks(ctx, count * g.tiles(), Kernel::bytes(of(0), sizes), [&](index_t t, void* memory) {
    const index_t tile = t % g.tiles(), r = tile / g.columns, s = tile % g.columns;
    Kernel::tile(of(t / g.tiles()), sizes, g.top(r), g.top(r + 1) - g.top(r), g.left(s), g.left(s + 1) - g.left(s), k,
                 memory);
  });
}

}  // namespace gradus::cpu_kit::inline GRADUS_BUILD
