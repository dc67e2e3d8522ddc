// expect: reshape<extents\.\.\.>\(x\): every extent must be written; -1 is not worked out
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
