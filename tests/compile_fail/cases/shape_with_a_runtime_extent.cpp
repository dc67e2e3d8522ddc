// expect: run-time extents \(dyn\) are reserved, not supported yet
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr gradus::index extent = gradus::dyn;
#else
constexpr gradus::index extent = 3;
#endif

gradus::shape<extent> s;
