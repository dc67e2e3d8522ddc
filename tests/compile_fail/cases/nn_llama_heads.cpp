// expect: rotary_attention<X, Width, Heads, KvHeads>: Heads must be a multiple of KvHeads
// expect(g++): heads_share_keys<4, 3>
#include <gradus/gradus.hpp>

namespace nn = gradus::nn;

#ifdef GRADUS_FAIL
constexpr gradus::index_t kv_heads = 3;
#else
constexpr gradus::index_t kv_heads = 2;
#endif

nn::llama_block<gradus::on<gradus::cpu>, 64, 4, kv_heads, 96> block;
