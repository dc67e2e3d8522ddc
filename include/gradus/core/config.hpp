#pragma once
// All macros of the library but GRADUS_REQUIRE and those of interop/c_api. None changes the body of a class or inline
// function, so .cpp and .cu files share headers.

#if defined(_MSVC_LANG) ? _MSVC_LANG < 202002L : __cplusplus < 202002L
#error "gradus needs C++20: compile with -std=c++20"
#elif defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 12
#error "gradus needs g++ 12 or newer, or clang++ 14 or newer"
#elif !defined(__cpp_exceptions) && !defined(__EXCEPTIONS)
#error "gradus needs exceptions, by which it reports errors: no -fno-exceptions"
#elif defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__) || defined(__ASSOCIATIVE_MATH__)
#error "gradus needs IEEE arithmetic, with NaN and infinity: no -ffast-math, no -Ofast; -O3 -fno-math-errno is safe"
#else
#define GRADUS_IS_SUPPORTED
#endif
#if !defined(GRADUS_IS_SUPPORTED)
#include "see the error above"  // a missing file ends the compilation after one error
#endif

#include "require.hpp"

#define GRADUS_VERSION_MAJOR 0
#define GRADUS_VERSION_MINOR 1
#define GRADUS_VERSION_PATCH 0
/// The version as a number, 10000 major + 100 minor + patch, for #if.
#define GRADUS_VERSION (10000 * GRADUS_VERSION_MAJOR + 100 * GRADUS_VERSION_MINOR + GRADUS_VERSION_PATCH)

#if defined(__CUDACC__)
#define GRADUS_HD __host__ __device__
#else
#define GRADUS_HD
#endif

// nvcc reads a .cu file once for the host and once for the GPU (__CUDA_ARCH__). In the second pass it would reject SIMD
// packs in a functor that also runs on the GPU, so CPU kernels omit their calls of functors. No host object has a 1.
#if defined(__CUDA_ARCH__)
#define GRADUS_GPU_PASS 1
#else
#define GRADUS_GPU_PASS 0
#endif

// Built with -fsanitize=address. The only macro that changes functions (memory/poison.hpp): for whole programs.
#if defined(__SANITIZE_ADDRESS__)
#define GRADUS_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GRADUS_ADDRESS_SANITIZER 1
#endif
#endif
#if !defined(GRADUS_ADDRESS_SANITIZER)
#define GRADUS_ADDRESS_SANITIZER 0
#endif

#define GRADUS_INLINE inline __attribute__((always_inline))

// For slow, widely called functions: never inline.
#define GRADUS_NOINLINE __attribute__((noinline))

// Marks the definitions in .ipp files. A header includes its .ipp, so that headers suffice; with GRADUS_COMPILED
// defined (as by the target gradus::compiled) it does not, and compiled.cpp alone compiles them. They are neither
// templates nor kernels: their code does not depend on the program.
#if defined(GRADUS_COMPILED)
#define GRADUS_IMPL
#else
#define GRADUS_IMPL inline
#endif
// The same for .ipp files of the GPU's half: GRADUS_CUDA_COMPILED, the target gradus::cuda_compiled, compiled.cu.
#if defined(GRADUS_CUDA_COMPILED)
#define GRADUS_CUDA_IMPL
#else
#define GRADUS_CUDA_IMPL inline
#endif

// A program may link files that were compiled for different instruction sets. They share tensors, parameters and tapes,
// but each must run its own kernels: with equal names the linker would keep only one. Kernels and operations are in the
// inline namespace GRADUS_BUILD, and functions that users call carry its name as an ABI tag. It is named after the
// instruction sets that the headers or compilers use: a level of the x86-64 ABI, or else the widest registers.
//
// GRADUS_KERNELS_COMPILED: whether a library has this build's kernels, announced by GRADUS_KERNELS_OF_<name>=1. The
// shared library defines GRADUS_BUILD itself: each of its variants has kernels for one processor under the name that
// programs without flags ask for, and nothing else of these kernels is visible outside of it.
#if defined(__AVX512F__) && defined(__AVX512VL__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && \
    defined(__FMA__) && defined(__F16C__) && defined(__BMI2__)
#define GRADUS_INSTRUCTIONS x86v4
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__) && defined(__BMI2__) && !defined(__AVX512F__)
#define GRADUS_INSTRUCTIONS x86v3
#else
#if defined(__AVX512F__)
#define GRADUS_REGISTERS avx512
#elif defined(__AVX2__)
#define GRADUS_REGISTERS avx2
#elif defined(__AVX__)
#define GRADUS_REGISTERS avx
#elif defined(__SSE4_2__)
#define GRADUS_REGISTERS sse4
#else
#define GRADUS_REGISTERS base
#endif
#if defined(__FMA__) && defined(__F16C__)
#define GRADUS_INSTRUCTIONS GRADUS_JOIN(GRADUS_REGISTERS, _fma, _f16c)
#elif defined(__FMA__)
#define GRADUS_INSTRUCTIONS GRADUS_JOIN(GRADUS_REGISTERS, _fma, )
#elif defined(__F16C__)
#define GRADUS_INSTRUCTIONS GRADUS_JOIN(GRADUS_REGISTERS, _f16c, )
#else
#define GRADUS_INSTRUCTIONS GRADUS_REGISTERS
#endif
#endif
#if GRADUS_ADDRESS_SANITIZER && defined(__OPTIMIZE__)
#define GRADUS_OPTIMISATION _asan
#elif GRADUS_ADDRESS_SANITIZER
#define GRADUS_OPTIMISATION _asan_debug
#elif defined(__OPTIMIZE__)
#define GRADUS_OPTIMISATION
#else
#define GRADUS_OPTIMISATION _debug
#endif
#if defined(__AVX512VBMI__)
#define GRADUS_BYTES _vbmi
#else
#define GRADUS_BYTES
#endif
// Whether the target has a tile unit for products of bf16 (Intel AMX). Names of clang++ 14 have no underscore within.
#if defined(__AVX512BF16__) && (defined(__AMX_TILE__) || defined(__AMXTILE__)) && \
    (defined(__AMX_BF16__) || defined(__AMXBF16__))
#define GRADUS_TILES 1
#else
#define GRADUS_TILES 0
#endif
#if GRADUS_TILES
#define GRADUS_PAIRS _bf16_amx
#elif defined(__AVX512BF16__)
#define GRADUS_PAIRS _bf16
#else
#define GRADUS_PAIRS
#endif
#define GRADUS_MORE                 GRADUS_JOIN(GRADUS_BYTES, GRADUS_PAIRS, )
#define GRADUS_JOIN_TOKENS(a, b, c) a##b##c
#define GRADUS_JOIN(a, b, c)        GRADUS_JOIN_TOKENS(a, b, c)
#if !defined(GRADUS_BUILD)
#define GRADUS_BUILD GRADUS_JOIN(GRADUS_INSTRUCTIONS, GRADUS_MORE, GRADUS_OPTIMISATION)
#endif
#define GRADUS_TEXT_OF_TOKENS(x) #x
#define GRADUS_TEXT(x)           GRADUS_TEXT_OF_TOKENS(x)
#define GRADUS_KERNELS_COMPILED  GRADUS_JOIN(GRADUS_KERNELS_OF_, GRADUS_BUILD, )
#define GRADUS_OF_BUILD          [[gnu::abi_tag(GRADUS_TEXT(GRADUS_BUILD))]]
#if defined(__NVCC__)
#pragma nv_diag_suppress 2648  // nvcc 13: the ABI tag of a member template is superseded (by itself)
#endif

/// Names the members of a module, in order, for parameter names such as `blocks.3.attention.qkv.weight`. Write it once
/// inside the struct, where it is public: `GRADUS_MEMBERS(w1, b1, w2, b2)`. The struct stays an aggregate; classes with
/// private members or constructors may have it, too. A derived class needs its own, with all members.
#define GRADUS_MEMBERS(...)                                               \
  constexpr auto gradus_members() { return std::tie(__VA_ARGS__); }       \
  constexpr auto gradus_members() const { return std::tie(__VA_ARGS__); } \
  constexpr void gradus_members_are_named_here() const {}                 \
  static constexpr std::string_view gradus_member_names() { return #__VA_ARGS__; }
