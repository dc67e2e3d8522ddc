// expect: index_add<axis>\(x, indices, values\): values need the shape of x, with an entry for each index
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr gradus::index_t entries = 3;
#else
constexpr gradus::index_t entries = 2;
#endif

auto f(const gradus::tensor<float, gradus::shape<5, 4>>& x,
       const gradus::tensor<std::int32_t, gradus::shape<2>>& indices,
       const gradus::tensor<float, gradus::shape<entries, 4>>& values) {
  return gradus::index_add<0>(x, indices, values);
}
