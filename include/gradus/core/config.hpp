#pragma once
// The only home of the library's macros. A macro here may add a declaration or an attribute; it never changes the body
// of a class or an inline function, so that .cpp and .cu files can share every header in one program.

#define GRADUS_VERSION_MAJOR 0
#define GRADUS_VERSION_MINOR 1
#define GRADUS_VERSION_PATCH 0

#if defined(__CUDACC__)
#define GRADUS_HD __host__ __device__
#else
#define GRADUS_HD
#endif

// nvcc reads a .cu once for the host and once for the GPU (__CUDA_ARCH__). The second time it would refuse the CPU's SIMD packets
// in a functor that also runs on the GPU, so CPU kernels leave their calls of functors out. No host object file sees a 1 here.
#if defined(__CUDA_ARCH__)
#define GRADUS_GPU_PASS 1
#else
#define GRADUS_GPU_PASS 0
#endif

// Built with -fsanitize=address. The one macro that changes what functions do (memory/poison.hpp): a sanitizer build is a whole program.
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

/// Names the members of a module, in order, so that parameters get names such as `blocks.3.attention.qkv.weight`.
/// Write it once inside the struct, where it is public: `GRADUS_MEMBERS(w1, b1, w2, b2)`. The struct stays an aggregate; a class
/// with private members or constructors may have the line as well. A derived class needs a line of its own, with all members.
#define GRADUS_MEMBERS(...)                                               \
  constexpr auto gradus_members() { return std::tie(__VA_ARGS__); }       \
  constexpr auto gradus_members() const { return std::tie(__VA_ARGS__); } \
  constexpr void gradus_members_are_named_here() const {}                 \
  static constexpr std::string_view gradus_member_names() { return #__VA_ARGS__; }
