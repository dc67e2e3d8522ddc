#pragma once
#include <algorithm>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../../core/config.hpp"
#include "../../cpu/coarse_pack.hpp"
#include "../../cpu/parallel.hpp"
#include "../../cpu/simd_math.hpp"
#include "../broadcast/cpu.hpp"
#include "elementwise.hpp"

namespace gradus {

/// One vectorised pass over rows of the output. An operand is read along the row, or is constant along it (last extent
/// 1).
template <class F>
struct kernel<op::map<F>, cpu> {
  template <class T, class Out, class... Ts, class... Ins>
  static void forward(context<cpu>& ctx, [[maybe_unused]] const F& f, view<T, Out> out, view<const Ts, Ins>... in) {
    if constexpr (!GRADUS_GPU_PASS) forward_on(ctx, f, out, in...);
  }

  template <class T, class Out, class... Ts, class... Ins, class... Gs>
  static void backward(context<cpu>& ctx, const F& f, view<const T, Out> grad, std::tuple<view<const Ts, Ins>...> in,
                       elementwise_target<Gs>... to) {
    if constexpr (!GRADUS_GPU_PASS)
      backward_on(ctx, f, grad, in, std::make_tuple(to...), std::index_sequence_for<Gs...>{});
  }

 private:
  // What f is evaluated on, where its result is stored as T.
  template <class T>
  using number = std::conditional_t<sizeof(T) == 2 && has_coarse_form<F>, coarse_pack, pack<compute_type<T>>>;

  template <class T, class Out, class... Ts, class... Ins>
  static void forward_on(context<cpu>& ctx, const F& f, view<T, Out> out, view<const Ts, Ins>... in) {
    using C = compute_type<T>;
    rows<Out, Ins...>(ctx, [&](index_t row, index_t begin, index_t end) {
      const auto at = std::make_tuple(in.data() + offset<Ins, Out, sizeof...(Ins)>(row)...);
      T* to = out.data() + row * columns_of<grid<Out, Ins...>>;
      std::apply(
          [&](const auto*... from) {
            if constexpr (std::is_floating_point_v<C>) {
              for (index_t i = begin; i < end; i += lanes<C>) {
                const index_t n = std::min<index_t>(end - i, lanes<C>);
                const number<T> found(f(number<T>(get<C, moves<Ins, Out, Ins...>>(from, i, n))...));  // compiled once
                const pack<C> y(found);
                if (n == lanes<C>) y.store(to + i);
                else y.store(to + i, n);
              }
            } else {
              // Integers are computed in the wider of i32 and what they are stored in.
              using I = std::conditional_t<((sizeof(Ts) == 8) || ...), std::int64_t, std::int32_t>;
              if constexpr (gradus::detail::functor_takes<F, T>)
                for (index_t i = begin; i < end; ++i)
                  to[i] = static_cast<T>(f(static_cast<I>(from[moves<Ins, Out, Ins...> ? i : 0])...));
            }
          },
          at);
    });
  }

  // Without broadcasting (or with one-element operands only) the output is one long row.
  template <class Out, class... Ins>
  static constexpr bool flat = ((std::is_same_v<Ins, Out> || Ins::size == 1) && ...);
  template <class Out, class... Ins>
  using grid =
      std::conditional_t<flat<Out, Ins...>, shape<1, Out::size>, shape<Out::size / columns_of<Out>, columns_of<Out>>>;
  template <class In, class Out, class... Ins>
  static constexpr bool moves =
      flat<Out, Ins...> ? (In::size != 1 || Out::size == 1) : columns_of<In> == columns_of<Out>;

  template <class In, class Out, index_t Operands>
  static index_t offset(index_t row) {
    if constexpr (In::size == 1) return 0;
    else return row == 0 ? 0 : broadcast_row_offset<In, Out>(row);
  }

  template <class Out, class... Ins, class Body>
  static void rows(context<cpu>& ctx, const Body& body) {
    constexpr index_t row_count = Out::size / columns_of<grid<Out, Ins...>>;
    constexpr index_t columns = columns_of<grid<Out, Ins...>>;
    constexpr index_t grain = 1 << 14;
    if constexpr (row_count == 1) {
      cpu_kit::parallel_elements(ctx, columns, grain,
                                 [&](index_t begin, index_t end) { body(index_t{0}, begin, end); });
    } else {
      cpu_kit::parallel_elements(ctx, row_count, columns >= grain ? 1 : grain / columns,
                                 [&](index_t first, index_t last) {
                                   for (index_t r = first; r < last; ++r) body(r, index_t{0}, columns);
                                 });
    }
  }

  template <class C, bool Moves, class S>
  static GRADUS_INLINE pack<C> get(const S* from, index_t i, index_t n) {
    if constexpr (Moves) return n == lanes<C> ? pack<C>::load(from + i) : pack<C>::load(from + i, n);
    else return pack<C>(static_cast<C>(*from));
  }

  template <class T, class Out, class Inputs, class Targets, std::size_t... K>
  static void backward_on(context<cpu>& ctx, const F& f, view<const T, Out> grad, const Inputs& in, const Targets& to,
                          std::index_sequence<K...>) {
    using C = compute_type<T>;
    using D = dual<number<T>, static_cast<int>(sizeof...(K))>;
    constexpr index_t columns = columns_of<grid<Out, typename std::tuple_element_t<K, Inputs>::shape...>>;
    rows<Out, typename std::tuple_element_t<K, Inputs>::shape...>(ctx, [&](index_t row, index_t begin, index_t end) {
      const index_t start = row * columns;
      for (index_t i = begin; i < end; i += lanes<C>) {
        const index_t n = std::min<index_t>(end - i, lanes<C>);
        const D value(f(D(number<T>(operand<K, C, Out, typename std::tuple_element_t<K, Inputs>::shape...>(
                              std::get<K>(in), row, i, n)),
                          static_cast<int>(K))...));
        const pack<C> g =
            n == lanes<C> ? pack<C>::load(grad.data() + start + i) : pack<C>::load(grad.data() + start + i, n);
        (put(std::get<K>(to), start + i, n, gradus::detail::gradient_through<F>(g, pack<C>(value.partial[K]))), ...);
      }
    });
  }
  template <std::size_t K, class C, class Out, class... Ins, class S, class In>
  static GRADUS_INLINE pack<C> operand(const view<const S, In>& in, index_t row, index_t i, index_t n) {
    if constexpr (is_linear_functor<F>) {
      return pack<C>(1);  // any value serves: the derivatives do not depend on it
    } else {
      const S* from = in.data() + offset<In, Out, sizeof...(Ins)>(row);
      constexpr bool along = moves<In, Out, Ins...>;
      return get<C, along>(from, i, n);
    }
  }
  template <class G, class C>
  static GRADUS_INLINE void put(const elementwise_target<G>& to, index_t at, index_t n, pack<C> g) {
    if (to.data == nullptr) return;
    if constexpr (is_floating<G>) {
      if (n == lanes<C>) {
        if (to.accumulate) g = g + pack<C>::load(to.data + at);
        g.store(to.data + at);
      } else {
        if (to.accumulate) g = g + pack<C>::load(to.data + at, n);
        g.store(to.data + at, n);
      }
    }
  }
};

}  // namespace gradus
