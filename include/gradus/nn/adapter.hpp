#pragma once
// Low-rank adapters of linear layers: "LoRA: Low-Rank Adaptation of Large Language Models" (Hu et al., 2021). A model
// of `adapted<...>` has frozen parameters, and its linear layers may have adapters, which are trained in their place.

#include <cmath>
#include <cstddef>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../core/config.hpp"
#include "../model/parameters.hpp"
#include "../ops/dropout/dropout.hpp"
#include "../ops/elementwise/arithmetic.hpp"
#include "../ops/matmul/matmul.hpp"
#include "quantized.hpp"

namespace gradus::nn {

/// How a model of adapters stores the matrices of its linear layers: in the policy's compute type, or in 8 bits, see
/// quantized_weight. Matrices whose columns are no multiple of 64 stay in the compute type.
enum class base_storage { stored, int8 };

/// The type argument of models that are trained by adapters: parameters are frozen, in the compute type of the policy,
/// and adapters have the policy itself.
/// @tparam Rank columns of an adapter's first matrix
template <class Device, class Precision, index_t Rank, base_storage Base = base_storage::stored>
struct adapted : on<Device, frozen<Precision>> {
  using trained = on<Device, Precision>;
  static constexpr index_t rank = Rank;
  static constexpr base_storage base = Base;
};

/// Numbers of an adapter.
struct adapter_settings {
  double alpha = 16;             ///< what it adds is multiplied by alpha / rank
  bool rank_stabilized = false;  ///< by alpha / sqrt(rank) instead (Kalajdzievski 2023, arXiv 2312.03732)
  double dropout = 0;            ///< of what it reads
  friend constexpr bool operator==(const adapter_settings&, const adapter_settings&) = default;
};

/// What an adapter adds to a linear layer's output: x a b, scaled; x [..., In] -> [..., Out]. b starts as zeros.
template <class X, index_t In, index_t Out, index_t Rank>
struct low_rank_adapter {
  static constexpr index_t rank = Rank;
  param<X, In, Rank> a{start::by_inputs, 0.57735026918962576};  // the deviation of PEFT's, which is uniform
  param<X, Rank, Out> b{start::zeros};
  adapter_settings settings;
  GRADUS_MEMBERS(a, b)

  double scale() const {
    return settings.alpha / (settings.rank_stabilized ? std::sqrt(static_cast<double>(Rank)) : double{Rank});
  }
  GRADUS_OF_BUILD constexpr auto operator()(const auto& x) const {
    return linear(linear(dropout(x, settings.dropout), a) * scale(), b);
  }
};

namespace detail {
template <class X, index_t In, index_t Out>
struct adapter_slot {
  using type = std::tuple<>;
};
template <class X, index_t In, index_t Out>
  requires(X::rank > 0)
struct adapter_slot<X, In, Out> {
  using type = std::optional<low_rank_adapter<typename X::trained, In, Out, X::rank>>;
};

template <class X, index_t In, index_t Out>
struct weight_of_linear {
  using type = param<X, In, Out>;
};
template <class X, index_t In, index_t Out>
  requires(X::base == base_storage::int8 && Out % quantized_block == 0)
struct weight_of_linear<X, In, Out> {
  using type = quantized_weight<X, In, Out>;
};

template <class M>
inline constexpr bool is_adapter_slot = false;
template <class X, index_t In, index_t Out, index_t Rank>
inline constexpr bool is_adapter_slot<std::optional<low_rank_adapter<X, In, Out, Rank>>> = true;
struct adapter_slots_only {
  template <class M>
  static constexpr bool takes = is_adapter_slot<M>;
};
}  // namespace detail

/// The place of a linear layer's adapter: a std::optional, or an empty std::tuple in models that have none.
template <class X, index_t In, index_t Out>
using adapter_slot = typename detail::adapter_slot<X, In, Out>::type;

/// The weight of a linear layer: a parameter, or a quantized_weight.
template <class X, index_t In, index_t Out>
using linear_weight = typename detail::weight_of_linear<X, In, Out>::type;

/// layer(x), and what the adapter adds to it.
template <class Slot, class X, class Layer>
GRADUS_OF_BUILD constexpr auto with_adapter(const Slot& slot, X&& x, const Layer& layer) {
  if constexpr (detail::is_adapter_slot<Slot>) {
    if (!slot) return layer(x);
    auto added = (*slot)(x);
    return layer(std::forward<X>(x)) + std::move(added);
  } else {
    return layer(std::forward<X>(x));
  }
}

/// Calls f(name of the layer, slot) for every linear layer of a model of adapted<...>.
template <class Model, class F>
void for_each_adapter_slot(Model& model, const F& f) {
  gradus::detail::for_each<detail::adapter_slots_only>(
      model, [&](std::string_view name, auto& slot) { f(name.substr(0, name.rfind('.')), slot); });
}
/// Gives adapters to the linear layers whose names `names` chooses: name -> bool. Returns their number. Call it before
/// init(), and before an optimizer is made.
template <class Model, class Names>
std::size_t add_adapters(Model& model, const Names& names, const adapter_settings& settings = {}) {
  std::size_t count = 0;
  for_each_adapter_slot(model, [&](std::string_view name, auto& slot) {
    if (!names(name)) return;
    slot.emplace();
    slot->settings = settings;
    ++count;
  });
  return count;
}

}  // namespace gradus::nn
