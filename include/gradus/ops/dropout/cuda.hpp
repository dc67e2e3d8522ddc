#pragma once
// The CUDA kernel of dropout.

#include <cstdint>

#include "../../gpu/followed.hpp"
#include "../../gpu/runs.hpp"
#include "dropout.hpp"

namespace gradus {

namespace cuda_kit {
/// One thread per draw of eight elements. `y` may be `x`.
template <class T, class Count>
__global__ void __launch_bounds__(block_threads)
    dropout_kernel(followed_key known, std::uint32_t threshold, compute_type<T> scale, T* y, const T* x, Count size) {
  using C = compute_type<T>;
  const random_key key = known.now();
  flat_run<8>(size, [&](auto whole, auto at, int n) {
    const auto words = key.words(at / 8);
    const auto v = load<8, whole.value>(x + at, n);
    put<8, whole.value>(y + at, false, n, [&](int i) {
      const std::uint32_t half = words[static_cast<unsigned>(i) / 2] >> (i % 2 * 16) & 0xFFFF;
      return half >= threshold ? static_cast<C>(v.at[i]) * scale : C(0);
    });
  });
}
}  // namespace cuda_kit

/// Draws the CPU's mask, bit for bit: a draw depends only on the key and the element.
template <>
struct kernel<op::dropout, cuda> {
  template <class S, class T>
  static void forward(context<cuda>& ctx, const random_key& key, std::uint32_t threshold, double scale,
                      shaped_matrix<S> of, T* y, const T* x) {
    using count = cuda_kit::count_for<S::size>;
    const index_t size = of.rows * of.columns;
    launch(ctx, &cuda_kit::dropout_kernel<T, count>, cuda_kit::flat_blocks(size, 8), cuda_kit::block_threads,
           cuda_kit::follow(ctx, key), threshold, static_cast<compute_type<T>>(scale), y, x, static_cast<count>(size));
  }
};

}  // namespace gradus
