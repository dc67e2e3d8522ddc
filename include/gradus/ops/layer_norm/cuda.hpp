#pragma once
// The CUDA kernels of layer_norm and rms_norm.

#include <algorithm>

#include "../../core/math.hpp"
#include "../../gpu/sums.hpp"
#include "layer_norm.hpp"

namespace gradus {

namespace cuda_kit {

template <index_t Columns>
inline constexpr bool row_fits_in_registers = Columns <= 32768;

/// Rows of layer_norm (Centred: subtracts the mean) and rms_norm. `means`, `rstds` and `b` may be null.
template <bool Centred, index_t Columns, class C, class TY, class T, class TW, class TB>
__global__ void __launch_bounds__(row_layout<Columns, T, TY, TW>::block)
    norm_kernel(C eps, TY* y, C* means, C* rstds, const T* x, const TW* w, const TB* b, index_t rows) {
  using layout = row_layout<Columns, T, TY, TW>;
  const index_t row = layout::first_row();
  if (row >= rows) return;  // for all threads of a warp, or for none
  const held_row<layout, T> values(x + row * Columns);
  C mean = 0;
  if constexpr (Centred) {
    C sum = 0;
    layout::each([&](int slot, int at) {
      const auto v = values.run(slot, at);
#pragma unroll
      for (int i = 0; i < layout::width; ++i) sum += static_cast<C>(v.at[i]);
    });
    mean = row_sum<layout::threads>(sum) / static_cast<C>(Columns);
  }
  C squares = 0;
  layout::each([&](int slot, int at) {
    const auto v = values.run(slot, at);
#pragma unroll
    for (int i = 0; i < layout::width; ++i) {
      const C d = static_cast<C>(v.at[i]) - mean;
      squares += d * d;
    }
  });
  const C rstd = C(1) / math::sqrt(row_sum<layout::threads>(squares) / static_cast<C>(Columns) + eps);
  layout::each([&](int slot, int at) {
    const auto v = values.run(slot, at);
    const auto weight = load<layout::width, true>(w + at, layout::width);
    vector_of<TB, layout::width> shift{};
    if (b != nullptr) shift = load<layout::width, true>(b + at, layout::width);
    put<layout::width, true>(y + row * Columns + at, false, layout::width, [&](int i) {
      return (static_cast<C>(v.at[i]) - mean) * rstd * static_cast<C>(weight.at[i]) + static_cast<C>(shift.at[i]);
    });
  });
  if (threadIdx.x % layout::threads != 0) return;
  if (Centred && means != nullptr) means[row] = mean;
  if (rstds != nullptr) rstds[row] = rstd;
}

/// The layout of a row's gradient. A thread holds four arrays, two of them sums: 24 elements of each fit 128 registers.
template <index_t Columns, class... Ts>
using norm_gradient_layout = basic_row_layout<24, Columns, Ts...>;

/// Blocks that a multiprocessor must have room for: as many as have 512 threads together, with 128 registers each. Sums
/// in double, and rows whose elements are loaded one by one, get the registers that they need.
template <class C, class Layout>
inline constexpr int resident_norm_blocks =
    sizeof(C) == 4 && Layout::width > 1 && Layout::block <= 512 ? 512 / Layout::block : 1;

/// Blocks for the rows of a norm's gradient: each takes rows in turn and has its own sums for the parameters. The
/// number depends on the shape alone, so that the order of the sums does: two blocks for each of an A100's 108
/// multiprocessors, all resident at once, and one or two for each of an H100's 132, where one keeps the memory busy.
template <class Layout>
constexpr unsigned norm_gradient_blocks(index_t rows) {
  constexpr unsigned most = 216;
  return std::min(most, Layout::blocks(rows));
}

/// The parameters of a norm: weight and, if it is centred, bias.
template <bool Centred>
inline constexpr index_t norm_parameters = Centred ? 2 : 1;

/// Computes dx, and the block's sums for the parameters in partial [blocks, parameters, Columns] unless that is null.
template <bool Centred, index_t Columns, class C, class TDX, class TY, class T, class TW>
__global__ void __launch_bounds__(norm_gradient_layout<Columns, TDX, TY, T, TW>::block,
                                  resident_norm_blocks<C, norm_gradient_layout<Columns, TDX, TY, T, TW>>)
    norm_gradient_kernel(TDX* dx, bool accumulate, C* partial, const TY* dy, const T* x, const TW* w, const C* means,
                         const C* rstds, index_t rows) {
  using layout = norm_gradient_layout<Columns, TDX, TY, T, TW>;
  constexpr int width = layout::width;
  vector_of<C, width> sums_w[layout::slot_count]{}, sums_b[layout::slot_count]{};
  for (index_t row = layout::first_row(); row < rows; row += gridDim.x * layout::rows_at_once) {
    held_row<layout, T> values(x + row * Columns);
    held_row<layout, TY> gradients(dy + row * Columns);
    const C mean = Centred ? means[row] : C(0), rstd = rstds[row];
    C sum_g = 0, sum_gx = 0;
    layout::each([&](int slot, int at) {
      const auto v = values.run(slot, at);
      const auto d = gradients.run(slot, at);
      const auto weight = load<width, true>(w + at, width);
#pragma unroll
      for (int i = 0; i < width; ++i) {
        const C grad = static_cast<C>(d.at[i]), normal = (static_cast<C>(v.at[i]) - mean) * rstd;
        const C g = grad * static_cast<C>(weight.at[i]);
        sums_w[slot].at[i] += grad * normal;
        if constexpr (Centred) sums_b[slot].at[i] += grad, sum_g += g;
        sum_gx += g * normal;
      }
    });
    if (dx == nullptr) continue;
    values.forget_derived_values(), gradients.forget_derived_values();
    const C mean_g = Centred ? row_sum<layout::threads>(sum_g) / static_cast<C>(Columns) : C(0);
    const C mean_gx = row_sum<layout::threads>(sum_gx) / static_cast<C>(Columns);
    layout::each([&](int slot, int at) {
      const auto v = values.run(slot, at);
      const auto d = gradients.run(slot, at);
      const auto weight = load<width, true>(w + at, width);
      put<width, true>(dx + row * Columns + at, accumulate, width, [&](int i) {
        const C g = static_cast<C>(d.at[i]) * static_cast<C>(weight.at[i]);
        const C normal = (static_cast<C>(v.at[i]) - mean) * rstd;
        return rstd * (g - mean_g - normal * mean_gx);
      });
    });
  }
  if (partial == nullptr) return;
  C* const mine = partial + static_cast<index_t>(blockIdx.x) * norm_parameters<Centred> * Columns;
  if constexpr (layout::rows_at_once == 1) {
    layout::each([&](int slot, int at) {
      store<width, true>(mine + at, sums_w[slot], width);
      if constexpr (Centred) store<width, true>(mine + Columns + at, sums_b[slot], width);
    });
  } else {  // the rows of the block add theirs in order
    constexpr int runs = static_cast<int>(layout::runs);
    __shared__ C room[width][runs];
    const auto add_rows = [&](const vector_of<C, width>(&sums)[layout::slot_count], C* to) {
      for (int row = 0; row < layout::rows_at_once; ++row) {
        if (static_cast<int>(threadIdx.x) / layout::threads == row)
          layout::each([&](int slot, int at) {
#pragma unroll
            for (int i = 0; i < width; ++i) {
              C& total = room[i][at / width];
              total = (row > 0 ? total : C(0)) + sums[slot].at[i];
            }
          });
        __syncthreads();
      }
      for (int r = static_cast<int>(threadIdx.x); r < runs; r += layout::block)
        put<width, true>(to + r * width, false, width, [&](int i) { return room[i][r]; });
      __syncthreads();
    };
    add_rows(sums_w, mine);
    if constexpr (Centred) add_rows(sums_b, mine + Columns);
  }
}

/// The launches of layer_norm and rms_norm.
template <class Shape, bool Centred>
struct row_norm {
  static constexpr index_t columns = row_columns<Shape>();
  static_assert(row_fits_in_registers<columns>, "layer_norm, rms_norm: the GPU supports rows of up to 32768 elements");

  template <class C, class TY, class T, class TW, class TB>
  static void forward(context<cuda>& ctx, double eps, TY* y, C* means, C* rstds, const T* x, const TW* w, const TB* b,
                      index_t rows) {
    using layout = row_layout<columns, T, TY, TW>;
    launch(ctx, &norm_kernel<Centred, columns, C, TY, T, TW, TB>, layout::blocks(rows), layout::block,
           static_cast<C>(eps), y, means, rstds, x, w, b, rows);
  }
  template <class C, class TDX, class TDW, class TDB, class TY, class T, class TW>
  static void backward(context<cuda>& ctx, elementwise_target<TDX> dx, elementwise_target<TDW> dw,
                       elementwise_target<TDB> db, const TY* dy, const T* x, const TW* w, const C* means,
                       const C* rstds, index_t rows) {
    using layout = norm_gradient_layout<columns, TDX, TY, T, TW>;
    const unsigned blocks = norm_gradient_blocks<layout>(rows);
    const bool parameters = dw.data != nullptr || db.data != nullptr;
    C* const partial = parameters ? scratch<C>(ctx, blocks * norm_parameters<Centred> * columns) : nullptr;
    launch(ctx, &norm_gradient_kernel<Centred, columns, C, TDX, TY, T, TW>, blocks, layout::block, dx.data,
           dx.accumulate, partial, dy, x, w, means, rstds, rows);
    if (!parameters) return;
    if constexpr (Centred) add_parts(ctx, partial, columns, columns, blocks, C(1), dw, db);
    else add_parts(ctx, partial, columns, columns, blocks, C(1), dw);
  }
};

}  // namespace cuda_kit

/// The blocks' sums for the parameters are added in one second launch.
template <>
struct kernel<op::layer_norm, cuda> {
  template <class S, class TY, class C, class T, class TW, class TB>
  static void forward(context<cuda>& ctx, double eps, shaped_matrix<S> of, TY* y, C* kept, const T* x, const TW* w,
                      const TB* b) {
    C* const rstds = kept == nullptr ? nullptr : kept + rows_of<S>;
    cuda_kit::row_norm<S, true>::template forward<C>(ctx, eps, y, kept, rstds, x, w, b, of.rows);
  }
  template <class S, class TDX, class TDW, class TDB, class C, class TY, class T, class TW>
  static void backward(context<cuda>& ctx, shaped_matrix<S> of, elementwise_target<TDX> dx, elementwise_target<TDW> dw,
                       elementwise_target<TDB> db, C*, const TY* dy, const T* x, const TW* w, const C* kept) {
    cuda_kit::row_norm<S, true>::template backward<C>(ctx, dx, dw, db, dy, x, w, kept, kept + rows_of<S>, of.rows);
  }
};

}  // namespace gradus
