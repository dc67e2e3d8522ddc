#pragma once
// The matrix product of one tile of C on one thread, with packed operands and cache blocking (Goto and van de Geijn,
// "Anatomy of high-performance matrix multiplication", 2008, but the strip of A is what stays in the L1 cache).

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "../core/config.hpp"
#include "../core/dtype.hpp"
#include "../core/extent.hpp"
#include "convert.hpp"
#include "gemm_few_rows.hpp"
#include "gemm_lanes.hpp"
#include "gemm_tiles.hpp"
#include "tile_unit.hpp"
#include "transpose.hpp"

namespace gradus::cpu_kit::inline GRADUS_BUILD {

/// Products on one thread, summed in T; see gemm_lanes for Factor. The type depends on the processor's registers. Tiles
/// is the tile unit that multiplies, if one does.
template <class T, index_t Rows = native_gemm_registers.rows, index_t Across = native_gemm_registers.across,
          index_t Bytes = native_gemm_registers.bytes, class Factor = T, class Tiles = no_tiles>
class packed_gemm : protected gemm_lanes<T, Bytes, Factor, !std::is_same_v<Tiles, no_tiles>> {
 protected:
  static constexpr bool tiles = !std::is_same_v<Tiles, no_tiles>;
  using lanes = gemm_lanes<T, Bytes, Factor, tiles>;
  using session = typename Tiles::session;
  using lanes::block, lanes::depth, lanes::per_word, lanes::pairs, lanes::width, lanes::load, lanes::store;
  using typename lanes::vector, typename lanes::word, typename lanes::words;
  // Types that the register kernel itself packs; for B also float, which it rounds to pairs.
  using direct_type = std::conditional_t<pairs, bf16, T>;
  template <class SB>
  using direct_type_of_b = std::conditional_t<pairs && std::is_same_v<SB, float>, float, direct_type>;
  // Where factors are rounded one by one it packs none: code for that takes registers from the sums.
  static constexpr bool packs_directly = !tiles && (pairs || std::is_same_v<Factor, T>);
  template <class SB>
  static constexpr bool packs_b_directly = packs_directly && std::is_same_v<SB, direct_type_of_b<SB>>;

 public:
  using lanes::kc_of;
  /// The kernel for products of few rows. A tile unit's sums have an order that vectors do not repeat.
  using few_rows = std::conditional_t<tiles, no_few_rows, gemm_few_rows<T, 24, Bytes, Factor>>;

  /// Whether each block of kc terms is summed from zero and then added to C, so that a block may be summed elsewhere.
  /// A tile unit adds terms to C itself.
  static constexpr bool sums_apart = !tiles;

  /// The register tile of C; tiles should have multiples of it.
  static constexpr index_t tile_rows = Rows, tile_columns = Across * width;

  /// Block sizes and the layout of the scratch, in elements.
  struct block_sizes {
    index_t kc;                      ///< terms of the sum over k between two updates of C
    index_t nc;                      ///< columns of a block of B
    index_t mc;                      ///< rows of C per block of B
    index_t right, bias, sums, all;  ///< offsets of the block of B, the bias in T and the sums of C; the end
    std::size_t bytes() const { return all * sizeof(T); }
  };
  /// Block sizes for tiles of at most `tallest` x `widest` elements. The order of summation follows from kc, hence from
  /// n and k.
  template <class SC, class SBias>
  static constexpr block_sizes block_sizes_for(index_t n, index_t k, index_t tallest, index_t widest) {
    block_sizes p{};
    p.kc = kc_of(n, k);
    p.nc = lanes::part(widest, block / (p.kc / per_word) / tile_columns * tile_columns, tile_columns);
    p.mc = std::is_same_v<SC, T> || k <= p.kc ? tallest : std::min(tallest, chunk);
    p.right = strip * depth;
    p.bias = p.right + p.kc / per_word * p.nc;
    p.sums = p.bias + (std::is_same_v<SBias, T> ? 0 : p.nc);
    p.all = p.sums + (std::is_same_v<SC, T> ? 0 : p.nc * (k <= p.kc ? Rows : p.mc));
    return p;
  }

  /// Before the tasks that call tile().
  static void prepare(stream& on) { Tiles::prepare(on); }

  /// C = op(A) op(B) (+ C, with `accumulate`); with a bias, op(A) op(B) + bias in every row.
  template <class SA, class SB, class SC, class SBias>
  static void tile(const block_sizes& sizes, gemm_operand<SA> a, gemm_operand<SB> b, index_t m, index_t n, index_t k,
                   bool accumulate, const SBias* bias, SC* c, index_t ldc, void* memory) {
    [[maybe_unused]] const session open{};
    (a.transposed ? blocks<true, SA, SB, SC, SBias>
                  : blocks<false, SA, SB, SC, SBias>)(sizes, a, b, m, n, k, accumulate, bias, c, ldc, memory);
  }

 protected:
  static constexpr index_t strip = (Rows + width - 1) / width * width;     // Rows, rounded up to whole registers
  static constexpr index_t short_strip = tiles ? Rows / 2 : Rows / 2 + 1;  // rows of a short strip
  static constexpr index_t prefetch_distance = 24;                         // rows from a load to its prefetch
  static constexpr index_t chunk = (tiles ? 16 : 36) * Rows;               // the largest mc if C is not stored in T

  // Rows in memory, `stride` elements apart; or null.
  template <class S>
  struct strided_rows {
    const S* data = nullptr;
    index_t stride = 0;
    strided_rows at(index_t row, index_t column) const {
      return data == nullptr ? *this : strided_rows{data + row * stride + column, stride};
    }
  };
  using rows_of_t = strided_rows<T>;

  // A packed strip of A; its source, if it is yet to be packed; and the next strip, to prefetch.
  struct strip_of_a {
    strided_rows<direct_type> from;
    word* packed;
    strided_rows<direct_type> next;
  };
  // The cache lines of a strip: row after row, or one in each row if A is transposed.
  template <bool TransposeA>
  struct strip_lines {
    strided_rows<direct_type> strip;
    index_t steps;
    index_t next = 0, end = count();

    index_t in_row() const { return (steps + width - 1) / width; }
    index_t count() const { return strip.data == nullptr ? 0 : TransposeA ? steps * per_word : in_row() * Rows; }
    // Part `part` of `parts`.
    strip_lines part(index_t part, index_t parts) const {
      return {strip, steps, count() * part / parts, count() * (part + 1) / parts};
    }
    GRADUS_INLINE void fetch(index_t lines) {
      for (const index_t stop = std::min(end, next + lines); next < stop; ++next)
        __builtin_prefetch(
            (TransposeA ? strip.at(next, Rows - 1) : strip.at(next / in_row(), next % in_row() * width * per_word))
                .data);
    }
  };
  // Packed panels of B, `rows` apart, and the source of the first `direct` columns if they are yet to be packed.
  template <class S>
  struct block_of_b {
    strided_rows<S> from;
    index_t direct;
    word* packed;
    index_t rows;
  };

  // A block of B stays in the L2 cache while strips of A pass through L1. The register kernel packs what it can on the
  // fly: the first strip reads panels of B in place, the first panel a transposed strip of A. Arithmetic hides loads.
  template <bool TransposeA, class SA, class SB, class SC, class SBias>
  static void blocks(const block_sizes& sizes, gemm_operand<SA> a, gemm_operand<SB> b, index_t m, index_t n, index_t k,
                     bool accumulate, const SBias* bias, SC* c, index_t ldc, void* scratch) {
    constexpr bool in_place = std::is_same_v<SC, T>;  // C holds the partial sums
    const index_t kc = sizes.kc;
    const bool whole = k % per_word == 0;  // no incomplete pair at the end
    T* const memory = static_cast<T*>(scratch);
    word* const left = static_cast<word*>(scratch);
    word* const right = left + sizes.right;
    for (index_t j = 0; j < n; j += sizes.nc) {
      const index_t across = std::min(sizes.nc, n - j);
      const index_t direct = packs_b_directly<SB> && !b.transposed && whole ? across / tile_columns * tile_columns
                                                                            : 0;  // packed on the fly
      const rows_of_t shift{bias == nullptr ? nullptr : lanes::bias_in_t(bias + j, across, memory + sizes.bias), 0};
      for (index_t top = 0; top < m; top += sizes.mc) {
        const index_t bottom = std::min(m, top + sizes.mc);
        const bool once = top + next_strip_rows(bottom - top) == bottom && direct == across;  // nothing is reread
        index_t p = 0;
        do {  // once even if k is 0
          const index_t inner = std::min(kc, k - p);
          const index_t steps = steps_of(inner);
          pack_b(b.at(p, j + direct), b.stride, b.transposed, inner, across - direct, right + direct * steps);
          for (index_t i = top, there; i < bottom; i += there) {
            there = next_strip_rows(bottom - i);
            strip_of_a x{{}, left, {}};
            const bool pack_on_the_fly = TransposeA && i + strip <= m && across >= tile_columns && whole;
            if constexpr (packs_directly && std::is_same_v<SA, direct_type>) {
              if (pack_on_the_fly) x.from = {a.at(i, p), a.stride};
              if (i + there + Rows <= m) x.next = {a.at(i + there, p), a.stride};
            }
            if (x.from.data == nullptr) pack_a<TransposeA>(a.at(i, p), a.stride, inner, m - i, left);
            block_of_b<direct_type_of_b<SB>> y{{}, 0, right, once ? 0 : steps};
            if constexpr (packs_b_directly<SB>)
              if (i == top) y.from = {b.at(p, j), b.stride}, y.direct = direct;
            T* to = nullptr;
            index_t stride = ldc;
            if constexpr (in_place) to = c + i * ldc + j;
            else to = memory + sizes.sums + (k <= kc ? 0 : i - top) * sizes.nc, stride = sizes.nc;
            const bool add_to_c = p > 0 || (in_place && bias == nullptr && accumulate);
            const auto multiply = there > short_strip ? &multiply_strip<TransposeA, Rows, direct_type_of_b<SB>>
                                                      : &multiply_strip<TransposeA, short_strip, direct_type_of_b<SB>>;
            multiply(there, across, steps, x, y, add_to_c ? rows_of_t{to, stride} : shift, to, stride);
            if constexpr (!in_place)
              if (p + kc >= k)
                lanes::round_rows(to, stride, there, across, bias == nullptr && accumulate, c + i * ldc + j, ldc);
          }
          p += kc;
        } while (p < k);
      }
    }
  }

  // Rows of the next strip when `rows` are left: short strips at the end compute fewer rows that C does not have.
  static constexpr index_t next_strip_rows(index_t rows) {
    return std::min(rows, rows <= short_strip || (rows > Rows && rows <= 2 * short_strip) ? short_strip : Rows);
  }

  // ---- packing ------------------------------------------------------------------------------------------------------
  // A strip of A is [k, strip] if A is transposed, else [strip, depth]: runs are copied. Missing rows are zero. For
  // tiles it is [k / width, strip / width, width, width] either way, and missing rows are anything.

  // Packed words of `inner` terms. Tiles are whole, filled up with zeros.
  static constexpr index_t steps_of(index_t inner) {
    const index_t steps = (inner + per_word - 1) / per_word;
    return tiles ? (steps + width - 1) / width * width : steps;
  }

  // Words of a strip from row to row, and from step to step where registers of them begin, unless A is transposed.
  static constexpr index_t row_stride = tiles ? width : depth, step_stride = tiles ? strip : 1;

  template <bool TransposeA, class S>
  static void pack_a(const S* a, index_t stride, index_t inner, index_t rows, word* to) {
    if constexpr (tiles) {
      for (index_t p = 0; p < inner; p += width * per_word)
        for (index_t r = 0; r < strip; r += width, to += width * width) {
          const index_t top = std::min(r, rows);
          pack_tile<TransposeA>(gemm_operand<S>{a, stride, TransposeA}.at(top, p), stride, inner - p, rows - top, to);
        }
    } else if constexpr (TransposeA) {
      for (index_t p = 0; p < inner; p += per_word, a += per_word * stride, to += strip) {
        if (rows >= strip && p + per_word <= inner)
          for (index_t r = 0; r < strip; r += width) store(lanes::load_across(a + r, stride), to + r);
        else
          for (index_t r = 0; r < Rows; ++r) to[r] = r < rows ? lanes::load_one(a + r, stride, inner - p) : word{};
      }
    } else {
      for (index_t r = 0; r < Rows; ++r, a += stride, to += depth) {
        if (r >= rows) {
          std::fill_n(to, (inner + per_word - 1) / per_word, word{});
          continue;
        }
        index_t s = 0;
        for (; (s + width) * per_word <= inner; s += width) store(lanes::load_along(a + s * per_word), to + s);
        for (; s * per_word < inner; ++s) to[s] = lanes::load_one(a + s * per_word, 1, inner - s * per_word);
      }
    }
  }

  template <bool TransposeA, class S>
  static void pack_tile(const S* a, index_t stride, index_t inner, index_t rows, word* to) {
    const index_t along = TransposeA ? stride : 1, down = TransposeA ? 1 : stride;
    const bool deep = inner >= width * per_word;
    if (TransposeA && deep && rows >= width)
      return pack_transposed_tile(a, stride, to, std::make_index_sequence<width>{});
    for (index_t r = 0; r < std::min(width, rows); ++r, a += down, to += width)
      if (!TransposeA && deep) store(lanes::load_along(a), to);
      else
        for (index_t s = 0; s < width; ++s)
          to[s] =
              s * per_word < inner ? lanes::load_one(a + s * per_word * along, along, inner - s * per_word) : word{};
  }
  template <class S, std::size_t... Is>
  static void pack_transposed_tile(const S* a, index_t stride, word* to, std::index_sequence<Is...> all) {
    words x[width] = {lanes::load_across(a + Is * per_word * stride, stride)...};
    transpose_registers(x, all);
    (store(x[Is], to + Is * width), ...);
  }

  // B is packed in panels [k, tile_columns], the last one padded with zeros.
  template <class S>
  static void pack_b(const S* b, index_t stride, bool transposed, index_t inner, index_t across, word* to) {
    const index_t steps = steps_of(inner), used = tiles ? (inner + per_word - 1) / per_word : steps;
    for (index_t j = 0; j < across; j += tile_columns, to += steps * tile_columns) {
      const index_t there = std::min(tile_columns, across - j);
      if (transposed)
        for (index_t s = 0; s < tile_columns; s += width)
          pack_b_columns(b + (j + s) * stride, stride, inner, std::min(width, there - std::min(there, s)), to + s);
      else
        for (index_t s = 0; s < used; ++s)
          pack_b_row(b + s * per_word * stride + j, stride, inner - s * per_word, there, to + s * tile_columns);
      if constexpr (tiles) std::fill(to + used * tile_columns, to + steps * tile_columns, word{});
    }
  }
  template <class S>
  static void pack_b_row(const S* b, index_t stride, index_t left, index_t count, word* to) {
    if (count == tile_columns && left >= per_word)
      for (index_t s = 0; s < tile_columns; s += width) store(lanes::load_across(b + s, stride), to + s);
    else
      for (index_t s = 0; s < tile_columns; ++s) to[s] = s < count ? lanes::load_one(b + s, stride, left) : word{};
  }
  template <class S>
  static void pack_b_columns(const S* b, index_t stride, index_t inner, index_t count, word* to) {
    index_t p = 0;
    if (count == width)
      for (; (p + width) * per_word <= inner; p += width)
        transpose_square(b + p * per_word, stride, to + p * tile_columns, std::make_index_sequence<width>{});
    for (; p * per_word < inner; ++p)
      for (index_t s = 0; s < width; ++s)
        to[p * tile_columns + s] =
            s < count ? lanes::load_one(b + s * stride + p * per_word, 1, inner - p * per_word) : word{};
  }

  template <class S, std::size_t... Is>
  static GRADUS_INLINE void transpose_square(const S* from, index_t stride, word* to, std::index_sequence<Is...> all) {
    words x[width] = {lanes::load_along(from + Is * stride)...};
    transpose_registers(x, all);
    (store(x[Is], to + Is * tile_columns), ...);
  }

  // ---- multiplying --------------------------------------------------------------------------------------------------

  /// Computes C = A B + add for one strip of R rows, `rows` of which exist in C.
  template <bool TransposeA, index_t R, class S>
  static void multiply_strip(index_t rows, index_t across, index_t steps, const strip_of_a& a, const block_of_b<S>& b,
                             rows_of_t add, T* c, index_t ldc) {
    if constexpr (tiles) {
      tile_product<Tiles>::template strip<R / width>(rows, across, steps, a.packed, b.packed, add.data, add.stride, c,
                                                     ldc);
    } else {
      const strip_lines<TransposeA> next{a.next, steps};
      const index_t panels = (across + tile_columns - 1) / tile_columns;
      const auto panel = [&](strided_rows<direct_type> from_a, strided_rows<S> from_b, index_t j, auto... to) {
        multiply<TransposeA, S>(std::make_index_sequence<R>{}, std::make_index_sequence<Across>{},
                                std::make_index_sequence<R * Across>{}, steps, from_a, a.packed, from_b,
                                b.packed + j * b.rows, next.part(j / tile_columns, panels), to...);
      };
      for (index_t j = 0; j < across; j += tile_columns) {
        const rows_of_t more = add.at(0, j);
        if (across - j < tile_columns) {
          alignas(64) T edge[R * tile_columns];
          panel({}, {}, j, R, rows_of_t{}, edge, tile_columns);
          for (index_t r = 0; r < rows; ++r)
            for (index_t s = 0; s < across - j; ++s)
              c[r * ldc + j + s] = edge[r * tile_columns + s] + (more.data != nullptr ? *more.at(r, s).data : T(0));
        } else {
          panel(j == 0 ? a.from : strided_rows<direct_type>{}, j < b.direct ? b.from.at(0, j) : strided_rows<S>{}, j,
                rows, more, c + j, ldc);
        }
      }
    }
  }
  // Folds instead of loops: every index is a constant, so the sums stay in registers. Not inlined, or they would not.
  // Packing on the fly costs two well-predicted branches a step; a kernel for each case costs compile time. C and the
  // next strip are prefetched a few lines at a time: a core has few line fill buffers, and the operands need them.
  template <bool TransposeA, class S, std::size_t... R, std::size_t... P, std::size_t... Is>
  [[gnu::noinline]] static void multiply(std::index_sequence<R...>, std::index_sequence<P...> across,
                                         std::index_sequence<Is...>, index_t steps, strided_rows<direct_type> a,
                                         word* left, strided_rows<S> b, word* right, strip_lines<TransposeA> next,
                                         index_t rows, rows_of_t add, T* c, index_t ldc) {
    constexpr index_t row = TransposeA ? 1 : depth, step = TransposeA ? strip : 1;
    constexpr index_t parts = sizeof...(R);  // of the loop over k, one per row of C
    const index_t part = (steps + parts - 1) / parts, lines = (next.end - next.next + parts - 1) / parts;
    const T* row_of_c = c;
    vector sum[sizeof...(Is)];
    ((sum[Is] = vector{}), ...);
    for (index_t p = 0; p < steps; row_of_c += ldc) {
      (__builtin_prefetch(row_of_c + P * width, 1), ...);
      next.fetch(lines);
      for (const index_t end = std::min(steps, p + part); p < end; ++p, left += step, right += tile_columns) {
        words x[Across];
        const auto read_packed = [&] { (std::memcpy(&x[P], right + P * width, Bytes), ...); };
        if constexpr (packs_directly) {
          if (b.data != nullptr) {
            ((x[P] = lanes::load_across(b.data + P * width, b.stride)), ...);
            for (index_t e = 0; e < per_word; ++e)
              (__builtin_prefetch(b.data + (prefetch_distance + e) * b.stride + P * width), ...);
            (store(x[P], right + P * width), ...);
            b.data += per_word * b.stride;
          } else {
            read_packed();
          }
        } else {
          read_packed();
        }
        if constexpr (TransposeA && packs_directly) {
          if (a.data != nullptr) {
            for (index_t e = 0; e < per_word; ++e)
              __builtin_prefetch(a.data + (prefetch_distance + e) * a.stride + strip - 1);
            for (index_t s = 0; s < strip; s += width) store(lanes::load_across(a.data + s, a.stride), left + s);
            a.data += per_word * a.stride;
          }
        }
        (lanes::multiply_row(sum + R * Across, left[R * row], x, across), ...);
      }
    }
    (lanes::store_sum(Is / Across < rows, sum[Is], add.at(Is / Across, Is % Across * width).data,
                      c + Is / Across * ldc + Is % Across * width),
     ...);
  }
};

/// The target's tile unit, if it multiplies such factors and sums them in T.
template <class T, class Factor>
using tiles_for = std::conditional_t<std::is_same_v<T, float> && std::is_same_v<Factor, bf16>, native_tiles, no_tiles>;

/// The kernel of products of these factors, summed in T.
template <class T, class Factor, class Tiles = tiles_for<T, Factor>>
using factor_gemm = std::conditional_t<
    std::is_same_v<Tiles, no_tiles>,
    packed_gemm<T, native_gemm_registers.rows, native_gemm_registers.across, native_gemm_registers.bytes, Factor>,
    packed_gemm<float, 32, 2, 64, bf16, Tiles>>;

/// The kernel of products summed in T, of operands stored as SA and SB. A B of float is rounded to A's 16-bit type.
template <class T, class SA, class SB>
using gemm_kernel = factor_gemm<T, std::conditional_t<detail::is_half<SA> && std::is_same_v<T, float> &&
                                                          (std::is_same_v<SB, SA> || std::is_same_v<SB, float>),
                                                      SA, T>>;

}  // namespace gradus::cpu_kit::inline GRADUS_BUILD
