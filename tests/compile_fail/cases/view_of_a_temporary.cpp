// expect: x\.view\(\): x is a temporary tensor, whose memory ends here; name it first
#include <gradus/gradus.hpp>

auto f(gradus::context<gradus::cpu>& ctx) {
#ifdef GRADUS_FAIL
  return gradus::ones<float, gradus::shape<3>>(ctx).view();
#else
  auto x = gradus::ones<float, gradus::shape<3>>(ctx);
  return *x.view().data();
#endif
}
