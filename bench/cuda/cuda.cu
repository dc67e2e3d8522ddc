// What the GPU itself can do (copy bandwidth, matrix rate), and what share of it the library's kernels reach. Each
// figure is the median of several runs, timed by events on the stream, over inputs that are several times as large as
// the second-level cache.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <gradus/cuda.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace gr = gradus;

namespace {

struct row {
  std::string name;
  double value;
  std::string unit;
  double share;  // of the measured copy bandwidth; 0 where that says nothing
};

class timer {
 public:
  explicit timer(gr::cuda_stream& on) : on_(&on) {
    gr::cuda_kit::check(cudaEventCreate(&begin_), "cudaEventCreate");
    gr::cuda_kit::check(cudaEventCreate(&end_), "cudaEventCreate");
  }
  timer(const timer&) = delete;
  timer& operator=(const timer&) = delete;
  ~timer() {
    static_cast<void>(cudaEventDestroy(begin_));
    static_cast<void>(cudaEventDestroy(end_));
  }
  /// Median seconds of one call of f, over 15 runs of 10 calls.
  template <class F>
  double seconds(const F& f) {
    constexpr int calls = 10;
    for (int i = 0; i < 3; ++i) f();
    std::vector<double> times;
    for (int run = 0; run < 15; ++run) {
      gr::cuda_kit::check(cudaEventRecord(begin_, on_->handle()), "cudaEventRecord");
      for (int i = 0; i < calls; ++i) f();
      gr::cuda_kit::check(cudaEventRecord(end_, on_->handle()), "cudaEventRecord");
      gr::cuda_kit::check(cudaEventSynchronize(end_), "cudaEventSynchronize");
      float ms = 0;
      gr::cuda_kit::check(cudaEventElapsedTime(&ms, begin_, end_), "cudaEventElapsedTime");
      times.push_back(static_cast<double>(ms) * 1e-3 / calls);
    }
    std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
    return times[times.size() / 2];
  }

 private:
  gr::cuda_stream* on_;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

// Random values, since products of zeros run faster than real ones. A block of them is repeated: only drawing is slow.
template <class T, class Shape>
gr::tensor<T, Shape, gr::cuda> random(gr::context<gr::cuda>& ctx) {
  constexpr std::size_t block = 1 << 20;
  std::mt19937 engine(std::random_device{}());
  std::normal_distribution<float> draw;
  std::vector<T> values(Shape::size);
  for (std::size_t i = 0; i < Shape::size; ++i)
    values[i] = i < block ? static_cast<T>(draw(engine)) : values[i - block];
  return gr::from_host<T, Shape>(ctx, values.data());
}

class bench {
 public:
  void run() {
    copy();
    gemm<gr::bf16, 8192>("gemm bf16 8192");
    gemm<float, 4096>("gemm fp32 4096");
    maps();
    optimizers();
    losses();
    report();
  }

 private:
  static constexpr gr::index_t big = gr::index_t{1} << 28;  // elements: 1 GiB of float

  void bandwidth(const std::string& name, double bytes, double seconds) {
    rows_.push_back({name, bytes / seconds * 1e-9, "GB/s", copy_ == 0 ? 0 : bytes / seconds * 1e-9 / copy_});
  }
  void copy() {
    const auto from = random<float, gr::shape<big>>(ctx_);
    auto to = gr::empty<float, gr::shape<big>>(ctx_);
    const double s = timer_.seconds([&] { gr::device_access<gr::cuda>::copy(ctx_, to.data(), from.data(), to.bytes); });
    bandwidth("device copy", 2.0 * to.bytes, s);
    copy_ = rows_.back().value;
  }
  template <class T, gr::index_t N>
  void gemm(const std::string& name) {
    const auto a = random<T, gr::shape<N, N>>(ctx_);
    const auto b = random<T, gr::shape<N, N>>(ctx_);
    auto c = gr::empty<T, gr::shape<N, N>>(ctx_);
    using product = gr::cuda_kit::product<T, T, T, false, false, N, N, N>;
    const double s = timer_.seconds([&] { gr::cuda_kit::gemm(ctx_, product{}, a.data(), b.data(), c.data(), false); });
    rows_.push_back({name, 2.0 * N * N * N / s * 1e-12, "TFLOP/s", 0});
  }
  void maps() {
    using S = gr::shape<big / 4096, 4096>;
    using gelu = gr::kernel<gr::op::map<gr::functor::gelu>, gr::cuda>;
    using multiply = gr::kernel<gr::op::map<gr::functor::multiply>, gr::cuda>;
    const auto x = random<float, S>(ctx_);
    const auto bias = random<float, gr::shape<4096>>(ctx_);
    auto y = gr::empty<float, S>(ctx_);
    constexpr double bytes = 4.0 * big;
    bandwidth("map gelu", 2 * bytes, timer_.seconds([&] { gelu::forward(ctx_, {}, y.view(), x.view()); }));
    bandwidth("map gelu backward", 3 * bytes, timer_.seconds([&] {
      gelu::backward(ctx_, {}, x.view(), std::make_tuple(x.view()), gr::elementwise_target<float>{y.data(), false});
    }));
    bandwidth("map multiply by a row", 2 * bytes,
              timer_.seconds([&] { multiply::forward(ctx_, {}, y.view(), x.view(), bias.view()); }));
    auto sums = gr::empty<float, gr::shape<4096>>(ctx_);
    bandwidth("sum of columns, 4096", bytes, timer_.seconds([&] {
      gr::kernel<gr::op::sum_to, gr::cuda>::forward(ctx_, sums.view(), x.view(), false);
    }));
    using narrow = gr::shape<big / 768, 768>;
    const gr::view<const float, narrow, gr::cuda> tall(x.data());
    auto few = gr::empty<float, gr::shape<768>>(ctx_);
    bandwidth("sum of columns, 768", 4.0 * narrow::size,
              timer_.seconds([&] { gr::kernel<gr::op::sum_to, gr::cuda>::forward(ctx_, few.view(), tall, false); }));
  }
  void optimizers() {
    constexpr gr::index_t n = 124'000'000 / 4 * 4;
    using T = float;
    auto memory = random<T, gr::shape<4 * n>>(ctx_);
    T* p = memory.data();
    gr::kernel<gr::op::map<gr::functor::multiply>, gr::cuda>::forward(  // second moments are not negative
        ctx_, {}, gr::view<T, gr::shape<n>, gr::cuda>(p + 3 * n), gr::view<const T, gr::shape<n>, gr::cuda>(p + 3 * n),
        gr::view<const T, gr::shape<n>, gr::cuda>(p + 3 * n));
    const std::vector<gr::update_span<T>> spans{{p, p + n, n, 0, 0, 1, 1}};
    gr::rule_states<T, T, 2> states;
    states.at[0] = p + 2 * n;
    states.at[1] = p + 3 * n;
    const gr::step_inputs in{.steps = 9};
    bandwidth("adamw, 124M", 7.0 * 4 * n, timer_.seconds([&] {
      gr::kernel<gr::op::element_step, gr::cuda>::forward(ctx_, spans, gr::adamw_options{.lr = 1e-4}, states, in);
    }));
    gr::buffer<gr::cuda> scalars(ctx_, sizeof(gr::gradient_scalars), gr::category::temporary);
    constexpr gr::index_t units = (n + gr::piece_unit - 1) / gr::piece_unit;
    auto partial = gr::empty<double, gr::shape<2, units>>(ctx_);
    const gr::op::gradient_pass pass{.most = 1};
    const std::vector<gr::gradient_span<T>> gradients{{p + n, n, 0}};
    bandwidth("gradient norm, 124M", 4.0 * n, timer_.seconds([&] {
      using kernel = gr::kernel<gr::op::gradient_pass, gr::cuda>;
      auto* const to = static_cast<gr::gradient_scalars*>(scalars.data());
      kernel::forward(ctx_, pass, to, partial.data(), units, gradients);
      kernel::conclude(ctx_, pass, to, partial.data(), units);
    }));
  }
  void losses() {
    using S = gr::shape<8192, 50304>;
    auto x = random<float, S>(ctx_);
    const auto targets = gr::zeros<int, gr::shape<8192>>(ctx_);
    auto loss = gr::empty<float, gr::shape<>>(ctx_);
    auto losses = gr::empty<double, gr::shape<8192>>(ctx_);
    auto gradient = gr::empty<float, S>(ctx_);
    bandwidth("cross_entropy and its gradient", 3.0 * S::size * 4, timer_.seconds([&] {
      gr::kernel<gr::op::cross_entropy<50257>, gr::cuda>::forward(ctx_, -1, gr::as_matrix(x.extents()), loss.data(),
                                                                  gradient.data(), losses.data(),
                                                                  std::as_const(x).data(), targets.data());
    }));
  }
  void report() const {
    for (const row& r : rows_) {
      std::printf("%-32s %10.1f %s", r.name.c_str(), r.value, r.unit.c_str());
      if (r.share > 0) std::printf("   %3.0f %% of the copy", 100 * r.share);
      std::printf("\n");
    }
    const char* path = std::getenv("GRADUS_BENCH_JSON");
    std::FILE* out = path == nullptr ? nullptr : std::fopen(path, "w");
    if (out == nullptr) return;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      std::fprintf(out, "%s{\"name\": \"%s\", \"value\": %.6g, \"unit\": \"%s\"", i == 0 ? "[\n" : ",\n",
                   rows_[i].name.c_str(), rows_[i].value, rows_[i].unit.c_str());
      if (rows_[i].share > 0) std::fprintf(out, ", \"ratio\": %.4f", rows_[i].share);
      std::fprintf(out, "}");
    }
    std::fprintf(out, "\n]\n");
    std::fclose(out);
  }

  gr::cuda_stream stream_;
  gr::device_resource memory_;
  gr::context<gr::cuda> ctx_{stream_, memory_};
  timer timer_{stream_};
  double copy_ = 0;
  std::vector<row> rows_;
};

}  // namespace

int main() {
  if (const auto reason = gr::cuda_unavailable_reason(); !reason.empty()) {
    std::printf("skipped: %s\n", reason.c_str());
    return 77;
  }
  try {
    bench{}.run();
  } catch (const gr::error& problem) {
    std::fprintf(stderr, "bench_cuda: %s\n", problem.what());
    return 1;
  }
}
