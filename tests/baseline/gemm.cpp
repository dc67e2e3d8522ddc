#include "../unit/cpu/gemm.cpp"
