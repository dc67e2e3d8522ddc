// expect: map\(f, x\.\.\.\): f must take as many arguments as there are operands, all of one type, whatever it is
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
