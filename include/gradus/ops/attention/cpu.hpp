#pragma once
// The CPU kernels of attention, without and with a key-value cache: pass strided operands to cpu_tasks.hpp.

#include <type_traits>

#include "../../core/config.hpp"
#include "../elementwise/cpu.hpp"
#include "../matmul/cpu.hpp"
#include "../permute/cpu.hpp"
#include "../slice/cpu.hpp"
#include "../softmax/cpu.hpp"
#include "attention.hpp"
#include "cached.hpp"
#include "cpu_tasks.hpp"

namespace gradus {

template <index_t Depth, bool Causal>
struct kernel<op::attention_pass<Depth, only_causal<Causal>>, cpu> {
  template <class C, class T>
  static void forward(context<cpu>& ctx, const attention_sizes& sizes, only_causal<Causal>, attention_operand<T> out,
                      C* lse, attention_operand<const T> q, attention_operand<const T> k,
                      attention_operand<const T> v) {
    cpu_kit::attention_forward<Depth>(ctx, extents(sizes), out, lse, q, k, v);
  }
  template <class C, class T>
  static void backward(context<cpu>& ctx, const attention_sizes& sizes, only_causal<Causal>,
                       const attention_results<C, T>& to, const attention_inputs<C, T>& from) {
    cpu_kit::attention_backward<Depth>(ctx, extents(sizes), to.q, to.k, to.v, from.dy, from.q, from.k, from.v, from.y,
                                       from.lse);
  }

 private:
  static cpu_kit::attention_extents extents(const attention_sizes& of) {
    return {of.batch, of.heads, of.queries, of.keys, Causal, 0, of.group()};
  }
};

template <index_t Depth, class C>
struct kernel<op::attention_pass<Depth, attention_rules<C>>, cpu> {
  template <class T>
  static void forward(context<cpu>& ctx, const attention_sizes& sizes, const attention_rules<C>& rules,
                      attention_operand<T> out, C* lse, attention_operand<const T> q, attention_operand<const T> k,
                      attention_operand<const T> v) {
    cpu_kit::attention_forward_ruled<Depth>(ctx, extents(sizes), rules, out, lse, q, k, v);
  }
  template <class T>
  static void backward(context<cpu>& ctx, const attention_sizes& sizes, const attention_rules<C>& rules,
                       const attention_results<C, T>& to, const attention_inputs<C, T>& from) {
    cpu_kit::attention_backward_ruled<Depth>(ctx, extents(sizes), rules, to, from);
  }

 private:
  static cpu_kit::attention_extents extents(const attention_sizes& of) {
    return {of.batch, of.heads, of.queries, of.keys, false, 0, of.group()};
  }
};

template <index_t Depth, class Rules>
struct kernel<op::cached_attention<Depth, Rules>, cpu> {
  template <class T>
  static void forward(context<cpu>& ctx, const attention_sizes& of, const Rules& rules, attention_operand<T> out,
                      const detail::cached_operands<T>& x) {
    using C = compute_type<T>;
    const cpu_kit::attention_extents extents{of.batch, of.heads, of.queries, of.keys, true, 0, of.group()};
    if constexpr (std::is_same_v<Rules, only_causal<true>>) cpu_kit::attention_cached<Depth, C>(ctx, extents, out, x);
    else cpu_kit::attention_cached_ruled<Depth, C>(ctx, extents, rules, out, x);
  }
};

}  // namespace gradus
