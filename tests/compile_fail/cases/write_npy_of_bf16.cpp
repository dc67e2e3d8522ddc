// expect: write_npy: NumPy has no bf16; write gr::cast<float>\(x\)
#include <gradus/data/npy.hpp>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using element = gradus::bf16;
#else
using element = gradus::f16;
#endif

void f(const gradus::tensor<element, gradus::shape<2, 4>>& x) { gradus::write_npy("x.npy", x); }
