// expect: attention\(q, k, v\): only the batch and the numbers of queries and keys may be upto<N>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr gradus::index_t width = gradus::upto<16>;
#else
constexpr gradus::index_t width = 16;
#endif

auto attend(const gradus::tensor<float, gradus::shape<4, gradus::upto<9>, width>>& x) {
  return gradus::attention<2>(x, x, x);
}
