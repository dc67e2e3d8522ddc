// expect: x\.data\(\): x is a temporary tensor, whose memory ends here; name it first
#include <gradus/gradus.hpp>

auto f(gradus::context<gradus::cpu>& ctx) {
#ifdef GRADUS_FAIL
  return gradus::ones<float, gradus::shape<3>>(ctx).data();
#else
  auto x = gradus::ones<float, gradus::shape<3>>(ctx);
  return *x.data();
#endif
}
