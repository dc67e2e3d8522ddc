// What attention asks of cuDNN, and when: a plain computation on the host behind the same interface, in its place.
#if !defined(GRADUS_WITH_CUDNN)
#define GRADUS_WITH_CUDNN 1
#endif
#include <cmath>
#include <utility>
#include <vector>

#include "device.hpp"

namespace gradus::cuda_kit {
struct cudnn_graphs {
  cudaStream_t stream = nullptr;
  bool refuses = false;
  std::vector<cudnn_problem> submitted;
};
}  // namespace gradus::cuda_kit

namespace {

using problem = gr::cuda_kit::cudnn_problem;
gr::cuda_kit::cudnn_graphs library;
constexpr std::size_t scratch_bytes = 1000;

/// f(row, its address) for each row of an operand, in the order [batch, heads, time].
template <class T, class F>
void each_row(const problem& p, std::size_t operand, void* at, std::int64_t times, const F& f) {
  const problem::strides& apart = p.layout[operand];
  for (std::int64_t row = 0; row < p.batch * p.heads * times; ++row)
    f(row, static_cast<T*>(at) + row / (p.heads * times) * apart.batch + row / times % p.heads * apart.head +
               row % times * apart.time);
}
template <class T>
void attention_on_host(const problem& p, const gr::cuda_kit::cudnn_addresses& at) {
  const auto copy = [](void* to, const void* from, std::size_t count, std::size_t element) {
    gr::cuda_kit::check(cudaMemcpy(to, from, count * element, cudaMemcpyDefault), "cudaMemcpy");
  };
  const std::int64_t pairs = p.batch * p.heads, depth = p.depth;
  const auto times = [&](std::size_t i) {
    return i == problem::k || i == problem::v || i == problem::dk || i == problem::dv ? p.keys : p.queries;
  };
  const auto width = static_cast<std::size_t>(depth);
  std::vector<float> x[problem::operands], lse(static_cast<std::size_t>(pairs * p.queries));
  for (std::size_t i = 0; i < problem::operands; ++i) {
    x[i].resize(static_cast<std::size_t>(pairs * times(i) * depth));
    if (i > problem::v && (!p.backward || i > problem::dy)) continue;  // a result
    each_row<T>(p, i, at[i], times(i), [&](std::int64_t row, const T* from) {
      std::vector<T> values(width);
      copy(values.data(), from, width, sizeof(T));
      for (std::size_t j = 0; j < width; ++j) x[i][static_cast<std::size_t>(row) * width + j] = float(values[j]);
    });
  }
  if (p.backward) copy(lse.data(), at.back(), lse.size(), sizeof(float));
  const float scale = 1 / std::sqrt(static_cast<float>(depth));
  const auto dot = [&](const float* a, const float* b) {
    float sum = 0;
    for (std::int64_t j = 0; j < depth; ++j) sum += a[j] * b[j];
    return sum;
  };
  const auto add = [&](float* to, float by, const float* row) {
    for (std::int64_t j = 0; j < depth; ++j) to[j] += by * row[j];
  };
  for (std::int64_t i = 0; i < pairs * p.queries; ++i) {
    const auto of = [&](std::size_t which) { return x[which].data() + i * depth; };
    const std::int64_t seen = p.causal ? i % p.queries + 1 : p.keys;
    float& total = lse[static_cast<std::size_t>(i)];
    if (!p.backward) {
      for (std::int64_t j = 0; j < seen; ++j)
        total += std::exp(scale * dot(of(problem::q), x[problem::k].data() + (i / p.queries * p.keys + j) * depth));
      total = std::log(total);
    }
    for (std::int64_t j = 0; j < seen; ++j) {
      const auto at_key = [&](std::size_t which) { return x[which].data() + (i / p.queries * p.keys + j) * depth; };
      const float weight = std::exp(scale * dot(of(problem::q), at_key(problem::k)) - total);
      if (!p.backward) {
        add(of(problem::y), weight, at_key(problem::v));
        continue;
      }
      const float by =
          scale * weight * (dot(of(problem::dy), at_key(problem::v)) - dot(of(problem::dy), of(problem::y)));
      add(of(problem::dq), by, at_key(problem::k));
      add(at_key(problem::dk), by, of(problem::q));
      add(at_key(problem::dv), weight, of(problem::dy));
    }
  }
  for (std::size_t i = p.backward ? problem::dq : problem::y; i < (p.backward ? problem::operands : problem::dy); ++i)
    each_row<T>(p, i, at[i], times(i), [&](std::int64_t row, T* to) {
      const float* const from = x[i].data() + static_cast<std::size_t>(row) * width;
      copy(to, std::vector<T>(from, from + width).data(), width, sizeof(T));
    });
  if (p.has_lse && !p.backward) copy(at.back(), lse.data(), lse.size(), sizeof(float));
}

}  // namespace

namespace gradus::cuda_kit {

cudnn_graphs* cudnn_open(cudaStream_t stream) {
  library.stream = stream;
  return &library;
}
void cudnn_close(cudnn_graphs*) noexcept {}
std::optional<std::size_t> cudnn_scratch(cudnn_graphs& graphs, const cudnn_problem&) {
  return graphs.refuses ? std::nullopt : std::optional(scratch_bytes);
}
void cudnn_run(cudnn_graphs& graphs, const cudnn_problem& p, const cudnn_addresses& addresses, void* scratch) {
  graphs.submitted.push_back(p);
  check(cudaStreamSynchronize(graphs.stream), "cudaStreamSynchronize");
  check(cudaMemset(scratch, 0xFF, scratch_bytes), "cudaMemset");
  (p.in_bf16 ? &attention_on_host<bf16> : &attention_on_host<f16>)(p, addresses);
}

}  // namespace gradus::cuda_kit

namespace {

template <class T, class... Shapes, class F>
std::vector<problem> submitted(gpu& device, const F& f) {
  const unsigned seed = gradus_test::fresh_seed();
  std::vector<record> records[2];
  library.submitted.clear();
  for (const bool refuses : {false, true}) {
    library.refuses = refuses;
    runner<gr::cuda> r(device.ctx, seed);
    r.template differentiate<T, Shapes...>("attention", f);
    records[refuses] = std::move(r.records);
  }
  agree(records[0], records[1]);
  return library.submitted;
}

}  // namespace

TEST_CASE("cuDNN computes attention of 16 bits, and its gradients unless one accumulates") {
  if (no_gpu()) return;
  gpu device;
  const auto packed = [](auto x) { return gr::causal_attention<2>(x); };
  const auto both = submitted<gr::bf16, gr::shape<2, 21, 48>>(device, packed);
  REQUIRE(both.size() == 2);
  CHECK((both[0].causal && both[0].has_lse && !both[0].backward && both[1].backward));
  CHECK(submitted<gr::f16, gr::shape<1, 2, 7, 16>, gr::shape<1, 2, 19, 16>, gr::shape<1, 2, 19, 16>>(
            device, [](auto q, auto k, auto v) { return gr::attention(q, k, v); })
            .size() == 2);
  const auto twice = submitted<gr::bf16, gr::shape<1, 2, 19, 8>, gr::shape<1, 2, 19, 8>>(
      device, [](auto q, auto k) { return gr::attention<true>(q, k, k); });
  REQUIRE(twice.size() == 1);
  CHECK_FALSE(twice[0].backward);
  CHECK(submitted<gr::bf16, gr::shape<1, 21, 30>>(device, packed).empty());  // heads of 5
  CHECK(submitted<float, gr::shape<1, 21, 48>>(device, packed).empty());
}
