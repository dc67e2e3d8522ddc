// The kernels of gradus for the usual element types, compiled once per program, in the target gradus::compiled. A build
// without CMake may omit this file: sources then instantiate their kernels. Or it compiles all sources with the same
// flags, and defines GRADUS_KERNELS_OF_<GRADUS_BUILD>=1 besides GRADUS_COMPILED.
#define GRADUS_KERNEL(...) template decltype(__VA_ARGS__) __VA_ARGS__;
#define GRADUS_CLASS(...)  template class __VA_ARGS__;

#include "compiled_kernels.hpp"
