// The same program for a GPU.
#include <gradus/cuda.hpp>

#include "steps.cpp"
