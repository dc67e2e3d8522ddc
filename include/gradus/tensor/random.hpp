#pragma once
// Random tensors. Element i depends only on the key and i: the same on any number of threads.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "../core/config.hpp"
#include "../core/philox.hpp"
#include "tensor.hpp"

namespace gradus {

namespace detail {

// Fills elements begin .. end-1, with begin a multiple of 4: draw(words) returns the four values of one Philox block.
template <class T, class Draw>
GRADUS_OF_BUILD void fill_random(T* to, std::size_t begin, std::size_t end, random_key key, const Draw& draw) {
  for (std::size_t i = begin; i < end; i += 4) {
    const std::array<T, 4> drawn = draw(key.words(i / 4));
    std::copy_n(drawn.begin(), std::min<std::size_t>(4, end - i), to + i);
  }
}

template <class T, class Shape, class D, class Draw>
GRADUS_OF_BUILD constexpr tensor<T, Shape, D> random_tensor(context<D>& ctx, const extents_of<Shape>& extents,
                                                            random_key key, category what, const Draw& draw) {
  tensor<T, Shape, D> t(ctx, extents, what);
  if constexpr (D::host_addressable) {
    device_access<D>::for_ranges(ctx, extents.size, index_t{1} << 14, [&, to = t.data()](index_t first, index_t last) {
      fill_random(to, first, last, key, draw);
    });
  } else if constexpr (D::computes) {
    const std::unique_ptr<T[]> host(new T[extents.size]);
    fill_random(host.get(), 0, extents.size, key, draw);
    device_access<D>::upload(ctx, t.data(), host.get(), extents.size * sizeof(T));
  }
  return t;
}

}  // namespace detail

/// Independent uniform draws from [low, high); rounding to T may yield `high`. Computed on the host.
template <class T, class Shape, class D>
GRADUS_OF_BUILD constexpr tensor<T, Shape, D> uniform(context<D>& ctx,
                                                      const std::type_identity_t<extents_of<Shape>>& extents,
                                                      random_key key, double low = 0, double high = 1,
                                                      category what = category::activation) {
  static_assert(is_floating<T>, "uniform<T, Shape>(ctx, key): T must be a floating-point type");
  using C = compute_type<T>;
  return detail::random_tensor<T, Shape>(ctx, extents, key, what, [=](const std::array<std::uint32_t, 4>& words) {
    std::array<T, 4> out{};
    for (std::size_t i = 0; i < 4; ++i)
      out[i] = static_cast<T>(static_cast<C>(low + (high - low) * static_cast<double>(uniform_float(words[i]))));
    return out;
  });
}
template <class T, class Shape, class D>
GRADUS_OF_BUILD constexpr tensor<T, Shape, D> uniform(context<D>& ctx, random_key key, double low = 0, double high = 1,
                                                      category what = category::activation) {
  static_assert(detail::extents_are_in_the_type<Shape>,
                "uniform<T, Shape>(ctx, key): Shape is bounded; give the extents");
  return uniform<T, Shape>(ctx, {}, key, low, high, what);
}

/// Independent draws from the normal distribution (Box-Muller). Computed on the host.
template <class T, class Shape, class D>
GRADUS_OF_BUILD constexpr tensor<T, Shape, D> normal(context<D>& ctx,
                                                     const std::type_identity_t<extents_of<Shape>>& extents,
                                                     random_key key, double mean = 0, double deviation = 1,
                                                     category what = category::activation) {
  static_assert(is_floating<T>, "normal<T, Shape>(ctx, key): T must be a floating-point type");
  using C = compute_type<T>;
  return detail::random_tensor<T, Shape>(ctx, extents, key, what, [=](const std::array<std::uint32_t, 4>& words) {
    const auto first = normal_pair(words[0], words[1]);
    const auto second = normal_pair(words[2], words[3]);
    const std::array<float, 4> z{first[0], first[1], second[0], second[1]};
    std::array<T, 4> out{};
    for (std::size_t i = 0; i < 4; ++i)
      out[i] = static_cast<T>(static_cast<C>(mean + deviation * static_cast<double>(z[i])));
    return out;
  });
}
template <class T, class Shape, class D>
GRADUS_OF_BUILD constexpr tensor<T, Shape, D> normal(context<D>& ctx, random_key key, double mean = 0,
                                                     double deviation = 1, category what = category::activation) {
  static_assert(detail::extents_are_in_the_type<Shape>,
                "normal<T, Shape>(ctx, key): Shape is bounded; give the extents");
  return normal<T, Shape>(ctx, {}, key, mean, deviation, what);
}

/// Independent draws: 1 (true) with the given probability, else 0. Any element type. Computed on the host.
template <class T, class Shape, class D>
GRADUS_OF_BUILD constexpr tensor<T, Shape, D> bernoulli(context<D>& ctx,
                                                        const std::type_identity_t<extents_of<Shape>>& extents,
                                                        random_key key, double probability,
                                                        category what = category::activation) {
  return detail::random_tensor<T, Shape>(ctx, extents, key, what, [=](const std::array<std::uint32_t, 4>& words) {
    std::array<T, 4> out{};
    for (std::size_t i = 0; i < 4; ++i)
      out[i] = static_cast<double>(uniform_float(words[i])) < probability ? T(1.0f) : T(0.0f);
    return out;
  });
}
template <class T, class Shape, class D>
GRADUS_OF_BUILD constexpr tensor<T, Shape, D> bernoulli(context<D>& ctx, random_key key, double probability,
                                                        category what = category::activation) {
  static_assert(detail::extents_are_in_the_type<Shape>,
                "bernoulli<T, Shape>(ctx, key): Shape is bounded; give the extents");
  return bernoulli<T, Shape>(ctx, {}, key, probability, what);
}

}  // namespace gradus
