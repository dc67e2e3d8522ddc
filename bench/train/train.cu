// The same programs for a GPU.
#include <gradus/cuda.hpp>

#include "train.cpp"
