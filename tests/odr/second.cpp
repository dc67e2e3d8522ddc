#include "shared.hpp"

float sum_of(const odr_matrix& x) {
  float sum = 0;
  for (const float value : gradus::to_host(gradus::clone(x))) sum += value;
  return sum;
}

float gradient_sum(const odr_loss& loss, const odr_weight& w) {
  // The same operations as first.cpp, so that both sources hold the same functions.
  const auto y =
      gradus::linear(loss.recorder().watch(gradus::zeros<float, gradus::shape<2, 3>>(loss.recorder().owner())), w);
  gradus::backward(loss + gradus::sum(y * y));
  float sum = 0;
  for (const float value : gradus::to_host(w.gradient())) sum += value;
  return sum;
}
