// The kernels of gradus for the usual element types, compiled once per program, in the target gradus::compiled. A build
// without CMake may omit this file: sources then instantiate their kernels. Or it compiles all sources with the same
// flags, and defines GRADUS_KERNELS_OF_<GRADUS_BUILD>=1 besides GRADUS_COMPILED.

// In a shared library, which is compiled with -fvisibility=hidden, programs see the context and what is instantiated
// here. All is declared first: a part that instantiated what another one defines would hide it.
#pragma GCC visibility push(default)
#include "memory/context.hpp"
#pragma GCC visibility pop
#pragma GCC diagnostic ignored "-Wattributes"  // the context has the attribute already
#define GRADUS_VISIBLE __attribute__((visibility("default")))

#pragma push_macro("GRADUS_KERNELS_PART")
#undef GRADUS_KERNELS_PART
#define GRADUS_KERNEL(...) extern template GRADUS_VISIBLE decltype(__VA_ARGS__) __VA_ARGS__;
#define GRADUS_CLASS(...)
#include "compiled_kernels.hpp"
#undef GRADUS_KERNEL
#undef GRADUS_CLASS
#pragma pop_macro("GRADUS_KERNELS_PART")

#define GRADUS_KERNEL(...) template GRADUS_VISIBLE decltype(__VA_ARGS__) __VA_ARGS__;
#define GRADUS_CLASS(...)  template class GRADUS_VISIBLE __VA_ARGS__;
#include "compiled_kernels.hpp"
