// The trainer for a GPU: the same program, compiled by nvcc.

#include <gradus/cuda.hpp>

#include "train.cpp"
