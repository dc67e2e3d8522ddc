// The kernels of gradus for the usual element types, compiled once for a program: the other part of what the target
// gradus::compiled is made of. A build without CMake may leave it out, for sources compile what they do not find; or it
// defines GRADUS_KERNELS_OF_<GRADUS_BUILD>=1 beside GRADUS_COMPILED, with the same flags for all its sources.
#define GRADUS_KERNEL(...) template decltype(__VA_ARGS__) __VA_ARGS__;
#define GRADUS_CLASS(...)  template class __VA_ARGS__;

#include "compiled_kernels.hpp"
