// Matrix products of models' sizes by gradus and, where CMake found them, by others: in float by oneDNN's sgemm and by
// Eigen, in bf16 with sums of float by oneDNN's matmul.
#include <algorithm>
#include <memory>

#include "measure.hpp"

#if defined(BENCH_WITH_ONEDNN)
#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl.hpp>
#endif
#if defined(BENCH_WITH_EIGEN)
#include <Eigen/Core>
#endif

namespace bench {
namespace {

struct product {
  const char* name;
  bool transpose_a, transpose_b;
  gr::index_t m, n, k;

  gr::index_t lda() const { return transpose_a ? m : k; }
  gr::index_t ldb() const { return transpose_b ? k : n; }
};

template <class T>
struct matrices {
  gr::stream stream;
  gr::host_resource heap;
  gr::context<gr::cpu> ctx{stream, heap};
  // Where tensors lie: an operand that begins within a cache line costs a tenth.
  struct matrix {
    gr::buffer<gr::cpu> memory;
    matrix(gr::context<gr::cpu>& in, gr::index_t size, float value) : memory(in, size * sizeof(T), {}) {
      std::fill_n(data(), size, T(value));
    }
    T* data() const { return static_cast<T*>(memory.data()); }
  };
  matrix a, b, c;
  explicit matrices(const product& p) : a(ctx, p.m * p.k, 0.5f), b(ctx, p.k * p.n, 0.25f), c(ctx, p.m * p.n, 0.0f) {}
};

template <class T>
void by_gradus(const product& p, matrices<T>& x) {
  gr::cpu_kit::gemm<float>(x.ctx, p.transpose_a, p.transpose_b, p.m, p.n, p.k, x.a.data(), p.lda(), x.b.data(), p.ldb(),
                           false, x.c.data(), p.n);
}

#if defined(BENCH_WITH_ONEDNN)
void by_onednn(const product& p, matrices<float>& x) {
  const auto dim = [](gr::index_t i) { return static_cast<dnnl_dim_t>(i); };
  dnnl_sgemm(p.transpose_a ? 'T' : 'N', p.transpose_b ? 'T' : 'N', dim(p.m), dim(p.n), dim(p.k), 1.0f, x.a.data(),
             dim(p.lda()), x.b.data(), dim(p.ldb()), 0.0f, x.c.data(), dim(p.n));
}

// The primitive and its descriptions of memory, made once: oneDNN's product of bf16.
class onednn_matmul {
 public:
  onednn_matmul(const product& p, matrices<gr::bf16>& x)
      : engine_(dnnl::engine::kind::cpu, 0),
        stream_(engine_),
        a_(of(p.m, p.k, p.transpose_a), engine_, x.a.data()),
        b_(of(p.k, p.n, p.transpose_b), engine_, x.b.data()),
        c_(of(p.m, p.n, false), engine_, x.c.data()),
#if DNNL_VERSION_MAJOR >= 3
        matmul_({engine_, a_.get_desc(), b_.get_desc(), c_.get_desc()}) {
#else
        matmul_({{a_.get_desc(), b_.get_desc(), c_.get_desc()}, engine_}) {
#endif
  }
  // Whether this oneDNN multiplies bf16 on this processor: 2.6 needs AVX-512.
  static bool works() {
    constexpr product least{"", false, false, 1, 1, 1};
    matrices<gr::bf16> x(least);
    try {
      onednn_matmul(least, x).multiply();
    } catch (const dnnl::error&) { return false; }
    return true;
  }
  void multiply() {
    matmul_.execute(stream_, {{DNNL_ARG_SRC, a_}, {DNNL_ARG_WEIGHTS, b_}, {DNNL_ARG_DST, c_}});
    stream_.wait();
  }

 private:
  static dnnl::memory::desc of(gr::index_t rows, gr::index_t columns, bool transposed) {
    const auto m = static_cast<dnnl_dim_t>(rows), n = static_cast<dnnl_dim_t>(columns);
    return {{m, n}, dnnl::memory::data_type::bf16, transposed ? dnnl::memory::dims{1, m} : dnnl::memory::dims{n, 1}};
  }
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::memory a_, b_, c_;
  dnnl::matmul matmul_;
};
#endif

#if defined(BENCH_WITH_EIGEN)
void by_eigen(const product& p, matrices<float>& x) {
  using matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const auto map = [](auto* data, gr::index_t rows, gr::index_t columns) {
    return Eigen::Map<matrix>(data, static_cast<Eigen::Index>(rows), static_cast<Eigen::Index>(columns));
  };
  const auto a = map(x.a.data(), p.transpose_a ? p.k : p.m, p.lda());
  const auto b = map(x.b.data(), p.transpose_b ? p.n : p.k, p.ldb());
  auto c = map(x.c.data(), p.m, p.n);
  if (p.transpose_a) c.noalias() = a.transpose() * b;
  else if (p.transpose_b) c.noalias() = a * b.transpose();
  else c.noalias() = a * b;
}
#endif

template <class Multiply>
void add_gemm(const machine& peak, const char* library, const product& p, Multiply multiply) {
  add_row(peak, std::string("gemm/") + library + "/" + p.name, 0, 2.0 * static_cast<double>(p.m * p.n * p.k), [=] {
    matrices<float> x(p);
    return best_time([&] { multiply(p, x); });
  });
}

// `start(p, x)` returns what multiplies.
template <class Start>
void add_bf16_gemm(const machine& peak, const char* library, const product& p, Start start) {
  add_row(peak, std::string("gemm_bf16/") + library + "/" + p.name, 0, 2.0 * static_cast<double>(p.m * p.n * p.k), [=] {
    matrices<gr::bf16> x(p);
    return best_time(start(p, x));
  });
}

}  // namespace

void register_gemm(const machine& peak) {
  constexpr product products[] = {
      {"nano_qkv", false, false, 3072, 1152, 384},
      {"nano_qkv_dx", false, true, 3072, 384, 1152},
      {"nano_qkv_dw", true, false, 384, 1152, 3072},
      {"nano_mlp_out", false, false, 3072, 384, 1536},
      {"seed_head", false, true, 1024, 50304, 256},
      {"gpt2_qkv", false, false, 256, 2304, 768},
      {"rows_1", false, false, 1, 2304, 768},
      {"rows_4", false, false, 4, 2304, 768},
      {"rows_16", false, false, 16, 2304, 768},
      {"rows_64", false, false, 64, 2304, 768},
      {"nano_mlp_out_dx", false, true, 3072, 1536, 384},
      {"nano_mlp_out_dw", true, false, 1536, 384, 3072},
      {"gpt2_qkv_dx", false, true, 256, 768, 2304},
      {"gpt2_qkv_dw", true, false, 768, 2304, 256},
  };
#if defined(BENCH_WITH_ONEDNN)
  const bool onednn_has_bf16 = onednn_matmul::works();
#endif
  for (const product& p : products) {
    add_gemm(peak, "gradus", p, by_gradus<float>);
    add_bf16_gemm(peak, "gradus", p, [](const product& of, auto& x) { return [&] { by_gradus(of, x); }; });
#if defined(BENCH_WITH_ONEDNN)
    add_gemm(peak, "onednn", p, by_onednn);
    if (onednn_has_bf16)
      add_bf16_gemm(peak, "onednn", p, [](const product& of, auto& x) {
        return [by = std::make_shared<onednn_matmul>(of, x)] { by->multiply(); };
      });
#endif
#if defined(BENCH_WITH_EIGEN)
    add_gemm(peak, "eigen", p, by_eigen);
#endif
  }
}

}  // namespace bench
