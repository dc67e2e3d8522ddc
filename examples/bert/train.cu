// The trainer for a GPU: the same source, compiled by nvcc, with the GPU half of the library.
#include <gradus/cuda.hpp>

#include "train.cpp"
