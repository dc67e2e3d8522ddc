// A tensor goes from one source of this folder to another and must come out as it went in; so must a recording.
#include <cstdio>

#include "shared.hpp"

int main() {
  gradus::stream stream;
  gradus::host_resource heap;
  gradus::context ctx{stream, heap};
  const auto x = make_matrix(ctx);
  const float sum = sum_of(x);
  if (sum != 21.0f) std::printf("the elements 1 to 6 sum to %g\n", static_cast<double>(sum));

  odr_weight w;
  w.set(gradus::ones<float, gradus::shape<3, 1>>(ctx));
  odr_tape tape{ctx};
  const float slope = gradient_sum(record_loss(tape, x, w), w);
  // x w is 6 and 15; the gradient is 2 x^T (x w), and its elements sum to 2 (6 * 6 + 15 * 15).
  if (slope != 522.0f) std::printf("the gradient sums to %g, not to 522\n", static_cast<double>(slope));
  return sum == 21.0f && slope == 522.0f ? 0 : 1;
}
