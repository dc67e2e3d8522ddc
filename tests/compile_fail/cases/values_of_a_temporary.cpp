// expect: x\.values\(\): x is a temporary tensor, whose memory ends here; name it first, or copy it by to_host\(x\)
#include <gradus/gradus.hpp>

auto f(gradus::context<gradus::cpu>& ctx) {
#ifdef GRADUS_FAIL
  return gradus::ones<float, gradus::shape<3>>(ctx).values();
#else
  auto x = gradus::ones<float, gradus::shape<3>>(ctx);
  return *x.values().data();
#endif
}
