// expect: reshape<extents\.\.\.>\(x\): write every extent; -1 is not inferred
// expect: extents_are_positive<-1, 2>
// expect-lines: 15
#include <gradus/gradus.hpp>

auto f(const gradus::tensor<float, gradus::shape<2, 3>>& x) {
#ifdef GRADUS_FAIL
  return gradus::reshape<-1, 2>(x);
#else
  return gradus::reshape<3, 2>(x);
#endif
}
