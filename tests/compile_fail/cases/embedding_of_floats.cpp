// expect: embedding\(tokens, table\): tokens must be integers
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::tensor<float, gradus::shape<4>>;
#else
using subject = gradus::tensor<std::int32_t, gradus::shape<4>>;
#endif

auto f(const subject& tokens, const gradus::tensor<float, gradus::shape<50, 8>>& table) {
  return gradus::embedding(tokens, table);
}
