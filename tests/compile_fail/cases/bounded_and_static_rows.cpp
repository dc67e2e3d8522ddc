// expect: a \+ b: the shapes of a and b must be equal, or 1 where they differ
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr gradus::index_t rows = 64;
#else
constexpr gradus::index_t rows = gradus::upto<64>;
#endif

auto sum(const gradus::tensor<float, gradus::shape<gradus::upto<64>, 3>>& a,
         const gradus::tensor<float, gradus::shape<rows, 3>>& b) {
  return a + b;
}
