// expect: x < c, x == c: an integer tensor is compared with whole numbers; for others cast it first
#include <gradus/gradus.hpp>

auto f(const gradus::tensor<std::int32_t, gradus::shape<3>>& x) {
#ifdef GRADUS_FAIL
  return 0.5 < x;
#else
  return 0.5 < gradus::cast<float>(x);
#endif
}
