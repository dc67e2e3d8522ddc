// expect: rotary_attention<X, Width, Heads, KvHeads>: Width must be divisible by 2 \* Heads
// expect(g++): heads_divide_width<8, 60>
#include <gradus/gradus.hpp>

namespace nn = gradus::nn;

#ifdef GRADUS_FAIL
constexpr gradus::index_t width = 60;
#else
constexpr gradus::index_t width = 64;
#endif

nn::llama_block<gradus::on<gradus::cpu>, width, 4, 2, 96> block;
