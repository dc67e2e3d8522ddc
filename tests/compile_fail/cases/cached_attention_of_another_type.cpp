// expect: the past must hold the element type of qkv
#include <gradus/gradus.hpp>

namespace gr = gradus;

void attend(gr::context<gr::cpu>& ctx) {
  const auto qkv = gr::zeros<float, gr::shape<1, 1, 24>>(ctx);
#ifdef GRADUS_FAIL
  gr::nn::key_value_cache<gr::on<gr::cpu, gr::bf16_mixed>, 1, 1, 2, 16, 4> past(ctx);
#else
  gr::nn::key_value_cache<gr::on<gr::cpu>, 1, 1, 2, 16, 4> past(ctx);
#endif
  gr::causal_attention<2>(qkv, past.layer(0, 1));
}
