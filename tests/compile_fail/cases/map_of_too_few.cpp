// expect: map\(f, x\.\.\.\): f must take one argument per operand, all of one deduced type
// expect: functor_takes_arguments<product, float, (gradus::)?tensor<float, (gradus::)?shape<2>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
#define OPERANDS x
#else
#define OPERANDS x, x
#endif

struct product {
  template <class T>
  T operator()(T a, T b) const {
    return a * b;
  }
};
auto f(const gradus::tensor<float, gradus::shape<2>>& x) { return gradus::map(product{}, OPERANDS); }
