#pragma once
// The instantiations in gradus::compiled: kernels for the usual element types, and classes that every program uses. A
// source with the library's compiler flags links them; another instantiates those that it uses.

#include <cstdint>
#include <tuple>

#include "autodiff/checkpoint/region.hpp"
#include "autodiff/tape.hpp"
#include "core/config.hpp"
#include "cpu/access.hpp"
#include "cpu/gemm.hpp"
#include "memory/measured_trace.hpp"
#include "memory/planned_resource.hpp"
#include "memory/pool_resource.hpp"
#include "ops/attention/cpu.hpp"
#include "ops/conv/cpu.hpp"
#include "ops/cross_entropy/cpu.hpp"
#include "ops/dropout/cpu.hpp"
#include "ops/elementwise/arithmetic.hpp"
#include "ops/elementwise/cpu.hpp"
#include "ops/elementwise/functions.hpp"
#include "ops/embedding/cpu.hpp"
#include "ops/grouped_matmul/cpu.hpp"
#include "ops/layer_norm/cpu.hpp"
#include "ops/linear_cross_entropy/cpu.hpp"
#include "ops/permute/cpu.hpp"
#include "ops/reduce/cpu.hpp"
#include "ops/slice/cpu.hpp"
#include "ops/softmax/cpu.hpp"
#include "optim/adafactor.hpp"
#include "optim/adagrad.hpp"
#include "optim/adamw.hpp"
#include "optim/adamw_8bit.hpp"
#include "optim/cpu/adafactor.hpp"
#include "optim/cpu/adamw_8bit.hpp"
#include "optim/cpu/element.hpp"
#include "optim/cpu/muon.hpp"
#include "optim/cpu/weight_average.hpp"
#include "optim/lion.hpp"
#include "optim/muon.hpp"
#include "optim/sgd.hpp"

#if defined(GRADUS_COMPILED) && GRADUS_KERNELS_COMPILED && !defined(__CUDACC__)

#if !defined(GRADUS_KERNEL)  // compiled_kernels.cpp defines it
#define GRADUS_KERNEL(...) extern template decltype(__VA_ARGS__) __VA_ARGS__;
#define GRADUS_CLASS(...)  extern template class __VA_ARGS__;
#define GRADUS_KERNELS_ARE_DECLARED
#endif

namespace gradus {
namespace cpu_kit::inline GRADUS_BUILD {

// Products, by the types of sums, both operands, the result and the bias.
GRADUS_KERNEL(gemm<float, void, float, float, float, float>)
GRADUS_KERNEL(gemm<double, void, double, double, double, double>)
GRADUS_KERNEL(gemm<float, void, bf16, bf16, bf16, bf16>)
GRADUS_KERNEL(gemm<float, void, bf16, bf16, float, float>)
GRADUS_KERNEL(gemm<float, void, bf16, float, bf16, float>)
GRADUS_KERNEL(gemm<float, void, bf16, float, bf16, bf16>)
GRADUS_KERNEL(gemm<float, void, f16, f16, f16, f16>)
GRADUS_KERNEL(gemm<float, void, f16, f16, float, float>)
GRADUS_KERNEL(gemm<float, void, f16, float, f16, float>)
GRADUS_KERNEL(gemm<float, void, f16, float, f16, f16>)
GRADUS_KERNEL(gemm<float, void, f16, float, float, float>)
GRADUS_KERNEL(gemm<float, void, float, f16, float, float>)
GRADUS_KERNEL(gemm<float, void, float, float, f16, f16>)
// Products of groups and of images, too: they have the same parts.
GRADUS_KERNEL(multiply_groups<float, float, float, float, std::int64_t>)
GRADUS_KERNEL(multiply_groups<float, bf16, float, bf16, std::int64_t>)
GRADUS_KERNEL(multiply_within_groups<float, float, float, float, std::int64_t>)
GRADUS_KERNEL(multiply_within_groups<float, bf16, bf16, float, std::int64_t>)
GRADUS_KERNEL(convolve<float, float, float, float, float>)
GRADUS_KERNEL(convolve_back<float, float, float, float>)
GRADUS_KERNEL(correlate<float, float, float, float>)

// Kernels for elements stored as T and computed in C.
#define GRADUS_KERNELS_OF_TYPE(T, C)                                                                               \
  GRADUS_KERNEL(add_run<T, T>)                                                                                     \
  GRADUS_KERNEL(dropout_run<T>)                                                                                    \
  GRADUS_KERNEL(permute_axes<T, 8>)                                                                                \
  GRADUS_KERNEL(sum_into<T, T>)                                                                                    \
  GRADUS_KERNEL(variance_into<T, C, T>)                                                                            \
  GRADUS_KERNEL(find_extremes<true, T>)                                                                            \
  GRADUS_KERNEL(softmax_rows<false, C, T>)                                                                         \
  GRADUS_KERNEL(softmax_rows_backward<false, T, C>)                                                                \
  GRADUS_KERNEL(norm_rows<true, C, T, T, T, T>)                                                                    \
  GRADUS_KERNEL(norm_rows_backward<true, C, T, T, T, T, T, T>)                                                     \
  GRADUS_KERNEL(norm_rows<false, C, T, T, T, T>)                                                                   \
  GRADUS_KERNEL(norm_rows_backward<false, C, T, T, T, T, T, T>)                                                    \
  GRADUS_KERNEL(scale_gradient<T, C>)                                                                              \
  GRADUS_KERNEL(cross_entropy_rows<T, std::uint8_t>)                                                               \
  GRADUS_KERNEL(cross_entropy_rows<T, std::int32_t>)                                                               \
  GRADUS_KERNEL(embedding_rows<T, T, std::uint8_t>)                                                                \
  GRADUS_KERNEL(embedding_rows<T, T, std::int32_t>)                                                                \
  GRADUS_KERNEL(embedding_rows_backward<T, C, std::uint8_t>)                                                       \
  GRADUS_KERNEL(embedding_rows_backward<T, C, std::int32_t>)                                                       \
  GRADUS_KERNEL(attention_forward<32, C, T>)                                                                       \
  GRADUS_KERNEL(attention_backward<32, C, T>)                                                                      \
  GRADUS_KERNEL(attention_cached<32, C, T>)                                                                        \
  GRADUS_KERNEL(attention_forward<64, C, T>)                                                                       \
  GRADUS_KERNEL(attention_backward<64, C, T>)                                                                      \
  GRADUS_KERNEL(attention_cached<64, C, T>)                                                                        \
  GRADUS_KERNEL(map_runs<functor::add, T, 8, T, T>)                                                                \
  GRADUS_KERNEL(map_runs<functor::multiply, T, 8, T, T>)                                                           \
  GRADUS_KERNEL(map_runs<functor::affine, T, 8, T>)                                                                \
  GRADUS_KERNEL(map_runs<functor::gelu, T, 8, T>)                                                                  \
  GRADUS_KERNEL(map_runs<functor::relu, T, 8, T>)                                                                  \
  GRADUS_KERNEL(map_runs<functor::tanh, T, 8, T>)                                                                  \
  GRADUS_KERNEL(map_runs_backward<functor::multiply, T, 8, std::tuple<const T*, const T*>,                         \
                                  std::tuple<elementwise_target<T>, elementwise_target<T>>>)                       \
  GRADUS_KERNEL(map_runs_backward<functor::affine, T, 8, std::tuple<const T*>, std::tuple<elementwise_target<T>>>) \
  GRADUS_KERNEL(map_runs_backward<functor::gelu, T, 8, std::tuple<const T*>, std::tuple<elementwise_target<T>>>)   \
  GRADUS_KERNEL(map_runs_backward<gradus::detail::from_output<functor::tanh>, T, 8, std::tuple<const T*>,          \
                                  std::tuple<elementwise_target<T>>>)                                              \
  GRADUS_KERNEL(map_runs_backward<gradus::detail::from_output<functor::relu>, T, 8, std::tuple<const T*>,          \
                                  std::tuple<elementwise_target<T>>>)
GRADUS_KERNELS_OF_TYPE(float, float)
GRADUS_KERNELS_OF_TYPE(double, double)
GRADUS_KERNELS_OF_TYPE(bf16, float)
GRADUS_KERNELS_OF_TYPE(f16, float)
#undef GRADUS_KERNELS_OF_TYPE

// Kernels for parameters and sums in float, and values in T.
#define GRADUS_KERNELS_OF_MIXED(T)                              \
  GRADUS_KERNEL(sum_into<float, T>)                             \
  GRADUS_KERNEL(add_run<T, float>)                              \
  GRADUS_KERNEL(add_run<float, T>)                              \
  GRADUS_KERNEL(map_runs<functor::add, float, 8, float, T>)     \
  GRADUS_KERNEL(norm_rows<true, float, T, float, float, float>) \
  GRADUS_KERNEL(norm_rows_backward<true, float, float, float, float, T, float, float>)
GRADUS_KERNELS_OF_MIXED(bf16)
GRADUS_KERNELS_OF_MIXED(f16)
#undef GRADUS_KERNELS_OF_MIXED

GRADUS_KERNEL(counted_targets<std::uint8_t>)
GRADUS_KERNEL(counted_targets<std::int32_t>)
GRADUS_KERNEL(mean_loss<float>)
GRADUS_KERNEL(mean_loss<double>)

}  // namespace cpu_kit::inline GRADUS_BUILD

GRADUS_KERNEL(kernel<op::move_block, cpu>::forward<float>)
GRADUS_KERNEL(kernel<op::gradient_pass, cpu>::forward<gradient_span<float>>)
GRADUS_KERNEL(kernel<op::gradient_pass, cpu>::forward<span_of_rows<gradient_span<float>>>)
GRADUS_KERNEL(kernel<op::element_step, cpu>::forward<update_span<float, float>, sgd_options, float, float, 1>)
GRADUS_KERNEL(
    kernel<op::element_step, cpu>::forward<span_of_rows<update_span<float, float>>, sgd_options, float, float, 1>)
GRADUS_KERNEL(kernel<op::element_step, cpu>::forward<update_span<float, float>, adagrad_options, float, float, 1>)
GRADUS_KERNEL(
    kernel<op::element_step, cpu>::forward<span_of_rows<update_span<float, float>>, adagrad_options, float, float, 1>)
GRADUS_KERNEL(kernel<op::element_step, cpu>::forward<update_span<float, float>, adamw_options, float, float, 2>)
GRADUS_KERNEL(
    kernel<op::element_step, cpu>::forward<span_of_rows<update_span<float, float>>, adamw_options, float, float, 2>)
GRADUS_KERNEL(kernel<op::element_step, cpu>::forward<update_span<float, float>, lion_options, float, float, 1>)
GRADUS_KERNEL(
    kernel<op::element_step, cpu>::forward<span_of_rows<update_span<float, float>>, lion_options, float, float, 1>)
GRADUS_KERNEL(kernel<op::adamw_8bit_step, cpu>::forward<float, float>)
GRADUS_KERNEL(kernel<op::adafactor_step, cpu>::forward<float, float>)
GRADUS_KERNEL(kernel<op::muon_step, cpu>::forward<float, float>)

GRADUS_CLASS(context<cpu>)
GRADUS_CLASS(tape<cpu>)
GRADUS_CLASS(detail::region_core<cpu>)
GRADUS_CLASS(basic_planned_resource<stream>)
GRADUS_CLASS(basic_trace_resource<stream>)
GRADUS_CLASS(basic_pool_resource<stream>)
GRADUS_CLASS(param_list<float, cpu, float>)
GRADUS_CLASS(optimizer<float, cpu, float>)
GRADUS_CLASS(element_optimizer<adamw_options, float, cpu, float>)

}  // namespace gradus

#if defined(GRADUS_KERNELS_ARE_DECLARED)
#undef GRADUS_KERNEL
#undef GRADUS_CLASS
#endif

#endif
