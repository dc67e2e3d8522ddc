// expect(g++): error: static assertion failed: a \+ b: the shapes of a and b must be equal, or 1 where they differ, axis by axis from the back$
// expect(g++): note: .gradus::detail::shapes_broadcast<gradus::shape<2, 3>, gradus::shape<2, 4> ?>. evaluates to false$
// expect(clang++): error: static(_assert| assertion) failed due to requirement .detail::shapes_broadcast<gradus::shape<2, 3>, gradus::shape<2, 4> ?>.:? "?a \+ b: the shapes of a and b must be equal, or 1 where they differ, axis by axis from the back"?$
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::tensor<float, gradus::shape<2, 4>>;
#else
using subject = gradus::tensor<float, gradus::shape<2, 1>>;
#endif

auto f(const gradus::tensor<float, gradus::shape<2, 3>>& a, const subject& b) { return a + b; }
