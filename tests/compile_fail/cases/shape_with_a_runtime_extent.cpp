// expect: run-time extents \(dyn\) are reserved, not supported yet
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr gradus::index_t extent = gradus::dyn;
#else
constexpr gradus::index_t extent = 3;
#endif

gradus::shape<extent> s;
