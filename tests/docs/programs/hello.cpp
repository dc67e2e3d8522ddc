// The first program of docs/guide/first-steps.md. It prints [[11., 12., 13.], [14., 15., 16.]].
// [hello]
#include <gradus/gradus.hpp>
#include <iostream>

namespace gr = gradus;

int main() {
  gr::stream stream;              // where work runs: on this CPU, in order
  gr::host_resource heap;         // where memory comes from
  gr::context ctx{stream, heap};  // both together; whatever makes a tensor takes one

  auto a = gr::from_values<float, gr::shape<2, 3>>(ctx, {1, 2, 3, 4, 5, 6});
  auto b = gr::full<float, gr::shape<3>>(ctx, 10.0f);
  std::cout << a + b << "\n";
}
// [/hello]
