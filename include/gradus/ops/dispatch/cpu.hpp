#pragma once
// The CPU kernels of dispatch_rows and combine_rows.

#include <cstring>

#include "../../core/config.hpp"
#include "../../cpu/rows.hpp"
#include "../../precision/promotion.hpp"
#include "../gather/cpu.hpp"
#include "dispatch.hpp"

namespace gradus {

namespace cpu_kit::inline GRADUS_BUILD {

template <class T, class Id>
void copy_to_places(context<cpu>& ctx, T* y, const T* x, const Id* places, dispatch_sizes sizes) {
  for_rows(ctx, sizes.tokens, sizes.columns, 8192, [=](index_t token) {
    const index_t columns = sizes.columns;
    for (index_t k = 0; k < sizes.copies; ++k)
      std::memcpy(static_cast<void*>(y + static_cast<index_t>(places[token * sizes.copies + k]) * columns),
                  x + token * columns, columns * sizeof(T));
  });
}

// to[n] (+)= sum over k of weights[n, k] from[places[n, k]]; without weights, of the rows alone.
template <class TO, class T, class W, class Id>
void sum_places(context<cpu>& ctx, TO* to, bool accumulate, const T* from, const W* weights, const Id* places,
                dispatch_sizes sizes) {
  using C = compute_type<promote<T, W>>;
  for_rows(ctx, sizes.tokens, sizes.columns, 8192, [=](index_t token) {
    const index_t columns = sizes.columns, copies = sizes.copies;
    const Id* const at = places + token * copies;
    const W* const weight = weights == nullptr ? nullptr : weights + token * copies;
    for_packs<C>(columns, [&](index_t i, auto which) {
      pack<C> sum(0);
      for (index_t k = 0; k < copies; ++k) {
        const pack<C> row = load<C>(from + static_cast<index_t>(at[k]) * columns + i, which);
        sum = sum + (weight == nullptr ? row : row * pack<C>(static_cast<C>(weight[k])));
      }
      put(sum, to + token * columns + i, accumulate, which);
    });
  });
}

// dx[places[n, k]] (+)= weights[n, k] dy[n], and dweights[n, k] (+)= dy[n] . x[places[n, k]]; null: not needed.
template <class TX, class TW, class TY, class T, class W, class Id>
void combine_backward(context<cpu>& ctx, TX* dx, bool add_to_dx, TW* dweights, bool add_to_dweights, const TY* dy,
                      const T* x, const W* weights, const Id* places, dispatch_sizes sizes) {
  using C = compute_type<promote<promote<T, W>, TY>>;
  for_rows(ctx, sizes.tokens, sizes.copies * sizes.columns, 8192, [=](index_t token) {
    const index_t columns = sizes.columns;
    const TY* const from = dy + token * columns;
    for (index_t k = 0; k < sizes.copies; ++k) {
      const index_t entry = token * sizes.copies + k, row = static_cast<index_t>(places[entry]) * columns;
      if (dx != nullptr) {
        const pack<C> weight(static_cast<C>(weights[entry]));
        for_packs<C>(columns, [&](index_t i, auto which) {
          put(load<C>(from + i, which) * weight, dx + row + i, add_to_dx, which);
        });
      }
      if (dweights != nullptr) {
        const C product = sum_packs<C>(
            columns, [&](index_t i, auto which) { return load<C>(from + i, which) * load<C>(x + row + i, which); });
        dweights[entry] = static_cast<TW>((add_to_dweights ? static_cast<C>(dweights[entry]) : C(0)) + product);
      }
    }
  });
}

}  // namespace cpu_kit::inline GRADUS_BUILD

template <>
struct kernel<op::dispatch_rows, cpu> {
  template <class T, class Id>
  static void forward(context<cpu>& ctx, T* y, const T* x, const Id* places, dispatch_sizes sizes) {
    cpu_kit::copy_to_places(ctx, y, x, places, sizes);
  }
  template <class TX, class T, class Id>
  static void backward(context<cpu>& ctx, TX* dx, bool accumulate, const T* dy, const Id* places,
                       dispatch_sizes sizes) {
    cpu_kit::sum_places(ctx, dx, accumulate, dy, static_cast<const T*>(nullptr), places, sizes);
  }
};

template <>
struct kernel<op::combine_rows, cpu> {
  template <class T, class W, class Id>
  static void forward(context<cpu>& ctx, T* y, const T* x, const W* weights, const Id* places, dispatch_sizes sizes) {
    cpu_kit::sum_places(ctx, y, false, x, weights, places, sizes);
  }
  template <class TX, class TW, class TY, class T, class W, class Id>
  static void backward(context<cpu>& ctx, TX* dx, bool add_to_dx, TW* dweights, bool add_to_dweights, const TY* dy,
                       const T* x, const W* weights, const Id* places, dispatch_sizes sizes) {
    cpu_kit::combine_backward(ctx, dx, add_to_dx, dweights, add_to_dweights, dy, x, weights, places, sizes);
  }
};

}  // namespace gradus
