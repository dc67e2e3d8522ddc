// expect: where\(condition, a, b\): beside integers a number must be whole
// expect-lines: 15
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
#define NUMBER 0.5
#else
#define NUMBER -1
#endif

using integers = gradus::tensor<std::int32_t, gradus::shape<8>>;
auto f(const integers& condition, const integers& x) { return gradus::where(condition, x, NUMBER); }
