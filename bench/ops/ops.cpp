// Every operation, forward and backward, on one typical shape: time, GB/s, GFLOP/s, and the share of what this machine can do:
// of its copy bandwidth or of its GEMM rate, whichever is nearer. Bytes and FLOPs are those that each operation's own cost names.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gradus/gradus.hpp>

namespace gr = gradus;

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct machine {
  double bytes_per_second = 0;  ///< of a copy, bytes read plus bytes written
  double flops_per_second = 0;  ///< of a float matrix product
};

machine measure_machine() {
  machine m;
  const gr::index n = gr::index{1} << 26;
  std::vector<float> a(n, 1.0f), b(n, 0.0f);
  const auto best_of = [](auto&& f) {
    f();
    double best = 1e9;
    for (int i = 0; i < 5; ++i) {
      const double start = now();
      f();
      best = std::min(best, now() - start);
    }
    return best;
  };
  m.bytes_per_second = 8.0 * static_cast<double>(n) / best_of([&] {
                         gr::cpu_kit::parallel_ranges(
                             n, 1 << 16, [&](gr::index i, gr::index j) { std::copy(&a[i], &a[j - 1] + 1, &b[i]); });
                       });
  const gr::index s = 2048;
  m.flops_per_second =
      2.0 * static_cast<double>(s * s * s) / best_of([&] {
        gr::cpu_kit::gemm<float>(false, false, s, s, s, a.data(), s, a.data() + s * s, s, 0.0f, b.data(), s);
      });
  return m;
}

struct bench_world {
  gr::stream stream;
  gr::host_resource heap;
  gr::pool_resource pool{heap};
  gr::context<gr::cpu> ctx{stream, pool};
  gr::tape<gr::cpu> tape{ctx};
  machine peak = measure_machine();
  std::uint32_t ordinal = 0;

  template <class T, class S>
  auto random() {
    auto t = gr::empty<T, S>(ctx);
    const gr::random_key key{.seed = 1, .ordinal = ordinal++};
    for (gr::index i = 0; i < S::size; ++i) t.data()[i] = static_cast<T>(gr::uniform_float(key.words(i)[0]) + 0.5f);
    return t;
  }
  template <class S>
  auto ids(std::uint32_t below) {
    auto t = gr::empty<std::int32_t, S>(ctx);
    const gr::random_key key{.seed = 1, .ordinal = ordinal++};
    for (gr::index i = 0; i < S::size; ++i) t.data()[i] = static_cast<std::int32_t>(key.words(i)[0] % below);
    return t;
  }
};

void report(benchmark::State& state, const machine& peak, gr::cost c) {
  const double count = static_cast<double>(state.iterations());
  const auto rate = [&](std::size_t amount) {
    return benchmark::Counter(static_cast<double>(amount) * count * 1e-9, benchmark::Counter::kIsRate);
  };
  state.counters["GB/s"] = rate(c.bytes());
  state.counters["GFLOP/s"] = rate(c.flops);
  const double least = std::max(static_cast<double>(c.bytes()) / peak.bytes_per_second,
                                static_cast<double>(c.flops) / peak.flops_per_second);
  state.counters["share_of_peak"] = benchmark::Counter(least * count, benchmark::Counter::kIsRate);
}

template <class X>
auto traced_input(gr::tape<gr::cpu>& tape, const X& x) {
  if constexpr (gr::is_floating<typename X::value_type>) return tape.variable(x);
  else return tape.watch(x);
}

/// Registers name/forward and name/backward for f(x...) with the operation's cost.
template <class F, class... Xs>
void add(bench_world& w, const std::string& name, gr::cost forward, gr::cost backward, F f, Xs... xs) {
  benchmark::RegisterBenchmark((name + "/forward").c_str(),
                               [=, &w](benchmark::State& state) {
                                 for (auto _ : state) {
                                   const double start = now();
                                   auto y = f(xs...);
                                   state.SetIterationTime(now() - start);
                                   benchmark::DoNotOptimize(y);
                                 }
                                 report(state, w.peak, forward);
                               })
      ->UseManualTime()
      ->MinTime(0.2);
  if (backward.bytes() == 0) return;
  benchmark::RegisterBenchmark((name + "/backward").c_str(),
                               [=, &w](benchmark::State& state) {
                                 for (auto _ : state) {
                                   auto y = f(traced_input(w.tape, xs)...);
                                   using Y = gr::tensor_of<decltype(y)>;
                                   y.slot()->give(gr::ones<typename Y::value_type, typename Y::shape>(w.ctx));
                                   const double start = now();
                                   w.tape.unwind();
                                   state.SetIterationTime(now() - start);
                                   w.tape.clear();
                                 }
                                 report(state, w.peak, backward);
                               })
      ->UseManualTime()
      ->MinTime(0.2);
}

/// As above, with the cost read off the operation's type.
template <class Op, class F, class... Xs>
void add_op(bench_world& w, const std::string& name, F f, Xs... xs) {
  gr::cost backward{};
  if constexpr (requires { Op::template backward_cost<Xs...>(); }) backward = Op::template backward_cost<Xs...>();
  add(w, name, Op::template forward_cost<Xs...>(), backward, f, xs...);
}

template <class Functor, class... Xs>
void add_map(bench_world& w, const std::string& name, Functor functor, Xs... xs) {
  add_op<gr::op::map<Functor>>(
      w, name, [functor](auto&&... x) { return gr::map(functor, x...); }, xs...);
}

void register_all(bench_world& w) {
  using big = gr::shape<2048, 1024>;
  const auto x = w.random<float, big>();
  const auto y = w.random<float, big>();
  const auto row = w.random<float, gr::shape<1024>>();
  namespace fn = gr::functor;
  add_map(w, "add", fn::add{}, x, y);
  add_map(w, "add_row", fn::add{}, x, row);
  add_map(w, "subtract", fn::subtract{}, x, y);
  add_map(w, "multiply", fn::multiply{}, x, y);
  add_map(w, "divide", fn::divide{}, x, y);
  add_map(w, "minimum", fn::minimum{}, x, y);
  add_map(w, "maximum", fn::maximum{}, x, y);
  add_map(w, "negate", fn::negate{}, x);
  add_map(w, "exp", fn::exp{}, x);
  add_map(w, "log", fn::log{}, x);
  add_map(w, "sqrt", fn::sqrt{}, x);
  add_map(w, "rsqrt", fn::rsqrt{}, x);
  add_map(w, "abs", fn::abs{}, x);
  add_map(w, "tanh", fn::tanh{}, x);
  add_map(w, "sigmoid", fn::sigmoid{}, x);
  add_map(w, "relu", fn::relu{}, x);
  add_map(w, "silu", fn::silu{}, x);
  add_map(w, "gelu", fn::gelu{}, x);
  add_map(w, "gelu_erf", fn::gelu_erf{}, x);
  add_map(w, "pow", fn::pow{}, x, y);
  add_map(w, "clamp", fn::clamp{0.6, 1.2}, x);
  add_map(w, "where", fn::where{}, x, x, y);

  add_op<gr::op::sum<gr::axes<>, false, false>>(
      w, "sum_all", [](auto&& a) { return gr::sum(a); }, x);
  add_op<gr::op::sum<gr::axes<-1>, false, false>>(
      w, "sum_rows", [](auto&& a) { return gr::sum<gr::axes<-1>>(a); }, x);
  add_op<gr::op::sum<gr::axes<0>, false, false>>(
      w, "sum_columns", [](auto&& a) { return gr::sum<gr::axes<0>>(a); }, x);
  add_op<gr::op::sum<gr::axes<-1>, false, true>>(
      w, "mean_rows", [](auto&& a) { return gr::mean<gr::axes<-1>>(a); }, x);
  add_op<gr::op::extremum<gr::axes<-1>, false, true>>(
      w, "max_rows", [](auto&& a) { return gr::max<gr::axes<-1>>(a); }, x);
  add_op<gr::op::extremum<gr::axes<-1>, false, false>>(
      w, "min_rows", [](auto&& a) { return gr::min<gr::axes<-1>>(a); }, x);
  add_op<gr::op::argmax<gr::axes<-1>, false>>(
      w, "argmax_rows", [](auto&& a) { return gr::argmax<gr::axes<-1>>(a); }, x);
  add_op<gr::op::variance<gr::axes<-1>, false>>(
      w, "variance_rows", [](auto&& a) { return gr::variance<gr::axes<-1>>(a); }, x);
  add_op<gr::op::softmax<false>>(
      w, "softmax", [](auto&& a) { return gr::softmax(a); }, x);
  add_op<gr::op::softmax<true>>(
      w, "log_softmax", [](auto&& a) { return gr::log_softmax(a); }, x);
  add_op<gr::op::layer_norm>(
      w, "layer_norm", [](auto&& a, auto&& g, auto&& b) { return gr::layer_norm(a, g, b); }, x, row, row);
  add_op<gr::op::rms_norm>(
      w, "rms_norm", [](auto&& a, auto&& g) { return gr::rms_norm(a, g); }, x, row);
  add_op<gr::op::permute<1, 0>>(
      w, "permute", [](auto&& a) { return gr::permute<1, 0>(a); }, x);
  add_op<gr::op::slice<1, 256, 512>>(
      w, "slice", [](auto&& a) { return gr::slice<1, 256, 512>(a); }, x);
  add_op<gr::op::concat<1>>(
      w, "concat", [](auto&& a, auto&& b) { return gr::concat<1>(a, b); }, x, y);
  add_op<gr::op::dropout>(
      w, "dropout", [](auto&& a) { return gr::dropout(a, 0.1); }, x);

  const auto a = w.random<float, gr::shape<1024, 768>>();
  const auto m = w.random<float, gr::shape<768, 3072>>();
  const auto bias = w.random<float, gr::shape<3072>>();
  add_op<gr::op::matrix_product<false, false>>(
      w, "matmul", [](auto&& p, auto&& q) { return gr::matmul(p, q); }, a, m);
  add_op<gr::op::linear>(
      w, "linear", [](auto&& p, auto&& q, auto&& r) { return gr::linear(p, q, r); }, a, m, bias);

  const auto tokens = w.ids<gr::shape<8, 512>>(50257);
  const auto table = w.random<float, gr::shape<50304, 256>>();
  add_op<gr::op::embedding>(
      w, "embedding", [](auto&& t, auto&& e) { return gr::embedding(t, e); }, tokens, table);
  const auto qkv = w.random<float, gr::shape<8, 512, 3 * 384>>();
  using attention = gr::op::causal_attention<6>;
  add_op<attention>(
      w, "causal_attention", [](auto&& t) { return gr::causal_attention<6>(t); }, qkv);
  const auto logits = w.random<float, gr::shape<512, 50304>>();
  const auto targets = w.ids<gr::shape<512>>(50257);
  add_op<gr::op::cross_entropy<50257>>(
      w, "cross_entropy", [](auto&& l, auto&& t) { return gr::cross_entropy<50257>(l, gr::plain(t)); }, logits,
      targets);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  bench_world w;
  benchmark::AddCustomContext("copy_GB/s", std::to_string(w.peak.bytes_per_second * 1e-9));
  benchmark::AddCustomContext("gemm_GFLOP/s", std::to_string(w.peak.flops_per_second * 1e-9));
  register_all(w);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
