// expect: a cache is for inference only; qkv must not be recorded
#include <gradus/gradus.hpp>

namespace gr = gradus;

void attend(gr::context<gr::cpu>& ctx) {
  gr::tape tape{ctx};
  auto qkv = gr::zeros<float, gr::shape<1, 1, 24>>(ctx);
  gr::nn::key_value_cache<gr::on<gr::cpu>, 1, 1, 2, 16, 4> past(ctx);
#ifdef GRADUS_FAIL
  gr::causal_attention<2>(tape.watch(qkv), past.layer(0, 1));
#else
  gr::causal_attention<2>(qkv, past.layer(0, 1));
#endif
}
