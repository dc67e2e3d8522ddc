// expect: the extents of a parameter are numbers, not upto<N>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr gradus::index_t extent = gradus::upto<3>;
#else
constexpr gradus::index_t extent = 3;
#endif

gradus::param<gradus::on<gradus::cpu>, extent> p;
