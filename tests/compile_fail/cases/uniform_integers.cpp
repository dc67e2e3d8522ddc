// expect: uniform<T, Shape>\(ctx, key\): T must be a floating-point type
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using element = int;
#else
using element = float;
#endif

auto f(gradus::context<gradus::cpu>& ctx) { return gradus::uniform<element, gradus::shape<2>>(ctx, {1}); }
