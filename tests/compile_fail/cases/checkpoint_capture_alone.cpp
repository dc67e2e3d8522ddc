// expect: checkpoint\(f, x\.\.\.\): f uses a traced value that it does not take as an argument; pass it: checkpoint\(f, x, value\)
#include <gradus/gradus.hpp>

using plain = gradus::tensor<float, gradus::shape<3>>;
using value = gradus::traced<plain, gradus::tape<gradus::cpu>>;

#ifdef GRADUS_FAIL
auto f(const plain& x, const value& y) {
  return gradus::checkpoint([&](auto v) { return v * y; }, x);
}
#else
auto f(const plain& x, const value& y) {
  return gradus::checkpoint([&](auto v, auto w) { return v * w; }, x, y);
}
#endif
