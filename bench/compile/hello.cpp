// The smallest program whose compile time bench/compile measures.
#include <cstdio>

#include <gradus/gradus.hpp>

namespace gr = gradus;

int main() {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  const auto a = gr::from_values<float, gr::shape<2, 2>>(ctx, {1, 2, 3, 4});
  const auto b = a + a;
  std::printf("%g %g\n%g %g\n", b(0, 0), b(0, 1), b(1, 0), b(1, 1));
}
