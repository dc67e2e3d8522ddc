// expect: map\(f, x\.\.\.\): the operands. shapes do not broadcast together
// expect: shape<2, 3>, (gradus::)?shape<4>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::tensor<float, gradus::shape<4>>;
#else
using subject = gradus::tensor<float, gradus::shape<3>>;
#endif

struct product {
  template <class T>
  T operator()(T a, T b) const {
    return a * b;
  }
};
auto f(const gradus::tensor<float, gradus::shape<2, 3>>& a, const subject& b) { return gradus::map(product{}, a, b); }
