#!/usr/bin/env bash
# kernels.sh NVCC INCLUDE: a program with three batch sizes has the kernels of one with one.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/steps.cu" <<'EOF'
#include <gradus/cuda.hpp>
namespace gr = gradus;
template <gr::index_t B>
void step(gr::context<gr::cuda>& ctx) {
  constexpr gr::index_t times = 24, width = 48, classes = 20;
  const auto ids = gr::zeros<std::int32_t, gr::shape<B, times>>(ctx);
  gr::tape<gr::cuda> tape{ctx};
  const auto table = tape.variable(gr::zeros<float, gr::shape<classes, width>>(ctx));
  const auto positions = tape.variable(gr::zeros<float, gr::shape<times, width>>(ctx));
  const auto w = tape.variable(gr::zeros<float, gr::shape<width>>(ctx));
  const auto qkv = tape.variable(gr::zeros<float, gr::shape<width, 3 * width>>(ctx));
  const auto bias = tape.variable(gr::zeros<float, gr::shape<3 * width>>(ctx));
  const auto x = gr::dropout(gr::embedding(ids, table) + positions, 0.1);
  const auto y = x + gr::causal_attention<3>(gr::linear(gr::layer_norm(x, w, w), qkv, bias));
  const auto half = gr::gelu(gr::cast<gr::bf16>(gr::rms_norm(y, w)));
  const auto z = gr::softmax(y * w) + gr::log_softmax(gr::cast<float>(half));
  const auto turned = gr::permute<2, 0, 1>(z) + gr::mean(z);
  const auto sums = gr::sum<0>(z) * gr::sum<1>(positions, gr::keep_axes);
  gr::backward(gr::sum(turned) + gr::sum(sums) + gr::sum(gr::permute<1, 0, 2>(z)) +
               gr::sum(gr::max<1>(z)) + gr::sum(gr::variance<2>(z)) +
               gr::cross_entropy(gr::matmul<gr::transpose{.a = false, .b = true}>(y, table), ids));
}
void steps(gr::context<gr::cuda>& ctx) {
  step<8>(ctx);
#ifdef MORE
  step<2>(ctx);
  step<96>(ctx);
#endif
}
EOF
kernels() { # FLAGS...: the names of what the GPU runs
  "$nvcc" -std=c++20 --expt-relaxed-constexpr -DGRADUS_WITH_CUDA=1 -I"$include" -arch=compute_80 -ptx "$@" \
    "$work/steps.cu" -o "$work/steps.ptx" >"$work/out" 2>&1 || { head -n 20 "$work/out" >&2; exit 1; }
  sed -n 's/.*\.entry \([A-Za-z0-9_]*\).*/\1/p' "$work/steps.ptx" | sort
}
nvcc=$1 include=$2
kernels >"$work/one"
kernels -DMORE >"$work/three"
[[ $(wc -l <"$work/one") -gt 40 ]] || { echo "only $(wc -l <"$work/one") kernels were found" >&2; exit 1; }
diff "$work/one" "$work/three" || { echo "more batch sizes have other kernels" >&2; exit 1; }
echo "$(wc -l <"$work/one") kernels"
