// expect: reshape<extents\.\.\.>\(x\): the product of the other extents must divide the number of elements of x
// expect: others_divide_elements<6(UL)?, 4(UL)?>
// expect-lines: 17
#include <gradus/gradus.hpp>

auto f(const gradus::tensor<float, gradus::shape<2, 3>>& x) {
#ifdef GRADUS_FAIL
  return gradus::reshape<-1, 4>(x);
#else
  return gradus::reshape<-1, 2>(x);
#endif
}
