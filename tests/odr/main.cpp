// A tensor goes from one source of this folder to another; it must come out as it went in.
#include <cstdio>

#include "shared.hpp"

int main() {
  gradus::stream stream;
  gradus::host_resource heap;
  gradus::context ctx{stream, heap};
  const float sum = sum_of(make_matrix(ctx));
  if (sum != 21.0f) std::printf("the elements 1 to 6 sum to %g\n", static_cast<double>(sum));
  return sum == 21.0f ? 0 : 1;
}
