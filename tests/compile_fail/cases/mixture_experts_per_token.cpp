// expect: mixture<X, Width, Experts, PerToken>: PerToken must be at least 1 and at most Experts
// expect: experts_per_token_exist<9(UL)?, 8(UL)?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr gradus::index_t chosen = 9;
#else
constexpr gradus::index_t chosen = 2;
#endif

gradus::nn::mixture<gradus::on<gradus::cpu>, 64, 8, chosen> f();
auto g() { return sizeof(f()); }
