// expect: every extent of a shape must be at least 1
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
gradus::shape<2, 0> s;
#else
gradus::shape<2, 1> s;
#endif
