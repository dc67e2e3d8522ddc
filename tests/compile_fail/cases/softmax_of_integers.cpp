// expect: softmax\(x\): x must have floating-point elements
// expect: is_floating<int>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using element = int;
#else
using element = float;
#endif

auto f(const gradus::tensor<element, gradus::shape<2, 3>>& x) { return gradus::softmax(x); }
