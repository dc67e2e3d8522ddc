#pragma once
// The kernels that gradus::compiled holds. Where it was compiled with the flags of a source, the source only calls
// them; elsewhere it compiles those that it uses.

#include "core/config.hpp"
#include "cpu/gemm.hpp"
#include "ops/cross_entropy/cpu.hpp"
#include "ops/elementwise/cpu.hpp"
#include "ops/layer_norm/cpu.hpp"
#include "ops/reduce/cpu.hpp"
#include "ops/softmax/cpu.hpp"

#if defined(GRADUS_COMPILED) && GRADUS_KERNELS_COMPILED && !defined(__CUDACC__)

#if !defined(GRADUS_KERNEL)  // compiled_kernels.cpp defines it
#define GRADUS_KERNEL(...) extern template decltype(__VA_ARGS__) __VA_ARGS__;
#define GRADUS_KERNELS_ARE_DECLARED
#endif

namespace gradus::cpu_kit::inline GRADUS_BUILD {

// Products, by what they are summed in, and the types of both operands, the result and the bias.
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

}  // namespace gradus::cpu_kit::inline GRADUS_BUILD

#if defined(GRADUS_KERNELS_ARE_DECLARED)
#undef GRADUS_KERNEL
#endif

#endif
