// A user's program, compiled with many warnings and without -isystem: whatever the headers bring with them shows here.
#include <gradus/gradus.hpp>
#include <gradus/planning.hpp>

namespace gr = gradus;

struct scaled_tanh {
  float scale;
  template <class T>
  T operator()(T x, T y) const {
    using gr::math::tanh;
    return T(scale) * tanh(x) + y / T(2);
  }
};

template <class X>
struct network {
  gr::param<X, 32, 24> table;
  gr::nn::linear<X, 24, 72> qkv;
  gr::nn::layer_norm<X, 24> norm;
  GRADUS_MEMBERS(table, qkv, norm)

  auto operator()(const auto& ids) const {
    auto x = gr::embedding(ids, table);
    auto y = gr::causal_attention<2>(qkv(norm(x)));
    return gr::map(scaled_tanh{0.5f}, gr::gelu(gr::dropout(y, 0.1)), x);
  }
};

int main() {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  network<gr::on<gr::cpu>> model;
  gr::init(model, ctx, gr::normal_init{.seed = 1});
  gr::adamw optimizer{model};
  gr::tape tape{ctx};
  const auto ids = gr::zeros<std::int32_t, gr::shape<2, 9>>(ctx);
  for (int step = 0; step < 2; ++step) {
    const auto y = gr::reshape<18, 24>(model(tape.watch(ids)));
    const auto loss = gr::linear_cross_entropy(y, model.table, gr::reshape<18>(ids));
    gr::backward(loss + gr::mean(gr::softmax(y) * gr::sigmoid(y)));
    optimizer.clip(ctx, 1.0);
    optimizer.step(ctx);
  }
  const auto m = gr::uniform<double, gr::shape<3, 5>>(ctx, {});
  return gr::item(gr::sum(gr::exp(m) * gr::matmul(m, gr::ones<double, gr::shape<5, 5>>(ctx)))) > 0 ? 0 : 1;
}
