// expect: minimum\(x, c\), maximum\(x, c\): beside integers a number must be whole
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr auto bound = 0.5;
#else
constexpr auto bound = 1;
#endif

auto f(const gradus::tensor<std::int32_t, gradus::shape<3>>& x) { return gradus::maximum(x, bound); }
