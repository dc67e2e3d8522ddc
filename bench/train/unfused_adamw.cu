// The same passes for a GPU.
#include <gradus/cuda.hpp>

#include "unfused_adamw.cpp"
