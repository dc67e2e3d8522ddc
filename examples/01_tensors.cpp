// Lesson 1: tensors. A tensor's element type, shape and device are parts of its type, so the compiler knows all shapes.

#include <cstdio>
#include <gradus/gradus.hpp>

namespace gr = gradus;

int main() {
  // Memory is explicit: a context is a stream (where work runs) plus a resource (where memory comes from).
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};

  auto a = gr::from_values<float, gr::shape<2, 3>>(ctx, {1, 2, 3, 4, 5, 6});
  auto b = gr::full<float, gr::shape<3>>(ctx, 10.0f);

  // Shapes broadcast as in NumPy: b is added to each row. The result's shape is in its type, and is checked here.
  auto c = a + b;
  static_assert(std::is_same_v<decltype(c)::shape, gr::shape<2, 3>>);
  std::printf("a + b   = [%g %g %g; %g %g %g]\n", c(0, 0), c(0, 1), c(0, 2), c(1, 0), c(1, 1), c(1, 2));

  // [2, 3] times [3, 2]. Writing gr::matmul(a, a) would not compile, and the message would name both extents.
  auto p = gr::matmul(a, gr::permute<1, 0>(a));
  std::printf("a a^T   = [%g %g; %g %g]\n", p(0, 0), p(0, 1), p(1, 0), p(1, 1));

  // A copy is another handle to the same elements; clone() makes elements of its own.
  auto same = a;
  auto other = gr::clone(a);
  same(0, 0) = 100;
  std::printf("a(0, 0) = %g, its clone still has %g\n", a(0, 0), other(0, 0));

  // Reductions name the axes that go; without axes, all of them.
  auto columns = gr::sum<0>(other);
  std::printf("columns = [%g %g %g], all = %g\n", columns(0), columns(1), columns(2), gr::item(gr::sum(other)));
}
