// expect: lengths must have elements of std::int32_t and masks of bool, .*write cast<std::int32_t>\(lengths\)
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using length = std::int64_t;
#else
using length = std::int32_t;
#endif

auto f(const gradus::tensor<float, gradus::shape<2, 4, 8>>& q,
       const gradus::tensor<length, gradus::shape<2>>& lengths) {
  return gradus::attention<2>(q, q, q, {.key_lengths = lengths});
}
