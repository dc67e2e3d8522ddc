#pragma once
// One application of an operation: which types its operands' policy asks for, and what its forward is told.

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../memory/context.hpp"
#include "../precision/policy.hpp"
#include "../precision/promotion.hpp"
#include "operand.hpp"

namespace gradus {

/// The first argument of every operation's `forward`.
/// @tparam Keep       the result is to hold the statistics that the gradient rule wants besides the output
/// @tparam Products   what products are computed in: a type, or a format such as tf32_products
/// @tparam Listed     the operation is in one of the lists `low` and `full`
/// @tparam Reduce     what reductions give
/// @tparam Gradients  what the gradient of each operand accumulates in
template <class D, bool Keep, bool Listed, class Products, class Reduce, class... Gradients>
class call {
 public:
  static constexpr bool keep = Keep;
  using products = Products;
  /// What sums inside the operation are accumulated in.
  using accumulate = std::conditional_t<is_product_format<Products>, float, Products>;
  using reduce = Reduce;
  /// What an elementwise operation gives whose operands' types promote to T.
  template <class T>
  using result = std::conditional_t<Listed, Reduce, T>;
  template <std::size_t I>
  using gradient = std::tuple_element_t<I, std::tuple<Gradients...>>;

  constexpr explicit call(context<D>& ctx) : ctx_(&ctx) {}
  /// Where the operation runs and has its memory from.
  constexpr context<D>& owner() const { return *ctx_; }

 private:
  context<D>* ctx_;
};

/// Told to a kernel in which type its products are computed and summed up.
template <class Products>
struct accumulate_in {};

namespace detail {

/// The list that an operation is in by itself (`static constexpr op_precision precision`).
template <class Op>
constexpr op_precision list_of() {
  if constexpr (requires { Op::precision; }) return Op::precision;
  else return op_precision::widest;
}
/// Which operands of an operation of the list `low` are cast, by bit (`static constexpr unsigned cast_operands`); all
/// of them by default.
template <class Op>
constexpr unsigned cast_operands_of() {
  if constexpr (requires { Op::cast_operands; }) return Op::cast_operands;
  else return ~0u;
}

/// Which operands of an operation of the list `low` kernels round to the type of the first one on the way, by bit
/// (`static constexpr unsigned rounds_operands`): a parameter in such a place is taken as it is stored.
template <class Op>
constexpr unsigned rounds_operands_of() {
  if constexpr (requires { Op::rounds_operands; }) return Op::rounds_operands;
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

// Stands where operands of a product are of types that do not go together.
struct types_differ {};

// What a product of operands of these types computes in where no policy says: their one type, or a 16-bit one where the
// others are float. Void stands for an operand that has no say.
template <class A, class B>
constexpr auto meet(std::type_identity<A> a, std::type_identity<B> b) {
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
constexpr auto meet_all(std::type_identity<A> a, Rest... rest) {
  if constexpr (sizeof...(Rest) == 0) return a;
  else return meet(a, meet_all(rest...));
}
// True if operand I, an X, is cast where the operation is on the list `low`.
template <class Op, std::size_t I>
inline constexpr bool casts_operand =
    I < 32 ? ((cast_operands_of<Op>() >> (I % 32)) & 1u) != 0 : cast_operands_of<Op>() == ~0u;
template <class Op, std::size_t I, class X>
inline constexpr bool casts_number = casts_operand<Op, I> && is_floating<value_of_t<X>>;
// The type of operand I if it is cast with the others, void otherwise.
template <class Op, std::size_t I, class X>
using cast_with_others = std::type_identity<std::conditional_t<casts_number<Op, I, X>, value_of_t<X>, void>>;

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

  // What operands are cast to; void where they are taken as they are, and types_differ where they do not go together.
  template <class Met>
  static constexpr auto cast_of(Met met) {
    using T = typename Met::type;
    if constexpr (!has_policy || std::is_same_v<T, types_differ> || std::is_void_v<T>) return met;
    else if constexpr (std::is_same_v<T, double> != std::is_same_v<typename policy::compute, double>)
      return std::type_identity<types_differ>{};  // autocast leaves doubles alone, and so do we
    else if constexpr (list == op_precision::low) return std::type_identity<typename policy::compute>{};
    else return std::type_identity<typename policy::reduce>{};
  }
  template <std::size_t... I>
  static constexpr auto find_cast(std::index_sequence<I...>) {
    if constexpr (own_list != op_precision::low) return std::type_identity<void>{};
    else return cast_of(meet_all(cast_with_others<Op, I, Xs>{}...));
  }
  using cast = typename decltype(find_cast(std::index_sequence_for<Xs...>{}))::type;
};

template <class D, bool Keep, class Op, class... Xs>
using call_of = call<D, Keep, call_rules<Op, Xs...>::listed, typename call_rules<Op, Xs...>::products,
                     typename call_rules<Op, Xs...>::reduce, typename gradient_tensor_of<Xs>::value_type...>;

}  // namespace detail
}  // namespace gradus
