// expect: apply\(op, x\.\.\.\): the operands must be on one device
// expect: operands_are_on_one_device<.*functor::add>, .*tensor<float, (gradus::)?shape<2, 2>.*, (gradus::)?tensor<float, (gradus::)?shape<2, 2>, (gradus::)?meta>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using device = gradus::meta;
#else
using device = gradus::cpu;
#endif

auto f(const gradus::tensor<float, gradus::shape<2, 2>>& a,
       const gradus::tensor<float, gradus::shape<2, 2>, device>& b) {
  return a + b;
}
