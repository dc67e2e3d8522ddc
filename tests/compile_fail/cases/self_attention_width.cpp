// expect: self_attention<X, Width, Heads>: Width must be divisible by Heads
// expect: heads_divide_width<5(UL)?, 768(UL)?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr gradus::index_t heads = 5;
#else
constexpr gradus::index_t heads = 12;
#endif

gradus::nn::self_attention<gradus::on<gradus::cpu>, 768, heads> layer;
