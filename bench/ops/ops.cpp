// The operations, forward and backward, each on one telling shape: time, GB/s, GFLOP/s, and the share of what this
// machine can do: of its memory bandwidth or of its GEMM rate, whichever is nearer. Bytes and FLOPs are those
// of a profile. Operands are 64 MiB in float, well beyond a core's caches, except where an operation
// computes long on each element. Rows of bf16 have /bf16 behind their name.
#include <algorithm>
#include <cstdint>
#include <gradus/report/profile.hpp>
#include <string>
#include <tuple>
#include <utility>

#include "measure.hpp"

namespace gr = gradus;

namespace {

struct bench_world {
  gr::stream stream;
  gr::host_resource heap;
  gr::pool_resource pool{heap};
  gr::context<gr::cpu> ctx{stream, pool};
  gr::tape<gr::cpu> tape{ctx};
  bench::machine peak = bench::measure_machine(ctx);
  std::string type;  ///< behind the names of rows
  std::uint32_t ordinal = 0;

  template <class T, class S>
  auto random() {
    auto t = gr::empty<T, S>(ctx);
    const gr::random_key key{.seed = 1, .ordinal = ordinal++};
    for (gr::index_t i = 0; i < S::size; ++i) t.data()[i] = static_cast<T>(gr::uniform_float(key.words(i)[0]) + 0.5f);
    return t;
  }
  template <class S>
  auto ids(std::uint32_t below) {
    auto t = gr::empty<std::int32_t, S>(ctx);
    const gr::random_key key{.seed = 1, .ordinal = ordinal++};
    for (gr::index_t i = 0; i < S::size; ++i) t.data()[i] = static_cast<std::int32_t>(key.words(i)[0] % below);
    return t;
  }
};

template <class X>
auto traced_input(gr::tape<gr::cpu>& tape, const X& x) {
  if constexpr (gr::is_floating<typename X::value_type>) return tape.variable(x);
  else return tape.watch(x);
}

/// Gives a traced value, or each of several, a gradient of ones.
template <class Y>
void seed(bench_world& w, const Y& y) {
  using V = gr::tensor_of<Y>;
  y.slot()->give(gr::ones<typename V::value_type, typename V::shape>(w.ctx));
}
template <class... Ys>
void seed(bench_world& w, const std::tuple<Ys...>& ys) {
  std::apply([&](const auto&... y) { (seed(w, y), ...); }, ys);
}

/// Registers name/forward and name/backward for f(x...) with the operation's cost; a way without a cost is left out.
template <class F, class... Xs>
void add(bench_world& w, const std::string& name, gr::cost forward, gr::cost backward, F f, Xs... xs) {
  const auto row = [&](const char* way, gr::cost c, auto time) {
    bench::add_row(w.peak, name + w.type + way, static_cast<double>(c.bytes()), static_cast<double>(c.flops), time);
  };
  if (forward.bytes() > 0)
    row("/forward", forward, [=] {
      return bench::best_time([&] {
        auto y = f(xs...);
        benchmark::DoNotOptimize(y);
      });
    });
  if (backward.bytes() > 0)
    row("/backward", backward, [=, &w] {
      return bench::best_of([&] {
        auto y = f(traced_input(w.tape, xs)...);
        seed(w, y);
        const double seconds = bench::seconds_of([&] { w.tape.unwind(); });
        w.tape.clear();
        return seconds;
      });
    });
}

/// The work of f(x...) in a phase, as a profile says: on plain tensors, or recorded on the tape.
template <class F, class... Xs>
gr::cost work_of(bench_world& w, gr::phase when, bool recorded, F f, const Xs&... xs) {
  gr::profiler profiler;
  w.ctx.observe(&profiler);
  if (recorded) {
    const auto y = f(traced_input(w.tape, xs)...);
    seed(w, y);
    w.tape.unwind();
    w.tape.clear();
  } else {
    (void)f(xs...);
  }
  w.ctx.observe(nullptr);
  gr::cost sum;
  for (const auto& e : profiler.entries())
    if (e.phase == when) sum = sum + e.work;
  return sum;
}

/// Registers name/recorded: forward on the tape, of an operation that does more there than on plain tensors.
template <class F, class... Xs>
void add_recorded(bench_world& w, const std::string& name, F f, Xs... xs) {
  const gr::cost c = work_of(w, gr::phase::forward, true, f, xs...);
  bench::add_row(w.peak, name + w.type + "/recorded", static_cast<double>(c.bytes()), static_cast<double>(c.flops),
                 [=, &w] {
                   return bench::best_of([&] {
                     const double seconds = bench::seconds_of([&] {
                       auto y = f(traced_input(w.tape, xs)...);
                       benchmark::DoNotOptimize(y);
                     });
                     w.tape.clear();
                     return seconds;
                   });
                 });
}

/// As add(), with the work that a profile says.
template <class F, class... Xs>
void add_op(bench_world& w, const std::string& name, F f, Xs... xs) {
  const gr::cost backward = gr::is_floating<typename decltype(f(xs...))::value_type>
                                ? work_of(w, gr::phase::backward, true, f, xs...)
                                : gr::cost{};
  add(w, name, work_of(w, gr::phase::forward, false, f, xs...), backward, f, xs...);
}

template <class Functor, class... Xs>
void add_map(bench_world& w, const std::string& name, Functor functor, Xs... xs) {
  add_op(
      w, name, [functor](auto&&... x) { return gr::map(functor, x...); }, xs...);
}

/// The operations on values of T.
template <class T>
void register_ops(bench_world& w) {
  using big = gr::shape<8192, 2048>;
  using small = gr::shape<512, 2048>;
  const auto x = w.random<T, big>();
  const auto y = w.random<T, big>();
  const auto row = w.random<T, gr::shape<2048>>();
  const auto little = w.random<T, small>();
  namespace fn = gr::functor;
  const auto addition = [](auto&&... p) { return gr::map(fn::add{}, p...); };
  // Its gradient is the result's own, handed on: nothing to measure.
  add(w, "add", work_of(w, gr::phase::forward, false, addition, x, y), {}, addition, x, y);
  add_map(w, "add_row", fn::add{}, x, row);
  add_map(w, "subtract", fn::subtract{}, x, y);
  add_map(w, "multiply", fn::multiply{}, x, y);
  add_map(w, "divide", fn::divide{}, x, y);
  add_map(w, "negate", fn::negate{}, x);
  add_map(w, "affine", fn::affine{2.0, 1.0}, x);
  add_map(w, "divide_by", fn::divide_by{3.0}, x);
  add_map(w, "divide_into", fn::divide_into{3.0}, x);
  add_map(w, "minimum", fn::minimum{}, x, y);
  add_map(w, "maximum", fn::maximum{}, x, y);
  add_map(w, "sqrt", fn::sqrt{}, x);
  add_map(w, "rsqrt", fn::rsqrt{}, x);
  add_map(w, "abs", fn::abs{}, x);
  add_map(w, "relu", fn::relu{}, x);
  add_map(w, "exp", fn::exp{}, x);
  add_map(w, "log", fn::log{}, little);
  add_map(w, "tanh", fn::tanh{}, x);
  add_map(w, "sigmoid", fn::sigmoid{}, x);
  add_map(w, "silu", fn::silu{}, x);
  add_map(w, "gelu", fn::gelu{}, x);
  add_map(w, "gelu_erf", fn::gelu_erf{}, little);
  add_map(w, "pow", fn::pow{}, little, little);
  add_map(w, "pow_constant", fn::pow_constant{1.5}, little);
  add_map(w, "clamp", fn::clamp{0.6, 1.2}, x);
  add_map(w, "where", fn::where{}, x, x, y);

  add_op(
      w, "sum_all", [](auto&& a) { return gr::sum(a); }, x);
  add_op(
      w, "sum_rows", [](auto&& a) { return gr::sum<-1>(a); }, x);
  add_op(
      w, "sum_columns", [](auto&& a) { return gr::sum<0>(a); }, x);
  add_op(
      w, "mean_rows", [](auto&& a) { return gr::mean<-1>(a); }, x);
  add_op(
      w, "max_rows", [](auto&& a) { return gr::max<-1>(a); }, x);
  add_op(
      w, "min_rows", [](auto&& a) { return gr::min<-1>(a); }, x);
  add_op(
      w, "argmax_rows", [](auto&& a) { return gr::argmax<-1>(a); }, x);
  add_op(
      w, "variance_rows", [](auto&& a) { return gr::variance<-1>(a); }, x);
  add_op(
      w, "softmax", [](auto&& a) { return gr::softmax(a); }, x);
  add_op(
      w, "log_softmax", [](auto&& a) { return gr::log_softmax(a); }, x);
  add_op(
      w, "layer_norm", [](auto&& a, auto&& g, auto&& b) { return gr::layer_norm(a, g, b); }, x, row, row);
  add_op(
      w, "rms_norm", [](auto&& a, auto&& g) { return gr::rms_norm(a, g); }, x, row);
  add_op(
      w, "permute", [](auto&& a) { return gr::permute<1, 0>(a); }, x);
  add_op(
      w, "slice", [](auto&& a) { return gr::slice<1, 512, 1024>(a); }, x);
  // Three slices; reshape is not here: it shares its operand's elements, and its gradient shares too.
  const gr::cost all_of_x{.flops = 0, .bytes_read = x.bytes, .bytes_written = x.bytes};
  add(
      w, "split", all_of_x, all_of_x, [](auto&& a) { return gr::split<1, 512, 512, 1024>(a); }, x);
  add_op(
      w, "concat", [](auto&& a, auto&& b) { return gr::concat<1>(a, b); }, x, y);
  // On a plain tensor it does nothing.
  const auto drop = [](auto&& p) { return gr::dropout(p, 0.1); };
  add_recorded(w, "dropout", drop, x);
  add(w, "dropout", {}, work_of(w, gr::phase::backward, true, drop, x), drop, x);

  const auto a = w.random<T, gr::shape<1024, 768>>();
  const auto m = w.random<T, gr::shape<768, 3072>>();
  const auto bias = w.random<T, gr::shape<3072>>();
  add_op(
      w, "matmul", [](auto&& p, auto&& q) { return gr::matmul(p, q); }, a, m);
  add_op(
      w, "linear", [](auto&& p, auto&& q, auto&& r) { return gr::linear(p, q, r); }, a, m, bias);

  const auto tokens = w.ids<gr::shape<64, 512>>(50257);
  const auto table = w.random<T, gr::shape<50304, 256>>();
  add_op(
      w, "embedding", [](auto&& t, auto&& e) { return gr::embedding(t, e); }, tokens, table);
  const auto qkv = w.random<T, gr::shape<8, 512, 3 * 384>>();
  add_op(
      w, "causal_attention", [](auto&& t) { return gr::causal_attention<6>(t); }, qkv);
  const auto heads = [&w] { return w.random<T, gr::shape<8, 6, 512, 64>>(); };
  add_op(
      w, "attention", [](auto&& q, auto&& k, auto&& v) { return gr::attention(q, k, v); }, heads(), heads(), heads());

  const auto logits = w.random<T, gr::shape<512, 50304>>();
  const auto targets = w.ids<gr::shape<512>>(50257);
  const auto loss = [](auto&& l, auto&& t) { return gr::cross_entropy<50257>(l, gr::plain(t)); };
  add_op(w, "cross_entropy", loss, logits, targets);
  add_recorded(w, "cross_entropy", loss, logits, targets);

  // With the product that makes the logits. Recorded, it makes both gradients too; plain, it takes one product of those
  // three.
  const auto hidden = w.random<T, gr::shape<512, 256>>();
  constexpr gr::cost plain{(2 * 256 + 5) * decltype(logits)::size, hidden.bytes + table.bytes + targets.bytes, 0};
  const auto head_loss = [](auto&& h, auto&& e, auto&& t) {
    return gr::linear_cross_entropy<50257>(h, e, gr::plain(t));
  };
  add(w, "linear_cross_entropy", plain, {}, head_loss, hidden, table, targets);
  add_recorded(w, "linear_cross_entropy", head_loss, hidden, table, targets);
}

/// FLOPs a second of products of T, the best of two sizes.
template <class T, gr::index_t Size>
double rate_of_product(bench_world& w) {
  const auto a = w.random<T, gr::shape<Size, Size>>(), b = w.random<T, gr::shape<Size, Size>>();
  return 2.0 * static_cast<double>(Size * Size * Size) / bench::best_time([&] {
           auto y = gr::matmul(a, b);
           benchmark::DoNotOptimize(y);
         });
}
template <class T>
double product_rate(bench_world& w) {
  return std::max(rate_of_product<T, 1024>(w), rate_of_product<T, 2048>(w));
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  bench_world w;
  constexpr double amount = 1e9;
  bench::add_row(w.peak, "peak/copy", amount, 0, [&] { return amount / w.peak.copy; });
  bench::add_row(w.peak, "peak/read", amount, 0, [&] { return amount / w.peak.read; });
  bench::add_row(w.peak, "peak/gemm", 0, amount, [&] { return amount / w.peak.gemm; });
  bench::register_gemm(w.peak);
  bench::register_optimizers(w.peak);
  register_ops<float>(w);
  w.type = "/bf16";
  w.peak.gemm = product_rate<gr::bf16>(w);
  register_ops<gr::bf16>(w);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::ClearRegisteredBenchmarks();  // they hold tensors of this world
  benchmark::Shutdown();
}
