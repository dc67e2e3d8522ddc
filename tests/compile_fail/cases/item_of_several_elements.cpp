// expect: item\(x\): x must have exactly one element
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using extents = gradus::shape<2>;
#else
using extents = gradus::shape<1>;
#endif

float value(const gradus::tensor<float, extents>& x) { return gradus::item(x); }
