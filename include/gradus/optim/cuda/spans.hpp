#pragma once
// One launch updates many tensors: their addresses travel in the kernel's parameters, and blocks of threads take chunks
// of fixed size in turn.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "../../gpu/access.hpp"
#include "../../gpu/launch.hpp"
#include "../../memory/context.hpp"
#include "../step_inputs.hpp"

namespace gradus::cuda_kit {

inline constexpr int update_chunk = 4096;  ///< elements that a block of threads takes at a time

/// A batch of tensors, small enough for 4 KiB of kernel parameters.
template <class Span>
struct span_table {
  static constexpr int capacity = static_cast<int>(std::min<std::size_t>(64, 3400 / (sizeof(Span) + 4)));
  Span spans[capacity];
  std::uint32_t first_chunk[capacity + 1];  // of each tensor; the last entry counts them all
  int size = 0;
};

/// Runs f(table) on tables that together hold all spans.
template <class Span, class F>
void for_tables(const std::vector<Span>& spans, const F& f) {
  using table_type = span_table<Span>;
  for (std::size_t done = 0; done < spans.size();) {
    table_type table;
    table.first_chunk[0] = 0;
    for (; done < spans.size() && table.size < table_type::capacity; ++done) {
      const index_t chunks = (spans[done].size + update_chunk - 1) / update_chunk;
      table.spans[table.size] = spans[done];
      table.first_chunk[table.size + 1] = table.first_chunk[table.size] + static_cast<std::uint32_t>(chunks);
      ++table.size;
    }
    f(table);
  }
}

/// Blocks of threads that fill the GPU; they take chunks in turn.
template <class Span>
unsigned table_blocks(context<cuda>& ctx, const span_table<Span>& table) {
  return std::min<unsigned>(table.first_chunk[table.size], static_cast<unsigned>(ctx.stream().processors()) * 8);
}

/// Launches kernel(table, args...) on tables that together hold all spans.
template <class Span, class Kernel, class... Args>
void launch_on_spans(context<cuda>& ctx, const std::vector<Span>& spans, Kernel kernel, const Args&... args) {
  for_tables(spans, [&](const span_table<Span>& table) {
    launch(ctx, kernel, table_blocks(ctx, table), block_threads, table, args...);
  });
}

/// Whether p is aligned for loads of N elements. A null pointer counts as aligned.
template <int N, class T>
__device__ inline bool aligned(const T* p) {
  return reinterpret_cast<std::uintptr_t>(p) % (N * sizeof(T)) == 0;
}

/// Calls body(span, begin, end) for each chunk of this block, with all its threads.
template <class Span, class Body>
__device__ inline void for_chunks(const span_table<Span>& table, const Body& body) {
  const std::uint32_t chunks = table.first_chunk[table.size];
  int which = 0;
  for (std::uint32_t chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
    while (chunk >= table.first_chunk[which + 1]) ++which;
    const Span& s = table.spans[which];
    const index_t begin = static_cast<index_t>(chunk - table.first_chunk[which]) * update_chunk;
    body(s, begin, begin + update_chunk < s.size ? begin + update_chunk : s.size);
  }
}
/// Calls body(whole, at, n) for each run of up to Width elements of this thread. `whole` is true_type if the run has
/// Width elements and `vectors` says that its addresses are aligned for them.
template <int Width, class Body>
__device__ inline void for_runs(index_t begin, index_t end, bool vectors, const Body& body) {
  for (index_t at = begin + threadIdx.x * Width; at < end; at += block_threads * Width) {
    const int n = end - at < Width ? static_cast<int>(end - at) : Width;
    if (vectors && n == Width) body(std::true_type{}, at, n);
    else body(std::false_type{}, at, n);
  }
}

/// The constants of a tensor's update, in memory that a block shares. One thread computes them, in double, if they
/// differ from the constants of the chunk before.
template <class Update>
class shared_update {
 public:
  __device__ explicit shared_update(unsigned char* memory) : update_(reinterpret_cast<Update*>(memory)) {}
  /// The constants of span s, computed by make() if they differ from the last ones. All threads of the block call it
  /// together.
  template <class Span, class Make>
  __device__ Update& of(const Span& s, const Make& make) {
    const double missed = s.missed == nullptr ? 0.0 : *s.missed;
    if (!known_ || s.lr != lr_ || s.weight_decay != decay_ || missed != missed_) {
      if (known_) __syncthreads();
      if (threadIdx.x == 0) *update_ = make();
      __syncthreads();
      known_ = true, lr_ = s.lr, decay_ = s.weight_decay, missed_ = missed;
    }
    return *update_;
  }

 private:
  Update* update_;
  double lr_ = 0, decay_ = 0, missed_ = 0;
  bool known_ = false;
};

/// Calls body(span, at) for each element of this thread.
template <class Span, class Body>
__device__ inline void for_elements(const span_table<Span>& table, const Body& body) {
  for_chunks(table, [&](const Span& s, index_t begin, index_t end) {
    for (index_t at = begin + threadIdx.x; at < end; at += block_threads) body(s, at);
  });
}

/// Calls f(i) for each of n elements of this thread, of the whole grid.
template <class F>
__device__ inline void for_grid(index_t n, const F& f) {
  for (index_t i = static_cast<index_t>(blockIdx.x) * block_threads + threadIdx.x; i < n;
       i += static_cast<index_t>(gridDim.x) * block_threads)
    f(i);
}

/// Rounds and writes element number `element` of all values.
template <class T, class C>
__device__ inline void write_value(T* to, C x, rounding rounds, [[maybe_unused]] const random_key& key,
                                   [[maybe_unused]] index_t element) {
  *to = convert_element<T>(x);
  if constexpr (std::is_same_v<T, bf16>)
    if (rounds == rounding::stochastic) *to = round_stochastically(x, key.words(element / 8), element % 8);
}

}  // namespace gradus::cuda_kit
