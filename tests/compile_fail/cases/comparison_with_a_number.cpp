// expect: a > b, a == b: tensors are compared element by element in map\(f, a, b\), by select\(a > b, x, y\) in f
// expect-lines: 15
#include <gradus/gradus.hpp>

auto f(gradus::tape<gradus::cpu>& tape, const gradus::tensor<float, gradus::shape<4, 8>>& x) {
  using gradus::math::select;
  const auto v = tape.variable(x);
#ifdef GRADUS_FAIL
  return v <= 0.5;
#else
  return gradus::map([](auto u) { return select(u <= 0.5, 1, u); }, v);
#endif
}
