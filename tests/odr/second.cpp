#include "shared.hpp"

float sum_of(const odr_matrix& x) {
  float sum = 0;
  for (const float value : gradus::to_host(gradus::clone(x))) sum += value;
  return sum;
}
