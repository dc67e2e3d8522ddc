// The functions of <gradus/cuda.hpp> that are not templates and cost nvcc much, compiled once per program, in the
// target gradus::cuda_compiled. A build without CMake compiles this file, too, with GRADUS_CUDA_COMPILED defined for
// all .cu.
#ifndef GRADUS_CUDA_COMPILED
#define GRADUS_CUDA_COMPILED 1
#endif

#include "gpu/sort.ipp"
