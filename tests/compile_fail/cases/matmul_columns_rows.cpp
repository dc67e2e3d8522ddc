// expect(g++): error: static assertion failed: matmul\(a, b\): columns of a must equal rows of b$
// expect(g++): note: .gradus::detail::columns_equal_rows<3, 4>. evaluates to false$
// expect(clang++): error: static(_assert| assertion) failed due to requirement .detail::columns_equal_rows<3, 4>.:? "?matmul\(a, b\): columns of a must equal rows of b"?$
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::tensor<float, gradus::shape<4, 5>>;
#else
using subject = gradus::tensor<float, gradus::shape<3, 5>>;
#endif

auto f(const gradus::tensor<float, gradus::shape<2, 3>>& a, const subject& b) { return gradus::matmul(a, b); }
