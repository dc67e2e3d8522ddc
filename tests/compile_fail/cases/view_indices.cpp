// expect: view\(i\.\.\.\): one index for each axis
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
#define INDICES 1
#else
#define INDICES 1, 2
#endif

float f(gradus::view<float, gradus::shape<2, 3>> x) { return x(INDICES); }
