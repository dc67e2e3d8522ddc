// expect: checkpoint\(f, x\.\.\.\): f uses a traced value that it does not take as an argument; pass it: checkpoint\(f, x, value\)
#include <gradus/gradus.hpp>

using plain = gradus::tensor<float, gradus::shape<3>>;
using value = gradus::traced<plain, gradus::tape<gradus::cpu>>;

#ifdef GRADUS_FAIL
auto f(const value& x, const value& y) {
  return gradus::checkpoint([&](auto) { return gradus::exp(y); }, x);
}
#else
auto f(const value& x, const value& y) {
  return gradus::checkpoint([&](auto v, auto w) { return v * w; }, x, y);
}
#endif
