#pragma once
// In which types an operation computes: the rules that a policy and the operands' types give, and the operation cast.

#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../core/config.hpp"
#include "../core/cost.hpp"
#include "../memory/context.hpp"
#include "../precision/policy.hpp"
#include "../precision/promotion.hpp"
#include "op.hpp"
#include "traced.hpp"

namespace gradus {

/// The first argument of every operation's `forward`: its context and its types.
/// @tparam Statistics forward returns the statistics that its backward needs besides the output
/// @tparam Products   type of products, or a format such as tf32_products
/// @tparam Listed     a policy or the operation itself puts it on the list `low` or `full`
/// @tparam Reduce     type of the results of reductions
/// @tparam Gradients  for each operand, the type in which its gradient accumulates
template <class D, bool Statistics, bool Listed, class Products, class Reduce, class... Gradients>
class call {
 public:
  static constexpr bool saves_statistics = Statistics;
  using products = Products;
  /// The type in which sums within the operation accumulate.
  using accumulate = std::conditional_t<is_product_format<Products>, float, Products>;
  using reduce = Reduce;
  /// The type of the output of an operation on no list of its own whose operands' types promote to T.
  template <class T>
  using result = std::conditional_t<Listed, Reduce, T>;
  template <std::size_t At>
  using gradient = std::tuple_element_t<At, std::tuple<Gradients...>>;

  constexpr explicit call(context<D>& ctx) : ctx_(&ctx) {}
  /// The context that runs the operation and allocates its output.
  constexpr context<D>& owner() const { return *ctx_; }

 private:
  context<D>* ctx_;
};

/// An argument of kernels: the type in which they compute and sum products.
template <class Products>
struct accumulate_in {};

namespace detail {

/// The list that an operation declares (`static constexpr op_precision precision`).
template <class Op>
constexpr op_precision list_of() {
  if constexpr (requires { Op::precision; }) return Op::precision;
  else return op_precision::widest;
}
/// The operands of an operation on the list `low` that are cast, by bit (`static constexpr unsigned cast_operands`);
/// all of them by default.
template <class Op>
constexpr unsigned cast_operands_of() {
  if constexpr (requires { Op::cast_operands; }) return Op::cast_operands;
  else return ~0u;
}

/// The operands, by bit, that the kernels of an operation on the list `low` round as they read them, to the first
/// operand's type or the output's (`static constexpr unsigned rounds_operands`). A parameter among them is not cast.
template <class Op>
constexpr unsigned rounds_operands_of() {
  if constexpr (requires { Op::rounds_operands; }) return Op::rounds_operands;
  else return 0;
}

/// The operands, by bit, that an operation on the list `low` does not cast, but whose kernels on a device that cannot
/// round operands would (`static constexpr unsigned copied_operands`): there a parameter is passed by its cached copy.
template <class Op>
constexpr unsigned copied_operands_of() {
  if constexpr (requires { Op::copied_operands; }) return Op::copied_operands;
  else return 0;
}

// The policy of the first parameter among the operands; void if there is none.
template <class... Xs>
struct policy_among {
  using type = void;
};
template <class X, class... Rest>
struct policy_among<X, Rest...> : policy_among<Rest...> {};
template <class X, class... Rest>
  requires requires { typename X::policy; }
struct policy_among<X, Rest...> {
  using type = typename X::policy::precision;
};

// The result of common_product_type for operands that have none.
struct types_differ {};

// The type in which a product of these operands computes if no parameter brings a policy: their one type, or a 16-bit
// type if the others are float. An operand that is not cast counts as void.
template <class A, class B>
constexpr auto common_product_type(std::type_identity<A> a, std::type_identity<B> b) {
  constexpr auto short_float = []<class T>(std::type_identity<T>) {
    return std::is_same_v<T, bf16> || std::is_same_v<T, f16>;
  };
  constexpr bool of_a = std::is_void_v<B> || std::is_same_v<A, B> || (short_float(a) && std::is_same_v<B, float>);
  constexpr bool of_b = std::is_void_v<A> || (short_float(b) && std::is_same_v<A, float>);
  if constexpr (of_a) return a;
  else if constexpr (of_b) return b;
  else return std::type_identity<types_differ>{};
}
template <class A, class... Rest>
constexpr auto common_product_type_of(std::type_identity<A> a, Rest... rest) {
  if constexpr (sizeof...(Rest) == 0) return a;
  else return common_product_type(a, common_product_type_of(rest...));
}
// True if an operation on the list `low` casts operand At.
template <class Op, std::size_t At>
inline constexpr bool casts_operand =
    At < 32 ? ((cast_operands_of<Op>() >> (At % 32)) & 1u) != 0 : cast_operands_of<Op>() == ~0u;
// True if Op casts operand At, of type X, whose elements are floating-point. An operation of the list `widest`, moved
// to `low`, casts only parameters.
template <class Op, std::size_t At, class X>
inline constexpr bool casts_number = casts_operand<Op, At> && is_floating<value_of_t<X>> &&
                                     (list_of<Op>() == op_precision::low || is_param<std::remove_cvref_t<X>>);
// The type of operand At if the operation casts it, void otherwise.
template <class Op, std::size_t At, class X>
using type_if_cast = std::type_identity<std::conditional_t<casts_number<Op, At, X>, value_of_t<X>, void>>;

// The types of one call of Op on operands Xs.
template <class Op, class... Xs>
struct call_rules {
  using policy = typename policy_among<Xs...>::type;
  static constexpr bool has_policy = !std::is_void_v<policy>;
  using widest = promote<value_of_t<Xs>...>;

  static constexpr op_precision find_list() {
    if constexpr (has_policy) return policy::template list_of<Op>(detail::list_of<Op>());
    else return detail::list_of<Op>();
  }
  static constexpr op_precision own_list = detail::list_of<Op>();
  static constexpr op_precision list = find_list();
  static constexpr bool listed = list != op_precision::widest;

  static constexpr auto find_products() {
    if constexpr (has_policy) {
      if constexpr (is_product_format<typename policy::accumulate>)
        return std::type_identity<typename policy::accumulate>{};
      else return std::type_identity<promote<typename policy::accumulate, compute_type<widest>>>{};
    } else {
      return std::type_identity<compute_type<widest>>{};
    }
  }
  using products = typename decltype(find_products())::type;

  // A reduction of doubles stays in double.
  static constexpr auto find_reduce() {
    if constexpr (!has_policy || std::is_same_v<widest, double>) return std::type_identity<compute_type<widest>>{};
    else if constexpr (own_list != op_precision::low && list == op_precision::low)
      return std::type_identity<typename policy::compute>{};
    else return std::type_identity<typename policy::reduce>{};
  }
  using reduce = typename decltype(find_reduce())::type;

  // The type that operands are cast to; void if none is cast, types_differ if they have no common type.
  template <class Common>
  static constexpr auto cast_of(Common common) {
    using T = typename Common::type;
    if constexpr (!has_policy || std::is_same_v<T, types_differ> || std::is_void_v<T>) return common;
    else if constexpr (std::is_same_v<T, double> != std::is_same_v<typename policy::compute, double>)
      return std::type_identity<types_differ>{};  // as in PyTorch's autocast
    else if constexpr (list == op_precision::low) return std::type_identity<typename policy::compute>{};
    else return std::type_identity<typename policy::reduce>{};
  }
  template <std::size_t... Is>
  static constexpr auto find_cast(std::index_sequence<Is...>) {
    constexpr bool casts = own_list == op_precision::low || (own_list == op_precision::widest && listed);
    if constexpr (!casts) return std::type_identity<void>{};
    else return cast_of(common_product_type_of(type_if_cast<Op, Is, Xs>{}...));
  }
  using cast = typename decltype(find_cast(std::index_sequence_for<Xs...>{}))::type;
};

// The type of an operand's gradient; void for a parameter that has none.
template <class X>
using type_of_gradient = std::conditional_t<is_constant_param<X>, void, typename gradient_tensor_of<X>::value_type>;
template <class D, bool Statistics, class Op, class... Xs>
using call_of = call<D, Statistics, call_rules<Op, Xs...>::listed, typename call_rules<Op, Xs...>::products,
                     typename call_rules<Op, Xs...>::reduce, type_of_gradient<Xs>...>;

}  // namespace detail

}  // namespace gradus

namespace gradus::op::inline GRADUS_BUILD {

/// Converts the elements to T. Backward converts the gradient back.
template <class T>
struct cast {
  static constexpr std::string_view name = "cast";
  static constexpr save_rule saves = save_nothing();

  template <class X>
  using output_of = tensor<T, typename X::shape, typename X::device>;

  template <class Call, class X>
  constexpr output_of<X> forward(Call how, const X& x) const {
    if constexpr (std::is_same_v<X, output_of<X>>) return x;
    else {
      output_of<X> y(how.owner(), x.extents());
      kernel<convert, typename X::device>::forward(how.owner(), y.data(), x.data(), x.extents().size, false);
      return y;
    }
  }
  template <class Saved, class Y, class X>
  constexpr void backward(const Saved&, Y dy, const gradient_sink<X>& dx) const {
    if (dx) dx.give(std::move(dy));
  }
};

}  // namespace gradus::op::inline GRADUS_BUILD
