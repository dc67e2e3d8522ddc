// expect: embedding\(tokens, table\): the table must have two axes
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::tensor<float, gradus::shape<50, 8, 2>>;
#else
using subject = gradus::tensor<float, gradus::shape<50, 8>>;
#endif

auto f(const gradus::tensor<std::int32_t, gradus::shape<4>>& tokens, const subject& table) {
  return gradus::embedding(tokens, table);
}
