// expect: rope<Heads>\(x\): the last axis must be divisible by 2 \* Heads
// expect: heads_have_pairs<36, 12>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::tensor<float, gradus::shape<2, 8, 36>>;
#else
using subject = gradus::tensor<float, gradus::shape<2, 8, 48>>;
#endif

auto f(const subject& x) { return gradus::rope<12>(x, {.base = 500000}); }
