// The same as second.cpp, seen by nvcc, with the GPU half of the library included first.
#include <gradus/cuda.hpp>

#include "shared.hpp"

float sum_of(const odr_matrix& x) {
  float sum = 0;
  for (const float value : gradus::to_host(gradus::clone(x))) sum += value;
  return sum;
}
