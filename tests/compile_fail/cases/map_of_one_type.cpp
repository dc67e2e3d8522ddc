// expect: map\(f, x\.\.\.\): f must take one argument per operand, all of one deduced type
// expect-lines: 15
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
#define TYPE float
#else
#define TYPE auto
#endif

auto f(const gradus::tensor<float, gradus::shape<4, 8>>& x) {
  return gradus::map([](TYPE u) { return u * u + 1; }, x);
}
