// The instantiations in gradus::compiled: kernels for the usual element types, and classes that every program uses. A
// source with the library's compiler flags links them; another instantiates those that it uses. To be included again:
// compiled_kernels.cpp declares them all before it defines some.

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
#include "ops/rope/cpu.hpp"
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
#include "ranks/cpu/reduce.hpp"

#if defined(GRADUS_COMPILED) && GRADUS_KERNELS_COMPILED && !defined(__CUDACC__)

#if !defined(GRADUS_KERNEL)  // compiled_kernels.cpp defines it
#define GRADUS_KERNEL(...) extern template decltype(__VA_ARGS__) __VA_ARGS__;
#define GRADUS_CLASS(...)  extern template class __VA_ARGS__;
#define GRADUS_KERNELS_ARE_DECLARED
#endif
// The library is compiled in parts, at the same time: 1 to 4, or all of them if it is 0.
#if !defined(GRADUS_KERNELS_PART)
#define GRADUS_KERNELS_PART 0
#endif

namespace gradus {

// ---- kernels of a stored type ---------------------------------------------------------------------------------------

#define GRADUS_KERNELS_OF_INDEX(T, I)              \
  GRADUS_KERNEL(cpu_kit::cross_entropy_rows<T, I>) \
  GRADUS_KERNEL(cpu_kit::embedding_rows<T, T, I>)  \
  GRADUS_KERNEL(cpu_kit::embedding_rows_backward<T, compute_type<T>, I>)

// Attention of heads of D features: causal alone, and with options.
#define GRADUS_KERNELS_OF_HEAD(T, D)                                \
  GRADUS_KERNEL(cpu_kit::attention_forward<D, compute_type<T>, T>)  \
  GRADUS_KERNEL(cpu_kit::attention_backward<D, compute_type<T>, T>) \
  GRADUS_KERNEL(cpu_kit::attention_cached<D, compute_type<T>, T>)
#define GRADUS_KERNELS_OF_RULED_HEAD(T, D)                                \
  GRADUS_KERNEL(cpu_kit::attention_forward_ruled<D, compute_type<T>, T>)  \
  GRADUS_KERNEL(cpu_kit::attention_backward_ruled<D, compute_type<T>, T>) \
  GRADUS_KERNEL(cpu_kit::attention_cached_ruled<D, compute_type<T>, T>)

// A functor of one operand, or of two, and its gradient; G is what its gradient is computed with.
#define GRADUS_KERNELS_OF_MAP(T, F, G)                  \
  GRADUS_KERNEL(cpu_kit::map_runs<functor::F, T, 8, T>) \
  GRADUS_KERNEL(cpu_kit::map_runs_backward<G, T, 8, std::tuple<const T*>, std::tuple<elementwise_target<T>>>)
#define GRADUS_KERNELS_OF_MAP_OF_TWO(T, F)                                                   \
  GRADUS_KERNEL(cpu_kit::map_runs<functor::F, T, 8, T, T>)                                   \
  GRADUS_KERNEL(cpu_kit::map_runs_backward<functor::F, T, 8, std::tuple<const T*, const T*>, \
                                           std::tuple<elementwise_target<T>, elementwise_target<T>>>)

#define GRADUS_KERNELS_OF_NORM(T, Centered)                                \
  GRADUS_KERNEL(cpu_kit::norm_rows<Centered, compute_type<T>, T, T, T, T>) \
  GRADUS_KERNEL(cpu_kit::norm_rows_backward<Centered, compute_type<T>, T, T, T, T, T, T>)

#define GRADUS_KERNELS_OF_TYPE(T)                                              \
  GRADUS_KERNEL(cpu_kit::add_run<T, T>)                                        \
  GRADUS_KERNEL(cpu_kit::dropout_run<T>)                                       \
  GRADUS_KERNEL(cpu_kit::permute_axes<T, 8>)                                   \
  GRADUS_KERNEL(cpu_kit::sum_into<T, T>)                                       \
  GRADUS_KERNEL(cpu_kit::variance_into<T, compute_type<T>, T>)                 \
  GRADUS_KERNEL(cpu_kit::find_extremes<true, T>)                               \
  GRADUS_KERNEL(kernel<op::softmax<false>, cpu>::forward<compute_type<T>, T>)  \
  GRADUS_KERNEL(kernel<op::softmax<false>, cpu>::backward<T, compute_type<T>>) \
  GRADUS_KERNEL(cpu_kit::scale_gradient<T, compute_type<T>>)                   \
  GRADUS_KERNEL(cpu_kit::map_runs<functor::add, T, 8, T, T>)                   \
  GRADUS_KERNELS_OF_NORM(T, true)                                              \
  GRADUS_KERNELS_OF_NORM(T, false)                                             \
  GRADUS_KERNELS_OF_INDEX(T, std::uint8_t)                                     \
  GRADUS_KERNELS_OF_INDEX(T, std::int32_t)                                     \
  GRADUS_KERNELS_OF_HEAD(T, 32)                                                \
  GRADUS_KERNELS_OF_HEAD(T, 64)                                                \
  GRADUS_KERNELS_OF_MAP_OF_TWO(T, multiply)                                    \
  GRADUS_KERNELS_OF_MAP(T, affine, functor::affine)                            \
  GRADUS_KERNELS_OF_MAP(T, gelu, functor::gelu)                                \
  GRADUS_KERNELS_OF_MAP(T, relu, detail::from_output<functor::relu>)           \
  GRADUS_KERNELS_OF_MAP(T, tanh, detail::from_output<functor::tanh>)

// ---- kernels of a policy: parameters, sums and losses in float, other values in T -----------------------------------

#define GRADUS_KERNELS_OF_TOKENS(T, I) \
  GRADUS_KERNEL(cpu_kit::linear_cross_entropy_chunks<float, float, T, float, T, T, float, I>)

#define GRADUS_KERNELS_OF_POLICY(T)                     \
  GRADUS_KERNELS_OF_TYPE(T)                             \
  GRADUS_KERNELS_OF_INDEX(T, std::uint16_t)             \
  GRADUS_KERNELS_OF_TOKENS(T, std::uint8_t)             \
  GRADUS_KERNELS_OF_TOKENS(T, std::uint16_t)            \
  GRADUS_KERNELS_OF_TOKENS(T, std::int32_t)             \
  GRADUS_KERNELS_OF_RULED_HEAD(T, 32)                   \
  GRADUS_KERNELS_OF_RULED_HEAD(T, 64)                   \
  GRADUS_KERNELS_OF_MAP_OF_TWO(T, swiglu)               \
  GRADUS_KERNELS_OF_MAP(T, gelu_erf, functor::gelu_erf) \
  GRADUS_KERNEL(cpu_kit::rope_rows<T>)

// Norms whose weights are float; products by the types of sums, both operands, the result and the bias.
#define GRADUS_KERNELS_OF_MIXED_NORM(T, Centered)                            \
  GRADUS_KERNEL(cpu_kit::norm_rows<Centered, float, T, float, float, float>) \
  GRADUS_KERNEL(cpu_kit::norm_rows_backward<Centered, float, float, float, float, T, float, float>)
#define GRADUS_KERNELS_OF_MIXED_POLICY(T)                            \
  GRADUS_KERNELS_OF_POLICY(T)                                        \
  GRADUS_KERNELS_OF_MIXED_NORM(T, true)                              \
  GRADUS_KERNELS_OF_MIXED_NORM(T, false)                             \
  GRADUS_KERNEL(cpu_kit::sum_into<float, T>)                         \
  GRADUS_KERNEL(cpu_kit::add_run<T, float>)                          \
  GRADUS_KERNEL(cpu_kit::add_run<float, T>)                          \
  GRADUS_KERNEL(cpu_kit::map_runs<functor::add, float, 8, float, T>) \
  GRADUS_KERNEL(cpu_kit::gemm<float, void, T, T, T, T>)              \
  GRADUS_KERNEL(cpu_kit::gemm<float, void, T, T, float, float>)      \
  GRADUS_KERNEL(cpu_kit::gemm<float, void, T, float, T, float>)      \
  GRADUS_KERNEL(cpu_kit::gemm<float, void, T, float, T, T>)

#if GRADUS_KERNELS_PART == 0 || GRADUS_KERNELS_PART == 1
GRADUS_KERNELS_OF_POLICY(float)
#endif
#if GRADUS_KERNELS_PART == 0 || GRADUS_KERNELS_PART == 2
GRADUS_KERNELS_OF_TYPE(double)
GRADUS_KERNEL(cpu_kit::gemm<double, void, double, double, double, double>)
GRADUS_KERNEL(cpu_kit::gemm<float, void, float, float, float, float>)
GRADUS_KERNEL(cpu_kit::gemm<float, void, f16, float, float, float>)
GRADUS_KERNEL(cpu_kit::gemm<float, void, float, f16, float, float>)
GRADUS_KERNEL(cpu_kit::gemm<float, void, float, float, f16, f16>)
// Products of groups and of images, too: they have the same parts.
GRADUS_KERNEL(cpu_kit::multiply_groups<float, float, float, float, std::int64_t>)
GRADUS_KERNEL(cpu_kit::multiply_groups<float, bf16, float, bf16, std::int64_t>)
GRADUS_KERNEL(cpu_kit::multiply_within_groups<float, float, float, float, std::int64_t>)
GRADUS_KERNEL(cpu_kit::multiply_within_groups<float, bf16, bf16, float, std::int64_t>)
GRADUS_KERNEL(cpu_kit::convolve<float, float, float, float, float>)
GRADUS_KERNEL(cpu_kit::convolve_back<float, float, float, float>)
GRADUS_KERNEL(cpu_kit::correlate<float, float, float, float>)
GRADUS_KERNEL(cpu_kit::counted_targets<std::uint8_t>)
GRADUS_KERNEL(cpu_kit::counted_targets<std::uint16_t>)
GRADUS_KERNEL(cpu_kit::counted_targets<std::int32_t>)
GRADUS_KERNEL(cpu_kit::mean_loss<float>)
GRADUS_KERNEL(cpu_kit::mean_loss<double>)
#endif
#if GRADUS_KERNELS_PART == 0 || GRADUS_KERNELS_PART == 3
GRADUS_KERNELS_OF_MIXED_POLICY(bf16)
#endif
#if GRADUS_KERNELS_PART == 0 || GRADUS_KERNELS_PART == 4
GRADUS_KERNELS_OF_MIXED_POLICY(f16)
#endif

// ---- optimizers, and classes ----------------------------------------------------------------------------------------

#define GRADUS_KERNELS_OF_RULE(Options, States)                                                                   \
  GRADUS_KERNEL(kernel<op::element_step, cpu>::forward<update_span<float, float>, Options, float, float, States>) \
  GRADUS_KERNEL(                                                                                                  \
      kernel<op::element_step, cpu>::forward<span_of_rows<update_span<float, float>>, Options, float, float, States>)

#if GRADUS_KERNELS_PART == 0 || GRADUS_KERNELS_PART == 2
GRADUS_KERNEL(cpu_kit::reduce_parts<>)
GRADUS_KERNEL(kernel<op::move_block, cpu>::forward<float>)
GRADUS_KERNEL(kernel<op::gradient_pass, cpu>::forward<gradient_span<float>>)
GRADUS_KERNEL(kernel<op::gradient_pass, cpu>::forward<span_of_rows<gradient_span<float>>>)
GRADUS_KERNELS_OF_RULE(sgd_options, 1)
GRADUS_KERNELS_OF_RULE(adagrad_options, 1)
GRADUS_KERNELS_OF_RULE(adamw_options, 2)
GRADUS_KERNELS_OF_RULE(lion_options, 1)
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
#endif

}  // namespace gradus

#if defined(GRADUS_KERNELS_ARE_DECLARED)
#undef GRADUS_KERNEL
#undef GRADUS_CLASS
#endif

#endif
