// expect: x \+ c, x - c, x \* c, x / c: an integer tensor takes whole constants \(x \* 2\)
// expect: constant_fits_elements<double, int>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using element = int;
#else
using element = float;
#endif

auto f(const gradus::tensor<element, gradus::shape<2, 3>>& x) { return x * 0.5; }
