// Operations at one batch size, or at three (-DBATCHES): the kernels must be the same ones.
#include <gradus/gradus.hpp>

namespace gr = gradus;

namespace {

template <gr::index_t Batch>
void step(gr::context<gr::cpu>& ctx) {
  gr::tape<gr::cpu> tape(ctx);
  const auto x = tape.variable(gr::ones<float, gr::shape<Batch, 24>>(ctx));
  const auto row = tape.variable(gr::ones<float, gr::shape<24>>(ctx));
  const auto table = tape.variable(gr::ones<float, gr::shape<10, 24>>(ctx));
  const auto targets = gr::zeros<std::int32_t, gr::shape<Batch>>(ctx);
  const auto a = gr::layer_norm(gr::softmax(x), row, row);
  const auto b = gr::dropout(gr::rms_norm(gr::gelu(a + row), row) * a, 0.5);
  const auto c = gr::permute<1, 0>(gr::permute<1, 0>(b));
  const auto d = gr::concat<1>(gr::slice<1, 4, 8>(c), gr::slice<1, 0, 16>(c));
  gr::backward(gr::cross_entropy(gr::log_softmax(d + gr::embedding(targets, table)), targets) +
               gr::mean(gr::logsumexp(x)) + gr::mean(gr::prod<1>(gr::cumsum<0>(x) + gr::cumsum<1>(x))) +
               gr::nll_loss(x, targets) + gr::mse_loss(gr::where(x < row, x, row), x));
}

template <gr::index_t Batch>
void movements(gr::context<gr::cpu>& ctx) {
  gr::tape<gr::cpu> tape(ctx);
  const auto x = tape.variable(gr::ones<float, gr::shape<Batch, 24>>(ctx));
  const auto indices = gr::zeros<std::int32_t, gr::shape<Batch>>(ctx);
  const auto a = gr::roll<0>(gr::pad<1, 1, 2>(gr::tril(gr::sort(x))), 1);
  const auto b = gr::index_select<0>(a, indices) + gr::slice<0, 1>(a, 2);
  gr::backward(gr::sum(b) + gr::sum(gr::topk<2>(x).first) + gr::sum(gr::one_hot<3>(indices)));
}

// Over the innermost axis, the outermost, one between, two, and all.
template <gr::index_t Batch>
void reductions(gr::context<gr::cpu>& ctx) {
  gr::tape<gr::cpu> tape(ctx);
  const auto x = tape.variable(gr::ones<float, gr::shape<Batch, 6, 4>>(ctx));
  const auto over = [&]<class Axes>(Axes) {
    gr::backward(
        gr::sum(gr::sum<Axes>(x) + gr::mean<Axes>(x) + gr::variance<Axes>(x) + gr::max<Axes>(x) + gr::min<Axes>(x)));
    static_cast<void>(gr::argmax<Axes>(x));
  };
  over(gr::axes<2>{});
  over(gr::axes<0>{});
  over(gr::axes<1>{});
  over(gr::axes<0, 2>{});
  over(gr::axes<>{});
  static_cast<void>(gr::sum<0>(gr::ones<std::int32_t, gr::shape<Batch, 6>>(ctx)));
}

template <gr::index_t Batch>
void attentions(gr::context<gr::cpu>& ctx) {
  gr::tape<gr::cpu> tape(ctx);
  const auto x = gr::rope<2>(tape.variable(gr::ones<float, gr::shape<Batch, 5, 8>>(ctx)));
  gr::backward(gr::sum(gr::attention<2>(x, x, x, gr::ones<float, gr::shape<1, 1, 5, 5>>(ctx), {.window = 2})));
}

template <gr::index_t Batch>
void images(gr::context<gr::cpu>& ctx) {
  gr::nn::batch_norm<gr::on<gr::cpu>, 4> batch_norm;
  gr::nn::group_norm<gr::on<gr::cpu>, 2, 4> group_norm;
  gr::tape<gr::cpu> tape(ctx);
  const auto x = tape.variable(gr::ones<float, gr::shape<Batch, 4, 6, 6>>(ctx));
  const auto a = gr::max_pool2d<gr::pool{.size = 2}>(group_norm(batch_norm(x)));
  gr::backward(gr::sum(gr::adaptive_avg_pool2d<1, 1>(a)) +
               gr::sum(gr::adaptive_max_pool2d<1, 1>(gr::avg_pool2d<gr::pool{.size = 2}>(x))));
  static_cast<void>(batch_norm(x.value()));
}

template <gr::index_t Batch>
void mixtures(gr::context<gr::cpu>& ctx) {
  gr::tape<gr::cpu> tape(ctx);
  const auto x = tape.variable(gr::ones<float, gr::shape<Batch, 24>>(ctx));
  const auto w = tape.variable(gr::ones<float, gr::shape<3, 24, 8>>(ctx));
  const auto weights = tape.variable(gr::ones<float, gr::shape<Batch, 2>>(ctx));
  const auto order = gr::sort_by_group<3>(gr::zeros<std::int32_t, gr::shape<Batch, 2>>(ctx));
  const auto y = gr::grouped_matmul(gr::dispatch_rows(x, order.places), w, order.offsets);
  gr::backward(gr::sum(gr::combine_rows(y, weights, order.places)));
}

template <gr::index_t Batch>
void convolutions(gr::context<gr::cpu>& ctx) {
  gr::tape<gr::cpu> tape(ctx);
  const auto x = tape.variable(gr::ones<float, gr::shape<Batch, 2, 6, 5>>(ctx));
  const auto w = tape.variable(gr::ones<float, gr::shape<4, 2, 3, 3>>(ctx));
  const auto b = tape.variable(gr::ones<float, gr::shape<4>>(ctx));
  const auto d = tape.variable(gr::ones<float, gr::shape<4, 1, 2, 2>>(ctx));
  const auto y = gr::conv2d<gr::conv{.padding = 1}>(x, w, b);
  gr::backward(gr::sum(gr::conv_transpose2d<gr::conv_transpose{.stride = 2}>(y, w)) +
               gr::sum(gr::conv2d<gr::conv{.stride = 2, .groups = 4}>(y, d)));
}

template <gr::index_t Batch>
void recurrences(gr::context<gr::cpu>& ctx) {
  gr::tape<gr::cpu> tape(ctx);
  const auto gates = tape.variable(gr::ones<float, gr::shape<Batch, 5, 24>>(ctx));
  const auto h = gr::ones<float, gr::shape<Batch, 6>>(ctx);
  const auto [y, last_h, c] = gr::lstm(gates, gr::ones<float, gr::shape<6, 24>>(ctx), h, h);
  gr::backward(gr::sum(y) +
               gr::sum(gr::gru(gates, gr::ones<float, gr::shape<8, 24>>(ctx), gr::ones<float, gr::shape<24>>(ctx))));
}

}  // namespace

int main() {
  gr::stream stream;
  gr::host_resource heap;
  gr::context<gr::cpu> ctx{stream, heap};
  step<32>(ctx);
  movements<32>(ctx);
  reductions<32>(ctx);
  attentions<32>(ctx);
  images<32>(ctx);
  mixtures<32>(ctx);
  convolutions<32>(ctx);
  recurrences<32>(ctx);
#if defined(BATCHES)
  step<48>(ctx);
  movements<48>(ctx);
  step<80>(ctx);
  reductions<48>(ctx);
  reductions<80>(ctx);
  attentions<48>(ctx);
  images<48>(ctx);
  mixtures<48>(ctx);
  mixtures<80>(ctx);
  convolutions<48>(ctx);
  convolutions<80>(ctx);
  recurrences<48>(ctx);
#endif
}
