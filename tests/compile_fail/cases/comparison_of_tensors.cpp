// expect: a > b, a == b: tensors are compared element by element in map\(f, a, b\), by select\(a > b, x, y\) in f
// expect-lines: 15
#include <gradus/gradus.hpp>

using matrix = gradus::tensor<float, gradus::shape<4, 8>>;
auto f(const matrix& a, const matrix& b) {
#ifdef GRADUS_FAIL
  return a > b;
#else
  using gradus::math::select;
  return gradus::map([](auto u, auto v) { return select(u > v, u, 0); }, a, b);
#endif
}
