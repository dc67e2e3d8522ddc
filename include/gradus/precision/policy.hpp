#pragma once
// Precision policies: types that select a model's types of storage, computation, accumulation and reduction.

#include <string_view>
#include <type_traits>

#include "../core/config.hpp"
#include "../core/device.hpp"
#include "../core/dtype.hpp"
#include "../core/extent.hpp"

namespace gradus {

/// The precision lists of operations, as in PyTorch's autocast.
enum class op_precision {
  low,    ///< products (matmul, linear, conv, attention): operands are cast to the policy's `compute`
  full,   ///< exp, log, pow, softmax, norms, sums, losses: operands are not cast, results have type `reduce`
  widest  ///< everything else: results have the widest of the operands' types
};

// What in_low and in_full below name.
namespace op::inline GRADUS_BUILD {
struct embedding;
struct layer_norm;
struct rms_norm;
template <index_t Groups>
struct channel_norm;
template <class F>
struct map;
}  // namespace op::inline GRADUS_BUILD
namespace functor {
struct add;
}

/// A precision policy.
/// @tparam Store      type of stored parameters
/// @tparam Compute    type of the operands of products
/// @tparam Accumulate type of sums inside an operation
/// @tparam Reduce     type of the results of reductions (norms, sums, losses)
/// @tparam Gradient   type in which gradients of parameters accumulate
template <class Store, class Compute = Store, class Accumulate = compute_type<Compute>,
          class Reduce = compute_type<Compute>, class Gradient = Store>
struct precision {
  static_assert(is_floating<Store> && is_floating<Compute> && is_floating<Reduce> && is_floating<Gradient>,
                "precision<store, compute, accumulate, reduce, gradient>: f64, f32, bf16 or f16");
  using store = Store;
  using compute = Compute;
  using accumulate = Accumulate;
  using reduce = Reduce;
  using gradient = Gradient;
  /// Whether a parameter caches its copy in the compute type even on devices that do not need it; see keep_copies.
  static constexpr bool keeps_copies = false;
  static constexpr bool trains = true;  ///< whether parameters have gradients; see frozen

  /// The list of `Op` under this policy; `usual` is its default.
  template <class Op>
  static constexpr op_precision list_of(op_precision usual) {
    return usual;
  }
};

/// A type for `accumulate`: products round their operands to TF32 (10 bits of mantissa) and add in float, on tensor
/// cores.
struct tf32_products {};
/// A type for `accumulate`: products of bf16 are computed in FP8 and added in float, on NVIDIA GPUs since compute
/// capability 8.9. Each operand is scaled so that its largest magnitude is the format's largest number, and rounded:
/// values to E4M3 (4 bits of exponent, 3 of mantissa), gradients to E5M2. No state is kept between steps.
struct fp8_products {};
/// Whether `Sums` is tf32_products or fp8_products, not an element type.
template <class Sums>
inline constexpr bool is_product_format = std::is_same_v<Sums, tf32_products> || std::is_same_v<Sums, fp8_products>;

/// Everything in float.
using fp32 = precision<float>;
/// Everything in double.
using fp64 = precision<double>;
/// Parameters, gradients, norms and losses in float, products of bf16.
using bf16_mixed = precision<float, bf16>;
/// bf16_mixed with the gradients of parameters in bf16: 2 bytes per parameter less. The gradient of one backward() is
/// rounded once, as by PyTorch's autocast; sums over several are rounded after each.
using bf16_gradients = precision<float, bf16, float, float, bf16>;
/// Parameters, gradients, norms and losses in float, products of f16. Small gradients underflow in f16: scale the loss.
using fp16_mixed = precision<float, f16>;
/// Parameters and gradients in bf16: half the memory, but updates below 1/256 of a value are lost.
using bf16_pure = precision<bf16>;
/// Everything in float, but products in TF32, on a GPU.
using tf32 = precision<float, float, tf32_products>;
/// bf16_mixed with the products of `linear` and `matmul` in FP8, on a GPU, if all extents are multiples of 16; other
/// products, attention and `linear_cross_entropy` in bf16.
using fp8_mixed = precision<float, bf16, fp8_products>;

/// A rule that moves operations to the list `low`: `in_low<op::softmax<false>>`, or a family, `in_low<op::matmul>`.
/// Operations from the list `full` round their results to `compute`; operations from the list `widest` also take
/// parameters in `compute`.
template <class... Ops>
struct in_low {
  static constexpr op_precision list = op_precision::low;
  template <class Op>
  static constexpr bool names = (std::is_same_v<Op, Ops> || ...);
};
/// A rule that moves operations to the list `full`: `in_full<op::linear>`.
template <class... Ops>
struct in_full {
  static constexpr op_precision list = op_precision::full;
  template <class Op>
  static constexpr bool names = (std::is_same_v<Op, Ops> || ...);
};

namespace detail {
template <class Op>
struct family_of {
  using type = Op;
};
template <class Op>
  requires requires { typename Op::family; }
struct family_of<Op> {
  using type = typename Op::family;
};
}  // namespace detail

/// A rule for precision_with: each parameter that products read caches a copy in the compute type, cast again only
/// after a change. Pays if parameters are read often with few rows, as in generating text: bf16_mixed then reads 2
/// bytes per parameter, not 4. On a GPU, whose products cannot round operands, the copies always exist.
struct keep_copies {
  static constexpr op_precision list = op_precision::low;
  template <class Op>
  static constexpr bool names = false;
};

/// A policy with changed lists: `precision_with<bf16_mixed, in_full<op::attention>>` computes attention in float. The
/// first rule that names an operation or its family applies.
template <class Policy, class... Rules>
struct precision_with : Policy {
  static constexpr bool keeps_copies = Policy::keeps_copies || (std::is_same_v<Rules, keep_copies> || ...);

  template <class Op>
  static constexpr op_precision list_of(op_precision usual) {
    op_precision list = Policy::template list_of<Op>(usual);
    bool found = false;
    ((!found && (Rules::template names<Op> || Rules::template names<typename detail::family_of<Op>::type>)
          ? (list = Rules::list, found = true)
          : false),
     ...);
    return list;
  }
};

/// bf16_mixed with the residual stream of a network in bf16, in forward and backward: embeddings, norms and sums
/// with a parameter (positions, say) give bf16, computed in float and rounded once. A float tensor that is added to the
/// stream makes it float: cast it first.
struct bf16_stream
    : precision_with<bf16_mixed,
                     in_low<op::embedding, op::map<functor::add>, op::layer_norm, op::rms_norm, op::channel_norm<0>>> {
};

/// A policy for parameters that are never trained: the same computation, of parameters stored in the compute type. They
/// have no gradients, and optimizers and checkpoints of a training leave them out.
template <class Policy>
struct frozen : Policy {
  using store = typename Policy::compute;
  static constexpr bool trains = false;
};

namespace detail {
template <class Device, class Policy>
inline constexpr bool device_has_products_of =
    !is_product_format<typename Policy::accumulate> || Device::has_product_formats;
}  // namespace detail

/// The type argument of models: a device and a precision policy.
template <class Device, class Precision = fp32>
struct on {
  static_assert(detail::device_has_products_of<Device, Precision>,
                "on<device, policy>: TF32 and FP8 are formats of NVIDIA GPUs; on the CPU use fp32 or bf16_mixed");
  using device = Device;
  using precision = Precision;
  using store = typename Precision::store;
  using compute = typename Precision::compute;
  using gradient = typename Precision::gradient;
};

}  // namespace gradus
