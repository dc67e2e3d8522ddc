// expect: from_values<T, Shape>\(ctx, \{\.\.\.\}\): the number of values must equal the number of elements of Shape
// expect: one_value_for_each_element<3(UL)?, 4(UL)?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
#define VALUES 1, 2, 3
#else
#define VALUES 1, 2, 3, 4
#endif

auto f(gradus::context<gradus::cpu>& ctx) { return gradus::from_values<float, gradus::shape<2, 2>>(ctx, {VALUES}); }
