// expect: from_host<T, Shape>\(ctx, values\): Shape is bounded; give the extents
#include <gradus/gradus.hpp>

auto make(gradus::context<gradus::cpu>& ctx, const float* values) {
#ifdef GRADUS_FAIL
  return gradus::from_host<float, gradus::shape<gradus::upto<64>, 3>>(ctx, values);
#else
  return gradus::from_host<float, gradus::shape<gradus::upto<64>, 3>>(ctx, values, 7);
#endif
}
