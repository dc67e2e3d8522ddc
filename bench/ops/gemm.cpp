// Float matrix products of models' sizes by gradus and, where CMake found them, by oneDNN's sgemm and by Eigen.
#include <algorithm>

#include "measure.hpp"

#if defined(BENCH_WITH_ONEDNN)
#include <oneapi/dnnl/dnnl.h>
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

struct matrices {
  gr::stream stream;
  gr::host_resource heap;
  gr::context<gr::cpu> ctx{stream, heap};
  // Where tensors lie: an operand that begins within a cache line costs a tenth.
  struct matrix {
    gr::buffer<gr::cpu> memory;
    matrix(gr::context<gr::cpu>& in, gr::index_t size, float value) : memory(in, size * sizeof(float), {}) {
      std::fill_n(data(), size, value);
    }
    float* data() const { return static_cast<float*>(memory.data()); }
  };
  matrix a, b, c;
  explicit matrices(const product& p) : a(ctx, p.m * p.k, 0.5f), b(ctx, p.k * p.n, 0.25f), c(ctx, p.m * p.n, 0.0f) {}
};

void by_gradus(const product& p, matrices& x) {
  gr::cpu_kit::gemm<float>(x.ctx, p.transpose_a, p.transpose_b, p.m, p.n, p.k, x.a.data(), p.lda(), x.b.data(), p.ldb(),
                           false, x.c.data(), p.n);
}

#if defined(BENCH_WITH_ONEDNN)
void by_onednn(const product& p, matrices& x) {
  const auto dim = [](gr::index_t i) { return static_cast<dnnl_dim_t>(i); };
  dnnl_sgemm(p.transpose_a ? 'T' : 'N', p.transpose_b ? 'T' : 'N', dim(p.m), dim(p.n), dim(p.k), 1.0f, x.a.data(),
             dim(p.lda()), x.b.data(), dim(p.ldb()), 0.0f, x.c.data(), dim(p.n));
}
#endif

#if defined(BENCH_WITH_EIGEN)
void by_eigen(const product& p, matrices& x) {
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
    matrices x(p);
    return best_time([&] { multiply(p, x); });
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
  for (const product& p : products) {
    add_gemm(peak, "gradus", p, by_gradus);
#if defined(BENCH_WITH_ONEDNN)
    add_gemm(peak, "onednn", p, by_onednn);
#endif
#if defined(BENCH_WITH_EIGEN)
    add_gemm(peak, "eigen", p, by_eigen);
#endif
  }
}

}  // namespace bench
