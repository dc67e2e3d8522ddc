#pragma once
// Views as multidimensional spans: C++23's, and libcu++'s, which kernels take (part of the CUDA toolkit).

#include <cstddef>
#include <utility>
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

namespace detail {
// The extents of a view in type E, whose bounded ones are dynamic.
template <class E, class View>
constexpr E mdspan_extents([[maybe_unused]] const View& v) {
  if constexpr (!View::shape::bounded) return {};
  else
    return [&]<std::size_t... Is>(std::index_sequence<Is...>) {
      return E(v.extents().extents[Is]...);
    }(std::make_index_sequence<View::shape::rank>{});
}
}  // namespace detail

#if defined(__cpp_lib_mdspan)
/// The elements of a view as a std::mdspan of compile-time extents: `as_mdspan(x.view())`. Bounded extents are
/// std::dynamic_extent. Needs C++23.
template <class T, index_t... Extents, class D>
constexpr auto as_mdspan(view<T, shape<Extents...>, D> v) {
  using extents = std::extents<index_t, (detail::is_bounded(Extents) ? std::dynamic_extent : Extents)...>;
  return std::mdspan<T, extents>(v.data(), detail::mdspan_extents<extents>(v));
}
#endif

#if __has_include(<cuda/std/mdspan>)
/// The elements of a view as a cuda::std::mdspan, for kernels; bounded extents are dynamic:
/// `launch(ctx, &kernel, blocks, threads, as_cuda_mdspan(x.view()))`.
template <class T, index_t... Extents, class D>
constexpr auto as_cuda_mdspan(view<T, shape<Extents...>, D> v) {
  using extents =
      ::cuda::std::extents<index_t, (detail::is_bounded(Extents) ? ::cuda::std::dynamic_extent : Extents)...>;
  return ::cuda::std::mdspan<T, extents>(v.data(), detail::mdspan_extents<extents>(v));
}
#endif

}  // namespace gradus
