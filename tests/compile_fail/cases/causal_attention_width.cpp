// expect: causal_attention<Heads>\(qkv\): the last axis of qkv must be divisible by 3 \* Heads
// expect: width_divides<100(UL)?, 12(UL)?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::tensor<float, gradus::shape<2, 8, 100>>;
#else
using subject = gradus::tensor<float, gradus::shape<2, 8, 96>>;
#endif

auto f(const subject& qkv) { return gradus::causal_attention<4>(qkv); }
