// expect: must have the past's \[B, H, S, D\] sequences, heads and numbers of a head
// expect(g++): fits_the_past<gradus::shape<1, 1, 24>, gradus::shape<1, 4, 16, 4>, 2
#include <gradus/gradus.hpp>

namespace gr = gradus;

void attend(gr::context<gr::cpu>& ctx) {
  const auto qkv = gr::zeros<float, gr::shape<1, 1, 24>>(ctx);
#ifdef GRADUS_FAIL
  gr::nn::key_value_cache<gr::on<gr::cpu>, 1, 1, 4, 16, 4> past(ctx);
#else
  gr::nn::key_value_cache<gr::on<gr::cpu>, 1, 1, 2, 16, 4> past(ctx);
#endif
  gr::causal_attention<2>(qkv, past.layer(0, 1));
}
