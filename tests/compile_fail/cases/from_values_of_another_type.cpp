// expect: from_values<T, Shape>\(ctx, values\): the values must be of type T
// expect-lines: 15
#include <gradus/gradus.hpp>

#include <vector>

#ifdef GRADUS_FAIL
using value = double;
#else
using value = float;
#endif

auto f(gradus::context<gradus::cpu>& ctx, const std::vector<value>& values) {
  return gradus::from_values<float, gradus::shape<4, 8>>(ctx, values);
}
