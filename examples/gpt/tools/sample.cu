// Writes text on a GPU: the same program, compiled by nvcc.

#include <gradus/cuda.hpp>

#include "sample.cpp"
