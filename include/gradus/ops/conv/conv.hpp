#pragma once
// Convolutions: operation, shape rule and gradients. conv_transpose.hpp has the functions of transposed ones.

#include <string_view>
#include <type_traits>
#include <utility>

#include "../../autodiff/apply.hpp"
#include "../../core/config.hpp"
#include "../../core/cost.hpp"
#include "../../core/shape_algebra.hpp"
#include "../broadcast/broadcast.hpp"
#include "options.hpp"

namespace gradus {

namespace detail {

/// [batch, channels, y, x], or [batch, channels, x] if Rank is 3.
template <index_t Rank, index_t Batch, index_t Channels, index_t Y, index_t X>
using image_shape = std::conditional_t<Rank == 4, shape<Batch, Channels, Y, X>, shape<Batch, Channels, X>>;

/// The sizes and the result of a convolution, or of a transposed one, by the type of its options.
template <class X, class W, auto Options>
struct conv_rule {
  static constexpr bool transposed = is_transposed<Options>;
  static constexpr conv_sizes sizes = conv_sizes_of<Options>(X{}, W{});
  using output =
      std::conditional_t<transposed, image_shape<X::rank, X::extent_in_type(0), sizes.channels, sizes.y.in, sizes.x.in>,
                         image_shape<X::rank, X::extent_in_type(0), sizes.filters, sizes.y.out, sizes.x.out>>;
};

/// The extents of a result of shape Y for images with extents `of`: Y's, with the images' batch.
template <class Y, class X>
constexpr extents_of<Y> with_batch_of(const X& of) {
  return extents_from<Y>([&] {
    auto all = Y::extents;
    all[0] = of.extent(0);
    return all;
  });
}

/// True if a convolution of operands of these types goes through Winograd's algorithm, on devices that turn filters.
template <class Products, class TX, class TW>
constexpr bool in_winograd(const conv_sizes& s) {
  return std::is_same_v<Products, float> && std::is_same_v<TX, float> && std::is_same_v<TW, float> &&
         s.suits_winograd();
}
/// Elements of the filters as kernels turn them: for the convolution, or for its gradient (`back`).
template <class D, class Products, class TX, class TW>
constexpr index_t turned_elements(const conv_sizes& s, bool back) {
  if (!D::turns_filters) return 0;
  if (in_winograd<Products, TX, TW>(s))
    return back ? conv_sizes::winograd_elements(s.channels, s.filters)
                : conv_sizes::winograd_elements(s.filters, s.channels);
  return back && !s.is_depthwise() ? s.filters * s.group_channels() * s.taps() : 0;
}
/// Elements of the sums of products from which the gradient of the filters is transformed back.
template <class D, class Products, class TX, class TY>
constexpr index_t winograd_sums(const conv_sizes& s) {
  if (!D::turns_filters || !in_winograd<Products, TX, TY>(s)) return 0;
  return s.winograd_parts() * 16 * s.channels * s.filters;
}
/// Calls f with memory for Elements elements of T, or with null.
template <class T, index_t Elements, class D, class F>
constexpr void with_memory_for(context<D>& ctx, const F& f) {
  if constexpr (Elements == 0) {
    f(static_cast<T*>(nullptr));
  } else {
    tensor<T, shape<Elements>, D> turned(ctx, category::temporary);
    f(turned.data());
  }
}

/// Adds to db [channels] the sums of dy [batch, channels, ...] over all other axes, if it is wanted.
template <class DB, class Y>
constexpr void add_bias_gradient(const gradient_sink<DB>& db, const Y& dy) {
  if (!db) return;
  using D = typename Y::device;
  auto to = db.open(dy.owner());
  using column = image_shape<Y::rank, 1, DB::size, 1, 1>;
  kernel<op::sum_to, D>::forward(dy.owner(), view<typename DB::value_type, column, D>(to.tensor.data()), dy.view(),
                                 to.accumulate);
}

template <index_t ChannelsOfX, index_t ChannelsOfFilters>
inline constexpr bool channels_of_x_are_those_of_the_filters = ChannelsOfX == ChannelsOfFilters;
template <index_t Groups, index_t Count>
inline constexpr bool groups_divide = Groups > 0 && Count % (Groups > 0 ? Groups : 1) == 0;
template <index_t KernelWithItsDilation, index_t ImageWithItsPadding>
inline constexpr bool kernel_is_within_the_image = KernelWithItsDilation <= ImageWithItsPadding;
template <index_t... Numbers>
inline constexpr bool are_at_least_1 = ((Numbers >= 1) && ...);
template <index_t LengthOfBias, index_t Filters>
inline constexpr bool bias_has_one_value_per_filter = LengthOfBias == Filters;
template <class X>
inline constexpr bool only_the_batch_is_bounded = X::bounded_axes == (is_bounded(X::extent_in_type(0)) ? 1 : 0);

template <index_t... Lengths>
inline constexpr index_t length_or = 0;
template <index_t Length, index_t... Rest>
inline constexpr index_t length_or<Length, Rest...> = Length;

}  // namespace detail

namespace op::inline GRADUS_BUILD {

/// The family of convolutions, for checkpoint policies, and their kernels, on pointers and detail::conv_sizes:
///   forward                    y (+)= the convolution of x with the filters w, plus a bias per filter, if not null
///   backward(gradient_of<0>)   dx (+)= its gradient for dy, plus a bias per channel
///   backward(gradient_of<1>)   dw (+)= its gradient for dy
/// The first two get memory for detail::turned_elements, of x's or dy's type, the last for detail::winograd_sums.
struct convolution {
  static constexpr std::string_view name = "conv";
};

/// With options of type gradus::conv: y = x * w + b, the cross-correlation of images (or sequences) x [B, C, (H,) W]
/// with filters w [O, C / groups, (KH,) KW]: y[b, o, i] = sum over c, k of x[b, c, i stride - padding + k dilation]
/// w[o, c, k] + b[o]. With gradus::conv_transpose: y = the gradient of conv(y, w) for x as the gradient of its result,
/// plus b, for x [B, I, H, W] and w [I, O / groups, KH, KW]; so its gradient for x is that convolution of dy, and its
/// gradient for w is the convolution's.
template <auto Options>
struct conv {
  static constexpr bool transposed = gradus::detail::is_transposed<Options>;
  using family = convolution;
  static constexpr std::string_view name = transposed ? "conv_transpose" : "conv";
  static constexpr op_precision precision = op_precision::low;
  static constexpr unsigned cast_operands = 0b011;
  static constexpr unsigned rounds_operands = 0b010;
  static constexpr unsigned copied_operands = 0b100;
  static constexpr save_rule saves = save_inputs(0, 1);

  template <class X, class W>
  using rule = gradus::detail::conv_rule<typename X::shape, typename W::shape, Options>;
  template <class X, class W, class... B>
  static constexpr flop_counts flops() {
    constexpr index_t forward =
        2 * X::shape::extent(0) * rule<X, W>::sizes.products() + sizeof...(B) * rule<X, W>::output::size;
    return {forward, 2 * forward};
  }

  template <class Call, class X, class W, class... B>
  constexpr auto forward(Call how, const X& x, const W& w, const B&... b) const {
    using output = typename rule<X, W>::output;
    with_shape<X, output> y(how.owner(), gradus::detail::with_batch_of<output>(x.extents()));
    multiply<transposed, typename Call::products, rule<X, W>>(how.owner(), sizes(x, w), y, false, x, w, b...);
    return y;
  }
  template <class Saved, class Y, class X, class W, class... B>
  constexpr void backward(const Saved& saved, Y dy, const gradient_sink<X>& dx, const gradient_sink<W>& dw,
                          const gradient_sink<B>&... db) const {
    auto& ctx = dy.owner();
    using D = typename Y::device;
    using products = typename Saved::products;
    const Y& grad = dy;
    const auto of = sizes(dx, dw);
    if (dw) {
      auto to = dw.open(ctx);
      const auto& x = input<0>(saved);
      constexpr index_t sums =
          gradus::detail::winograd_sums<D, products, typename X::value_type, typename Y::value_type>(rule<X, W>::sizes);
      gradus::detail::with_memory_for<float, sums>(ctx, [&](auto* room) {
        const auto add = [&](const auto& of_results, const auto& of_images) {
          kernel<convolution, D>::backward(gradient_of<1>{}, accumulate_in<products>{}, ctx, of, to.tensor.data(),
                                           to.accumulate, of_results.data(), of_images.data(), room);
        };
        if constexpr (transposed) add(x, grad);
        else add(grad, x);
      });
    }
    (gradus::detail::add_bias_gradient(db, grad), ...);
    if (dx) {
      auto to = dx.open(ctx);
      multiply<!transposed, products, rule<X, W>>(ctx, of, to.tensor, to.accumulate, grad, input<1>(saved));
    }
  }

 private:
  static constexpr gradus::detail::conv_sizes sizes(const auto& x, const auto& w) {
    return gradus::detail::conv_sizes_of<Options>(x.extents(), w.extents());
  }
  // to (+)= the convolution of `from`, or, `Back`, its gradient for images, plus a bias.
  template <bool Back, class Products, class Rule, class To, class From, class W, class... B>
  static constexpr void multiply(context<typename From::device>& ctx, const gradus::detail::conv_sizes& of, To& to,
                                 bool accumulate, const From& from, const W& w, const B&... b) {
    using D = typename From::device;
    using T = typename From::value_type;
    constexpr index_t turned =
        gradus::detail::turned_elements<D, Products, T, typename W::value_type>(Rule::sizes, Back);
    gradus::detail::with_memory_for<T, turned>(ctx, [&](auto* room) {
      constexpr accumulate_in<Products> in{};
      if constexpr (Back)
        kernel<convolution, D>::backward(gradient_of<0>{}, in, ctx, of, to.data(), accumulate, from.data(), w.data(),
                                         room, b.data()...);
      else
        kernel<convolution, D>::forward(in, ctx, of, to.data(), accumulate, from.data(), w.data(), room, b.data()...);
    });
  }
};

}  // namespace op::inline GRADUS_BUILD

namespace detail {

// Checks the shapes of a convolution, and applies it.
template <conv Options, class X, class W, class... B>
GRADUS_OF_BUILD constexpr auto convolve(X&& x, W&& w, B&&... b) {
  using sx = shape_of<X>;
  using sw = shape_of<W>;
  constexpr conv_sizes s = conv_sizes_of<Options>(sx{}, sw{});
  GRADUS_REQUIRE("conv<options>(x, w): only the batch may be upto<N>", only_the_batch_is_bounded<sx> && !sw::bounded)
  GRADUS_REQUIRE("conv<options>(x, w): stride and dilation must be at least 1",
                 are_at_least_1<Options.stride.y, Options.stride.x, Options.dilation.y, Options.dilation.x>)
  GRADUS_REQUIRE("conv<options>(x, w): groups must divide the filters, the first extent of w",
                 groups_divide<Options.groups, sw::extent(0)>)
  GRADUS_REQUIRE("conv<options>(x, w): channels of x must equal the second extent of w times groups",
                 channels_of_x_are_those_of_the_filters<sx::extent(1), Options.groups * sw::extent(1)>)
  GRADUS_REQUIRE("conv<options>(x, w): the kernel must not be higher than the padded image",
                 kernel_is_within_the_image<s.y.reach(), s.y.in + 2 * s.y.padding>)
  GRADUS_REQUIRE("conv<options>(x, w): the kernel must not be wider than the padded image",
                 kernel_is_within_the_image<s.x.reach(), s.x.in + 2 * s.x.padding>)
  GRADUS_REQUIRE("conv<options>(x, w, b): the length of b must equal the filters, the first extent of w",
                 bias_has_one_value_per_filter<length_or<shape_of<B>::size..., sw::extent(0)>, sw::extent(0)>)
  return apply(op::conv<Options>{}, std::forward<X>(x), std::forward<W>(w), std::forward<B>(b)...);
}

}  // namespace detail

/// Convolution of images x [B, C, H, W] with filters w [O, C / groups, KH, KW], without a bias: [B, O, Ho, Wo], where
/// Ho = (H + 2 padding - dilation (KH - 1) - 1) / stride + 1, and likewise Wo. As in PyTorch, filters are not flipped.
/// `conv2d<conv{.stride = {2, 1}, .padding = 1}>(x, w)`. B may be upto<N>.
template <conv Options = conv{}, operand X, operand W>
GRADUS_OF_BUILD constexpr auto conv2d(X&& x, W&& w) {
  GRADUS_REQUIRE("conv2d(x, w): x and w must have four axes each", shape_of<X>::rank == 4 && shape_of<W>::rank == 4)
  return detail::convolve<Options>(std::forward<X>(x), std::forward<W>(w));
}
/// Convolution of images with a bias b [O]: conv2d(x, w) + b for each filter, [B, O, Ho, Wo].
template <conv Options = conv{}, operand X, operand W, operand B>
GRADUS_OF_BUILD constexpr auto conv2d(X&& x, W&& w, B&& b) {
  GRADUS_REQUIRE("conv2d(x, w, b): x and w must have four axes each, and b one",
                 shape_of<X>::rank == 4 && shape_of<W>::rank == 4 && shape_of<B>::rank == 1)
  return detail::convolve<Options>(std::forward<X>(x), std::forward<W>(w), std::forward<B>(b));
}

/// Convolution of sequences x [B, C, L] with filters w [O, C / groups, K], without a bias: [B, O, Lo]; see conv2d.
template <conv Options = conv{}, operand X, operand W>
GRADUS_OF_BUILD constexpr auto conv1d(X&& x, W&& w) {
  GRADUS_REQUIRE("conv1d(x, w): x and w must have three axes each", shape_of<X>::rank == 3 && shape_of<W>::rank == 3)
  return detail::convolve<Options>(std::forward<X>(x), std::forward<W>(w));
}
/// Convolution of sequences with a bias b [O]: conv1d(x, w) + b for each filter, [B, O, Lo].
template <conv Options = conv{}, operand X, operand W, operand B>
GRADUS_OF_BUILD constexpr auto conv1d(X&& x, W&& w, B&& b) {
  GRADUS_REQUIRE("conv1d(x, w, b): x and w must have three axes each, and b one",
                 shape_of<X>::rank == 3 && shape_of<W>::rank == 3 && shape_of<B>::rank == 1)
  return detail::convolve<Options>(std::forward<X>(x), std::forward<W>(w), std::forward<B>(b));
}

}  // namespace gradus
