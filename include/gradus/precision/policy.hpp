#pragma once
// What a model computes in. A policy is a type, so that storing, computing, accumulating and reducing in other types
// changes which kernels are compiled and nothing in the model.

#include <string_view>
#include <type_traits>

#include "../core/device.hpp"
#include "../core/dtype.hpp"

namespace gradus {

/// Where an operation stands in the lists that a policy goes by. They are those of PyTorch's autocast.
enum class op_precision {
  low,    ///< products (matmul, linear, attention): operands are cast to the policy's `compute`
  full,   ///< exp, log, pow, softmax, norms, sums, losses: operands are read as they are, results come out in `reduce`
  widest  ///< everything else: results come out in the widest of the operands' types
};

/// A precision policy.
/// @tparam Store      what parameters are stored in
/// @tparam Compute    what the operands of products are cast to
/// @tparam Accumulate what sums inside an operation are accumulated in
/// @tparam Reduce     what reductions (norms, sums, losses) give
/// @tparam Gradient   what gradients of parameters accumulate in
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
  /// Whether products read a lasting copy of a parameter in `compute` even where the device needs none; see
  /// keep_copies.
  static constexpr bool keeps_copies = false;

  /// The list that `Op` is in under this policy, where its own is `usual`.
  template <class Op>
  static constexpr op_precision list_of(op_precision usual) {
    return usual;
  }
};

/// Stands for `accumulate` where products round their operands to TF32 (10 bits of mantissa) and add in float: a format
/// of NVIDIA's tensor cores.
struct tf32_products {};
/// Stands for `accumulate` where products of bf16 are made in FP8 and added in float: a format of NVIDIA's GPUs since
/// compute capability 8.9. An operand is multiplied by what brings its largest magnitude to the format's largest
/// number, and rounded: values to E4M3 (4 bits of exponent, 3 of mantissa), gradients to E5M2. The scale is that of the
/// operand itself, so nothing has to be remembered from step to step.
struct fp8_products {};
/// Whether `Sums` is a format of products that are added in float, and no type.
template <class Sums>
inline constexpr bool is_product_format = std::is_same_v<Sums, tf32_products> || std::is_same_v<Sums, fp8_products>;

/// All of it in float.
using fp32 = precision<float>;
/// All of it in double.
using fp64 = precision<double>;
/// Parameters, their gradients, norms and losses in float, products of bf16.
using bf16_mixed = precision<float, bf16>;
/// As bf16_mixed, and gradients of parameters in bf16, too: 2 bytes a parameter less. What one backward() gives is
/// rounded once, as PyTorch's autocast rounds it; what several add up is rounded after each.
using bf16_gradients = precision<float, bf16, float, float, bf16>;
/// Parameters, their gradients, norms and losses in float, products of f16. Small gradients vanish in f16: scale the
/// loss.
using fp16_mixed = precision<float, f16>;
/// Parameters and gradients in bf16, too: half the memory, and updates below 1/256 of a value are lost.
using bf16_pure = precision<bf16>;
/// All of it in float, but products in TF32, on a GPU.
using tf32 = precision<float, float, tf32_products>;
/// As bf16_mixed, but the products of `linear` and `matmul` in FP8, on a GPU, where all extents are multiples of 16;
/// others, attention and `linear_cross_entropy` in bf16.
using fp8_mixed = precision<float, bf16, fp8_products>;

/// Ops that precision_with takes to the list `low`: `in_low<op::softmax<false>>`. A family (op::matmul) stands for its
/// ops.
template <class... Ops>
struct in_low {
  static constexpr op_precision list = op_precision::low;
  template <class Op>
  static constexpr bool names = (std::is_same_v<Op, Ops> || ...);
};
/// Ops that precision_with takes to the list `full`: `in_full<op::linear>`.
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

/// A rule for precision_with: each parameter that a product takes is kept in the compute type as well, and cast again
/// only when it has changed. Pays where parameters are read often and with few rows, as in generating text: of
/// bf16_mixed 2 bytes of each are read then and not 4. A GPU, whose products cannot round on the way, always keeps
/// these copies.
struct keep_copies {
  static constexpr op_precision list = op_precision::low;
  template <class Op>
  static constexpr bool names = false;
};

/// A policy with other lists: `precision_with<bf16_mixed, in_full<op::attention>>` computes attention in float. The
/// first rule that names an operation or its family counts.
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

namespace detail {
template <class Device, class Policy>
inline constexpr bool device_has_products_of =
    !is_product_format<typename Policy::accumulate> || Device::has_product_formats;
}  // namespace detail

/// What a model is instantiated with: a device and a precision policy.
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
