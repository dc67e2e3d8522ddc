// expect: map\(f, x\.\.\.\): takes one to four operands
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
#define OPERANDS x, x, x, x, x
#else
#define OPERANDS x, x, x, x
#endif

struct total {
  template <class T, class... Ts>
  T operator()(T a, Ts... b) const {
    return (a + ... + b);
  }
};
auto f(const gradus::tensor<float, gradus::shape<2>>& x) { return gradus::map(total{}, OPERANDS); }
