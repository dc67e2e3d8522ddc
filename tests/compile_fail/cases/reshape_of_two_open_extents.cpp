// expect: reshape<extents\.\.\.>\(x\): one extent may be -1, which is inferred; the others must be at least 1
// expect: one_extent_is_open<-1, -1>
// expect-lines: 17
#include <gradus/gradus.hpp>

auto f(const gradus::tensor<float, gradus::shape<2, 3>>& x) {
#ifdef GRADUS_FAIL
  return gradus::reshape<-1, -1>(x);
#else
  return gradus::reshape<3, -1>(x);
#endif
}
