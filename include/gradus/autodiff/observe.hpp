#pragma once
// What notifies observers: of gradients that are complete, of values that an operation computed or saved.

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "../core/config.hpp"
#include "../core/vector.hpp"
#include "../memory/context.hpp"
#include "../tensor/tensor.hpp"

namespace gradus {

struct node;

/// Is notified during backward() of each parameter whose gradient is complete, so that work on it (a reduction over
/// machines, an update) can begin; see tape::observe.
class gradient_observer {
 public:
  constexpr gradient_observer() = default;
  gradient_observer(const gradient_observer&) = delete;
  gradient_observer& operator=(const gradient_observer&) = delete;
  constexpr virtual ~gradient_observer() = default;
  /// The gradient of the parameter `p` with `&p.slot() == slot` is complete for this recording; it is empty if no loss
  /// depends on p. Called once for each parameter that the recording used, in and out of checkpoint regions, in the
  /// order in which they become complete.
  constexpr virtual void complete(const void* slot) = 0;
};

namespace detail {

// The first operation of a recording that uses each parameter. Backward runs the last operation first, so a gradient is
// complete after the backward of that operation, and entries are removed from the end. A checkpoint region counts as
// one operation, because backward replays and unwinds all of its operations before the region's node is done.
class first_uses {
 public:
  // The operation or region whose node is added next uses the parameter.
  constexpr void add(const void* slot) {
    if (std::none_of(all_.begin(), all_.end(), [&](const use& u) { return u.slot == slot; }))
      all_.push_back({nullptr, slot});
  }
  constexpr void set_node(const node* by) {
    for (auto u = all_.rbegin(); u != all_.rend() && u->by == nullptr; ++u) u->by = by;
  }
  // Backward of node `by` has run.
  constexpr void notify_complete(const node* by, gradient_observer& who) {
    while (!all_.empty() && all_.back().by == by) {
      const void* const slot = all_.back().slot;
      all_.pop_back();
      who.complete(slot);
    }
  }
  constexpr void clear() { all_.clear(); }

 private:
  struct use {
    const node* by;
    const void* slot;
  };
  detail::vector<use> all_;
};

// Element i of an array of T.
template <class T>
double read_element(const void* data, std::size_t i) {
  return static_cast<double>(static_cast<compute_type<T>>(static_cast<const T*>(data)[i]));
}
GRADUS_NOINLINE inline void notify_elements(const context<cpu>& ctx, const buffer<cpu>& elements, std::size_t n,
                                            double (*read)(const void*, std::size_t), std::size_t operand) {
  if (elements) ctx.observed_by()->computed(ctx.current(), {elements.data(), n, read, operand});
}
// Reports the values that the current operation computed to the context's observer.
template <class D, class X>
constexpr void notify_computed(const context<D>& ctx, const X& x, std::size_t operand) {
  if constexpr (std::is_same_v<D, cpu> && is_tensor<X>)
    if constexpr (is_floating<typename X::value_type>)
      notify_elements(ctx, x.storage(), x.extents().size, &read_element<typename X::value_type>, operand);
}

template <class D>
GRADUS_NOINLINE constexpr void notify_buffer(const context<D>& ctx, std::string_view by, const buffer<D>& saved) {
  if (saved) ctx.observed_by()->saved(by, saved.request());
}
// Reports a tensor, or statistics with several `parts()`, that operation `by` saved to the context's observer.
template <class D, class V>
constexpr void notify_saved(const context<D>& ctx, std::string_view by, const V& v) {
  if constexpr (is_tensor<V>) notify_buffer(ctx, by, v.storage());
  else if constexpr (requires { v.parts(); })
    std::apply([&](const auto&... part) { (notify_saved(ctx, by, part), ...); }, v.parts());
}

}  // namespace detail

}  // namespace gradus
