// What attention asks of cuDNN, and when: our own kernels behind the same interface, in its place.
#if !defined(GRADUS_WITH_CUDNN)
#define GRADUS_WITH_CUDNN 1
#endif
#include <utility>
#include <vector>

#include "device.hpp"

namespace gradus::cuda_kit {
struct cudnn_graphs {
  context<cuda>* ctx = nullptr;
  bool refuses = false;
  std::vector<cudnn_problem> submitted;
};
}  // namespace gradus::cuda_kit

namespace {

using problem = gr::cuda_kit::cudnn_problem;
gr::cuda_kit::cudnn_graphs library;
constexpr std::size_t scratch_bytes = 1000;

template <class T, bool Causal>
void run(const problem& p, const gr::cuda_kit::cudnn_addresses& addresses) {
  REQUIRE(p.depth == 8);
  const gr::cuda_kit::attention_launches<float, T, 8, Causal> launches{
      static_cast<int>(p.batch), static_cast<int>(p.heads), static_cast<int>(p.queries), static_cast<int>(p.keys)};
  const auto at = [&]<class E>(std::size_t i, E*) {
    const auto& apart = p.layout[i];
    return gr::attention_operand<E>{static_cast<E*>(addresses[i]), static_cast<gr::index_t>(apart.batch),
                                    static_cast<gr::index_t>(apart.head), static_cast<gr::index_t>(apart.time), false};
  };
  const auto in = [&](std::size_t i) { return at(i, static_cast<const T*>(nullptr)); };
  const auto out = [&](std::size_t i) { return at(i, static_cast<T*>(nullptr)); };
  auto* const lse = static_cast<float*>(addresses.back());
  CHECK((lse != nullptr) == p.has_lse);
  if (p.backward)
    launches.backward(*library.ctx, out(p.dq), out(p.dk), out(p.dv), in(p.dy), in(p.q), in(p.k), in(p.v), in(p.y), lse);
  else launches.forward(*library.ctx, out(p.y), lse, in(p.q), in(p.k), in(p.v));
}

}  // namespace

namespace gradus::cuda_kit {

cudnn_graphs* cudnn_open(cudaStream_t) { return &library; }
void cudnn_close(cudnn_graphs*) noexcept {}
std::optional<std::size_t> cudnn_scratch(cudnn_graphs& graphs, const cudnn_problem&) {
  return graphs.refuses ? std::nullopt : std::optional(scratch_bytes);
}
void cudnn_run(cudnn_graphs& graphs, const cudnn_problem& p, const cudnn_addresses& addresses, void* scratch) {
  graphs.submitted.push_back(p);
  check(cudaMemsetAsync(scratch, 0xFF, scratch_bytes, graphs.ctx->stream().handle()), "cudaMemsetAsync");
  graphs.refuses = true;  // launches ask again
  if (p.in_bf16) (p.causal ? &run<bf16, true> : &run<bf16, false>)(p, addresses);
  else (p.causal ? &run<f16, true> : &run<f16, false>)(p, addresses);
  graphs.refuses = false;
}

}  // namespace gradus::cuda_kit

namespace {

/// The problems that f and its gradients submit; the results are those without cuDNN.
template <class T, class... Shapes, class F>
std::vector<problem> submitted(gpu& device, const F& f) {
  const unsigned seed = gradus_test::fresh_seed();
  std::vector<record> records[2];
  library = {.ctx = &device.ctx, .refuses = false, .submitted = {}};
  for (const bool refuses : {false, true}) {
    library.refuses = refuses;
    runner<gr::cuda> r(device.ctx, seed);
    r.template differentiate<T, Shapes...>("attention", f);
    records[refuses] = std::move(r.records);
  }
  same_bits(records[0], records[1]);
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
  CHECK(submitted<gr::f16, gr::shape<1, 2, 7, 8>, gr::shape<1, 2, 19, 8>, gr::shape<1, 2, 19, 8>>(device, [](auto q,
                                                                                                             auto k,
                                                                                                             auto v) {
          return gr::attention(q, k, v);
        }).size() == 2);
  const auto twice = submitted<gr::bf16, gr::shape<1, 2, 19, 8>, gr::shape<1, 2, 19, 8>>(
      device, [](auto q, auto k) { return gr::attention<true>(q, k, k); });
  REQUIRE(twice.size() == 1);
  CHECK_FALSE(twice[0].backward);
  CHECK(submitted<gr::bf16, gr::shape<1, 21, 30>>(device, packed).empty());  // heads of 5
  CHECK(submitted<float, gr::shape<1, 21, 48>>(device, packed).empty());
}
