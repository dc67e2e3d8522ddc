// What a first program of a user's does: include everything, make a tensor, look at it.
#include <gradus/gradus.hpp>

namespace gr = gradus;

int main() {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  auto x = gr::full<float, gr::shape<2, 3>>(ctx, 0.5f);
  return x(1, 2) == 0.5f ? 0 : 1;
}
