#pragma once
// The result type of operands of different types, independent of their order.

#include <cstdint>
#include <type_traits>

#include "../core/dtype.hpp"

namespace gradus {

namespace detail {

template <class A, class B>
constexpr auto promote_two() {
  if constexpr (std::is_same_v<A, B>) return std::type_identity<A>{};
  else if constexpr (is_floating<A> && !is_floating<B>) return std::type_identity<A>{};
  else if constexpr (!is_floating<A> && is_floating<B>) return std::type_identity<B>{};
  else if constexpr (is_floating<A>) {
    if constexpr (sizeof(A) != sizeof(B))
      return std::type_identity<std::conditional_t<(sizeof(A) > sizeof(B)), A, B>>{};
    else return std::type_identity<float>{};  // bf16 and f16: neither represents the other
  } else {
    if constexpr (sizeof(A) != sizeof(B))
      return std::type_identity<std::conditional_t<(sizeof(A) > sizeof(B)), A, B>>{};
    else return std::type_identity<std::conditional_t<std::is_same_v<A, bool>, B, A>>{};  // u8 and bool
  }
}

template <class... Ts>
struct promoted;
template <class T>
struct promoted<T> {
  using type = T;
};
template <class A, class B, class... Rest>
struct promoted<A, B, Rest...> : promoted<typename decltype(promote_two<A, B>())::type, Rest...> {};

}  // namespace detail

/// The common type of operands, as in PyTorch: floating-point before integers, then the wider; float for bf16 with f16.
template <class... Ts>
using promote = typename detail::promoted<Ts...>::type;

}  // namespace gradus
