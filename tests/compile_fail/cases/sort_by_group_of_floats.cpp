// expect: sort_by_group<groups>\(x\): x must be integers
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using element = float;
#else
using element = std::int32_t;
#endif

auto f(const gradus::tensor<element, gradus::shape<30, 2>>& x) { return gradus::sort_by_group<8>(x); }
