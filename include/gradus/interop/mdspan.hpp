#pragma once
// Views as multidimensional spans: C++23's, and libcu++'s, which kernels take (part of the CUDA toolkit).

#include <version>
#if defined(__cpp_lib_mdspan)
#include <mdspan>
#endif
#if __has_include(<cuda/std/mdspan>)
#include <cuda/std/mdspan>
#endif

#include "../core/shape.hpp"
#include "../tensor/view.hpp"

namespace gradus {

#if defined(__cpp_lib_mdspan)
/// The elements of a view as a std::mdspan of compile-time extents: `as_mdspan(x.view())`. Needs C++23.
template <class T, index_t... Extents, class D>
constexpr auto as_mdspan(view<T, shape<Extents...>, D> v) {
  return std::mdspan<T, std::extents<index_t, Extents...>>(v.data());
}
#endif

#if __has_include(<cuda/std/mdspan>)
/// The same as a cuda::std::mdspan, for kernels: `launch(ctx, &kernel, blocks, threads, as_cuda_mdspan(x.view()))`.
template <class T, index_t... Extents, class D>
constexpr auto as_cuda_mdspan(view<T, shape<Extents...>, D> v) {
  return ::cuda::std::mdspan<T, ::cuda::std::extents<index_t, Extents...>>(v.data());
}
#endif

}  // namespace gradus
