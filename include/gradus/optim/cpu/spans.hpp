#pragma once
// What the steps of all optimizers share on the CPU: a loop over the spans of parameters, and the rounding of values.

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "../../core/config.hpp"
#include "../../cpu/parallel.hpp"
#include "../../cpu/simd.hpp"
#include "../../cpu/vector_loop.hpp"
#include "../param_list.hpp"
#include "../step_inputs.hpp"

namespace gradus {

namespace cpu_kit::inline GRADUS_BUILD {

/// All spans cut into chunks of a fixed size, so that one parallel loop serves them, however many tensors there are.
inline constexpr index span_chunk = 1 << 15;
template <class Span>
index span_chunks(const std::vector<Span>& spans) {
  index chunks = 0;
  for (const auto& s : spans) chunks += (s.size + span_chunk - 1) / span_chunk;
  return chunks;
}
/// Runs f(span, begin, end) on a chunk.
template <class Span, class F>
void with_chunk(const std::vector<Span>& spans, index chunk, const F& f) {
  index i = 0;
  for (index here = 0; chunk >= (here = (spans[i].size + span_chunk - 1) / span_chunk); ++i) chunk -= here;
  f(spans[i], chunk * span_chunk, std::min(spans[i].size, (chunk + 1) * span_chunk));
}
template <class Span, class F>
void parallel_spans(context<cpu>& ctx, const std::vector<Span>& spans, const F& f) {
  parallel_tasks(ctx, span_chunks(spans), [&](index chunk) { with_chunk(spans, chunk, f); });
}

/// Rounds a pack to bf16, up or down by 16 random bits below the cut. Element i of the row of all values draws from half i % 8 of
/// the words of group i / 8. NaN stays NaN.
GRADUS_INLINE void store_stochastically(pack<float> x, bf16* to, index n, const random_key& key, index first) {
  std::array<std::uint32_t, 4> words{};
  for (index i = 0; i < n; ++i) {
    const index element = first + i;
    if (i == 0 || element % 8 == 0) words = key.words(element / 8);
    to[i] = round_stochastically(float{x.v[i]}, words, element % 8);
  }
}
GRADUS_INLINE index lanes_in(all_lanes) { return lanes<float>; }
GRADUS_INLINE index lanes_in(first_lanes n) { return n.count; }

/// Writes values, rounded as the step asks for. `first` is the number of the first one in the row of all values.
template <class T, class Which>
GRADUS_INLINE void store_value(pack<compute_type<T>> x, T* to, Which n, const step_inputs& in, index first) {
  if constexpr (std::is_same_v<T, bf16>) {
    if (in.rounds == rounding::stochastic) {
      store_stochastically(x, to, lanes_in(n), in.key, first);
      return;
    }
  }
  store(x, to, n);
}

}  // namespace cpu_kit::inline GRADUS_BUILD

}  // namespace gradus
