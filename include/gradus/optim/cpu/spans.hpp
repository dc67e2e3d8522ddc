#pragma once
// The loop over parameters and the rounding of values that all optimizers share on the CPU.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "../../core/config.hpp"
#include "../../cpu/parallel.hpp"
#include "../../cpu/philox_lanes.hpp"
#include "../../cpu/rows.hpp"
#include "../../cpu/simd.hpp"
#include "../param_list.hpp"
#include "../step_inputs.hpp"

namespace gradus {

namespace cpu_kit::inline GRADUS_BUILD {

/// Elements of a chunk. One parallel loop runs over the chunks of all tensors.
inline constexpr index_t span_chunk = 1 << 15;
template <class Span>
index_t span_chunks(const std::vector<Span>& spans) {
  index_t chunks = 0;
  for (const auto& s : spans) chunks += (s.size + span_chunk - 1) / span_chunk;
  return chunks;
}
/// Runs f(span, begin, end) on chunk number `chunk`.
template <class Span, class F>
void with_chunk(const std::vector<Span>& spans, index_t chunk, const F& f) {
  index_t i = 0;
  for (index_t here = 0; chunk >= (here = (spans[i].size + span_chunk - 1) / span_chunk); ++i) chunk -= here;
  f(spans[i], chunk * span_chunk, std::min(spans[i].size, (chunk + 1) * span_chunk));
}
template <class Span, class F>
void parallel_spans(context<cpu>& ctx, const std::vector<Span>& spans, const F& f) {
  parallel_tasks(ctx, span_chunks(spans), [&](index_t chunk) { with_chunk(spans, chunk, f); });
}

/// Runs f(first, last) on runs of the elements that entries begin .. end - 1 of a span are.
template <class Span, class F>
GRADUS_INLINE void for_runs(const Span& s, index_t begin, index_t end, const F& f) {
  if constexpr (requires { s.rows; }) {
    for (index_t n = 0; begin < end; begin += n) {
      const index_t inside = begin % s.width, first = s.rows[begin / s.width] * s.width + inside;
      n = std::min(s.width - inside, end - begin);
      f(first, std::min(first + n, s.whole));
    }
  } else {
    f(begin, end);
  }
}

/// The sum of n partial sums, in double.
template <class T>
double sum_in_order(const T* parts, index_t n) {
  double all = 0;
  for (index_t i = 0; i < n; ++i) all += static_cast<double>(parts[i]);
  return all;
}

GRADUS_INLINE index_t lanes_in(all_lanes) { return lanes<float>; }
GRADUS_INLINE index_t lanes_in(first_lanes n) { return n.count; }

/// Random 16-bit draws for elements that are rounded in order, made many at a time. Element i has draw i % 8 of group
/// i / 8, as in round_stochastically.
class rounding_draws {
 public:
  /// The draws of a pack of elements that begins with `first`.
  GRADUS_INLINE const std::uint16_t* at(const random_key& key, index_t first) {
    if (first < from_ || first + lanes<float> > from_ + philox_lanes::halves) {
      from_ = first / 8 * 8;
      philox_lanes::draw(key, from_ / 8).store(drawn_);
    }
    return drawn_ + (first - from_);
  }

 private:
  static_assert(lanes<float> + 7 <= philox_lanes::halves);
  index_t from_ = std::numeric_limits<index_t>::max();
  std::uint16_t drawn_[philox_lanes::halves];
};

/// Rounds and writes new values in order. Each thread has its own writer.
class value_writer {
 public:
  explicit value_writer(const step_inputs& in) : in_(in) {}

  /// @param first number of x's first element among all values
  template <class T, class Which>
  GRADUS_INLINE void write(pack<compute_type<T>> x, T* to, Which n, [[maybe_unused]] index_t first) {
    if constexpr (std::is_same_v<T, bf16>)
      if (in_.rounds == rounding::stochastic) return write_stochastically(x, to, n, first);
    store(x, to, n);
  }

 private:
  // round_stochastically, lane by lane.
  template <class Which>
  GRADUS_INLINE void write_stochastically(pack<float> x, bf16* to, Which n, index_t first) {
    using words = typename vector_of<std::uint32_t, lanes<float>>::type;
    using halves = typename vector_of<std::uint16_t, lanes<float>>::type;
    words bits;
    halves draw;
    std::memcpy(&bits, &x.v, sizeof bits);
    std::memcpy(&draw, draws_.at(in_.key, first), sizeof draw);
    const words rounded = (bits + __builtin_convertvector(draw, words)) >> 16;
    const words upper = bits >> 16, quiet = (upper & 0x7Fu) == 0u ? words{} + 0x40u : words{};
    const words result = (bits & 0x7FFFFFFFu) > 0x7F800000u ? upper | quiet : rounded;  // NaN stays NaN
    const halves narrow = __builtin_convertvector(result, halves);
    std::memcpy(static_cast<void*>(to), &narrow, lanes_in(n) * sizeof(bf16));
  }

  const step_inputs& in_;
  rounding_draws draws_;
};

}  // namespace cpu_kit::inline GRADUS_BUILD

}  // namespace gradus
