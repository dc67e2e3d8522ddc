// expect: pooling\(x\): sequences have the axes \[B, C, L\]
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using sequences = gradus::shape<3, 4>;
#else
using sequences = gradus::shape<1, 3, 4>;
#endif

auto f(const gradus::tensor<float, sequences>& x) { return gradus::max_pool1d<gradus::pool{.size = 2}>(x); }
