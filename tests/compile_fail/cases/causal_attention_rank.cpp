// expect: causal_attention<Heads>\(qkv\): qkv must have three axes
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::tensor<float, gradus::shape<8, 96>>;
#else
using subject = gradus::tensor<float, gradus::shape<2, 8, 96>>;
#endif

auto f(const subject& qkv) { return gradus::causal_attention<4>(qkv); }
