#pragma once
// One launch updates many tensors: their addresses travel in the kernel's parameters, and blocks take fixed chunks of
// them in turn.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "../core/math.hpp"
#include "../cuda/access.hpp"
#include "../cuda/rows.hpp"
#include "../tensor/tensor.hpp"
#include "adamw_8bit.hpp"
#include "cuda/adafactor.hpp"
#include "cuda/followed_step.hpp"
#include "cuda/muon.hpp"
#include "element_optimizer.hpp"
#include "weight_average.hpp"

namespace gradus {

namespace cuda_kit {

inline constexpr int update_chunk = 4096;  ///< elements that a block takes at a time

/// A batch of tensors, small enough for 4 KiB of kernel parameters.
template <class Span>
struct span_table {
  static constexpr int capacity = static_cast<int>(std::min<std::size_t>(64, 3400 / (sizeof(Span) + 4)));
  Span spans[capacity];
  std::uint32_t first_chunk[capacity + 1];  // of each tensor; the last entry counts them all
  int size = 0;
};
static_assert(sizeof(span_table<update_span<double, double>>) + 512 <= 4096);
static_assert(sizeof(span_table<block_span<float, float>>) + 512 <= 4096);

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

/// Blocks that keep the GPU busy, each with chunks to take in turn.
template <class Span>
unsigned table_blocks(context<cuda>& ctx, const span_table<Span>& table) {
  return std::min<unsigned>(table.first_chunk[table.size], static_cast<unsigned>(ctx.stream().processors()) * 8);
}

/// Whether N elements at once may be read from p; a null pointer is read by nobody.
template <int N, class T>
__device__ inline bool aligned(const T* p) {
  return reinterpret_cast<std::uintptr_t>(p) % (N * sizeof(T)) == 0;
}

/// Calls body(span, begin, end) for the chunks that this block owns: all its threads together.
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
/// Calls body(whole, at, n) for the runs of up to Width elements of a chunk that this thread owns; `whole` says that
/// all Width are there and, as the caller knows, that each address is aligned for them.
template <int Width, class Body>
__device__ inline void for_runs(index_t begin, index_t end, bool vectors, const Body& body) {
  for (index_t at = begin + threadIdx.x * Width; at < end; at += block_threads * Width) {
    const int n = end - at < Width ? static_cast<int>(end - at) : Width;
    if (vectors && n == Width) body(std::true_type{}, at, n);
    else body(std::false_type{}, at, n);
  }
}

/// The constants of a tensor's update, in memory that a block shares. They are worked out by one thread, in double,
/// where they are other than those of the chunk before.
template <class Update>
class shared_update {
 public:
  __device__ explicit shared_update(unsigned char* memory) : update_(reinterpret_cast<Update*>(memory)) {}
  /// For all threads of the block together.
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

/// One step of a rule.
template <class Rule, class T, class G, class S, std::size_t N>
__global__ void __launch_bounds__(block_threads)
    element_step_kernel(const __grid_constant__ span_table<update_span<T, G>> table, followed_step<Rule> known,
                        rule_states<T, S, N> states) {
  using C = compute_type<T>;
  using update_type = decltype(known.rule.template at<C>(tensor_step{}));
  constexpr int width = vector_width<T, G, S>;
  constexpr bool optional = requires { known.rule.states_in_use(); };  // states may be absent
  constexpr bool compensated = gradus::detail::is_compensated<Rule, T>;
  const step_inputs& in = known.in;
  if (in.skips()) return;
  __shared__ alignas(update_type) unsigned char memory[sizeof(update_type)];
  shared_update<update_type> updates(memory);
  const gradient_scaling<C> scaling(in);
  [[maybe_unused]] const random_key key = known.key();
  for_chunks(table, [&](const update_span<T, G>& s, index_t begin, index_t end) {
    auto& update = updates.of(s, [&] {
      const auto now = known.now();
      return now.rule.template at<C>(now.in.at(now.rule, s));
    });
    bool vectors = aligned<width>(s.value) && aligned<width>(s.gradient);
    for (std::size_t j = 0; j < N; ++j) vectors = vectors && aligned<width>(states.at[j] + s.first);
    if constexpr (compensated) vectors = vectors && aligned<width>(states.rest + s.first);
    for_runs<width>(begin, end, vectors, [&](auto whole, index_t at, int n) {
      constexpr bool all = decltype(whole)::value;
      const auto g = load<width, all>(s.gradient + at, n);
      auto p = load<width, all>(s.value + at, n);
      [[maybe_unused]] vector_of<T, width> rest{};
      if constexpr (compensated) rest = load<width, all>(states.rest + s.first + at, n);
      vector_of<S, width> state[N == 0 ? 1 : N] = {};
#pragma unroll
      for (std::size_t j = 0; j < N; ++j)
        if (!optional || states.at[j] != nullptr) state[j] = load<width, all>(states.at[j] + s.first + at, n);
      [[maybe_unused]] std::array<std::uint32_t, 4> words{};
#pragma unroll
      for (int i = 0; i < width; ++i) {
        C value = static_cast<C>(p.at[i]);
        if constexpr (compensated) value += static_cast<C>(rest.at[i]);
        C of[N == 0 ? 1 : N];
        for (std::size_t j = 0; j < N; ++j) of[j] = static_cast<C>(state[j].at[i]);
        [&]<std::size_t... J>(std::index_sequence<J...>) {
          update(value, scaling(static_cast<C>(g.at[i])), of[J]...);
        }(std::make_index_sequence<N>{});
        for (std::size_t j = 0; j < N; ++j) state[j].at[i] = convert_element<S>(of[j]);
        p.at[i] = convert_element<T>(value);
        if constexpr (std::is_same_v<T, bf16>)
          if (in.rounds == rounding::stochastic) {
            const index_t element = s.first + at + static_cast<index_t>(i);
            if (i == 0 || element % 8 == 0) words = key.words(element / 8);
            p.at[i] = round_stochastically(value, words, element % 8);
          }
        if constexpr (compensated) rest.at[i] = convert_element<T>(value - static_cast<C>(p.at[i]));
      }
#pragma unroll
      for (std::size_t j = 0; j < N; ++j)
        if (!optional || states.at[j] != nullptr) store<width, all>(states.at[j] + s.first + at, state[j], n);
      if constexpr (compensated) store<width, all>(states.rest + s.first + at, rest, n);
      store<width, all>(s.value + at, p, n);
    });
  });
}

/// One block a partial sum, at most.
inline constexpr unsigned gradient_pass_blocks = static_cast<unsigned>(op::gradient_pass::partial_sums::extent(-1));

/// Adds each block's squares, and what is not finite, to its own partial sums (or assigns them, in the first table).
template <class G>
__global__ void __launch_bounds__(block_threads)
    gradient_pass_kernel(const __grid_constant__ span_table<gradient_span<G>> table, op::gradient_pass pass,
                         const gradient_scalars* to, double* partial, bool first) {
  using C = compute_type<G>;
  constexpr int width = vector_width<G>;
  const C factor = static_cast<C>(pass.early_factor(*to)), limit = static_cast<C>(pass.limit);
  double squares = 0, not_finite = 0;
  for_chunks(table, [&](const gradient_span<G>& s, index_t begin, index_t end) {
    for_runs<width>(begin, end, aligned<width>(s.gradient), [&](auto whole, index_t at, int n) {
      const auto g = load<width, decltype(whole)::value>(s.gradient + at, n);
#pragma unroll
      for (int i = 0; i < width; ++i) {
        const C raw = static_cast<C>(g.at[i]), scaled = raw * factor;
        const double held = static_cast<double>(scaled > limit ? limit : scaled < -limit ? -limit : scaled);
        squares += held * held;
        not_finite += static_cast<double>(raw * C(0));
      }
    });
  });
  const double sum = row_sum<static_cast<int>(block_threads)>(squares);
  const double bad = row_sum<static_cast<int>(block_threads)>(not_finite);
  if (threadIdx.x == 0) {
    double* const other = partial + gradient_pass_blocks;
    partial[blockIdx.x] = first ? sum : partial[blockIdx.x] + sum;
    other[blockIdx.x] = first ? bad : other[blockIdx.x] + bad;
  }
}

template <int Threads>
__global__ void __launch_bounds__(Threads) conclude_gradient_pass_kernel(op::gradient_pass pass, gradient_scalars* to,
                                                                         const double* partial, unsigned blocks) {
  const bool there = threadIdx.x < blocks;
  const double squares = row_sum<Threads>(there ? partial[threadIdx.x] : 0.0);
  const double not_finite = row_sum<Threads>(there ? partial[Threads + threadIdx.x] : 0.0);
  if (threadIdx.x == 0) pass.conclude(*to, squares, not_finite);
}

/// The maps of 8-bit states, on the GPU.
template <bool Signed>
const __device__ dynamic_map<Signed> map_on_gpu{};
template <class Map>
__device__ inline const Map& in_shared_memory(const Map& map, unsigned char* memory) {
  static_assert(sizeof(Map) % 4 == 0);
  for (unsigned i = threadIdx.x; i < sizeof(Map) / 4; i += block_threads)
    reinterpret_cast<std::uint32_t*>(memory)[i] = reinterpret_cast<const std::uint32_t*>(&map)[i];
  return *reinterpret_cast<const Map*>(memory);
}

/// A thread a value: a block of threads has a block of values that share a scale.
template <class T, class G>
__global__ void __launch_bounds__(block_threads)
    adamw_8bit_kernel(const __grid_constant__ span_table<block_span<T, G>> table,
                      followed_step<adamw_8bit_options> known) {
  constexpr index_t block = adamw_8bit_options::block;
  static_assert(block == block_threads && update_chunk % block == 0);
  const step_inputs& in = known.in;
  if (in.skips()) return;
  __shared__ alignas(16) unsigned char memory[2][sizeof(dynamic_map<true>)];
  const auto& first_map = in_shared_memory(map_on_gpu<true>, memory[0]);
  const auto& second_map = in_shared_memory(map_on_gpu<false>, memory[1]);
  __syncthreads();
  using update_type = decltype(known.rule.rule().template at<float>(tensor_step{}));
  __shared__ alignas(update_type) unsigned char constants[sizeof(update_type)];
  shared_update<update_type> updates(constants);
  const gradient_scaling<float> scaling(in);
  [[maybe_unused]] const random_key key = known.key();
  for_chunks(table, [&](const block_span<T, G>& s, index_t begin, index_t end) {
    auto& update = updates.of(s, [&] {
      const auto now = known.now();
      return now.rule.rule().template at<float>(now.in.at(now.rule, s));
    });
    const bool in_codes = s.codes[0] != nullptr;
    for (; begin < end; begin += block) {
      const index_t at = begin + threadIdx.x;
      const bool here = at < end;
      float m = 0, v = 0;
      if (here) {
        m = in_codes ? first_map.value[s.codes[0][at]] * s.states[0][begin / block] : s.states[0][at];
        v = in_codes ? second_map.value[s.codes[1][at]] * s.states[1][begin / block] : s.states[1][at];
        float p = static_cast<float>(s.value[at]);
        update(p, scaling(static_cast<float>(s.gradient[at])), m, v);
        s.value[at] = convert_element<T>(p);
        if constexpr (std::is_same_v<T, bf16>)
          if (in.rounds == rounding::stochastic)
            s.value[at] = round_stochastically(p, key.words((s.first + at) / 8), (s.first + at) % 8);
      }
      if (!in_codes) {
        if (here) s.states[0][at] = m, s.states[1][at] = v;
        continue;
      }
      // As on the CPU: what is not finite starts again at 0, and a v above 0 is never coded as 0.
      if (!(v <= std::numeric_limits<float>::max())) m = v = 0;
      const float most_m = row_max<static_cast<int>(block_threads)>(here ? fabsf(m) : 0.0f);
      const float most_v = row_max<static_cast<int>(block_threads)>(here ? fabsf(v) : 0.0f);
      if (threadIdx.x == 0) s.states[0][begin / block] = most_m, s.states[1][begin / block] = most_v;
      if (!here) continue;
      s.codes[0][at] = first_map.nearest(m / (most_m > 0 ? most_m : 1.0f));
      const std::uint8_t code = second_map.nearest(v / (most_v > 0 ? most_v : 1.0f));
      s.codes[1][at] = v > 0 && code == 0 ? 1 : code;
    }
  });
}

/// Calls body(span, at) for the elements that this thread owns.
template <class Span, class Body>
__device__ inline void for_elements(const span_table<Span>& table, const Body& body) {
  for_chunks(table, [&](const Span& s, index_t begin, index_t end) {
    for (index_t at = begin + threadIdx.x; at < end; at += block_threads) body(s, at);
  });
}
template <class T, class G, class S>
__global__ void __launch_bounds__(block_threads)
    average_weights_kernel(const __grid_constant__ span_table<update_span<T, G>> table, S keep, S rest, S* averages) {
  for_elements(table, [&](const update_span<T, G>& s, index_t at) {
    S& average = averages[s.first + at];
    const S value = static_cast<S>(s.value[at]);
    average = keep == S(0) ? value : keep * average + rest * value;
  });
}
template <class T, class G, class S>
__global__ void __launch_bounds__(block_threads)
    swap_averages_kernel(const __grid_constant__ span_table<update_span<T, G>> table, S* averages, T* back) {
  for_elements(table, [&](const update_span<T, G>& s, index_t at) {
    const T value = s.value[at];
    s.value[at] = convert_element<T>(averages[s.first + at]);
    if (back == nullptr) averages[s.first + at] = convert_element<S>(value);
    else back[s.first + at] = value;
  });
}
template <class T, class G>
__global__ void __launch_bounds__(block_threads)
    restore_values_kernel(const __grid_constant__ span_table<update_span<T, G>> table, const T* back) {
  for_elements(table, [&](const update_span<T, G>& s, index_t at) { s.value[at] = back[s.first + at]; });
}

template <class = void>  // as templates, so that every file may have them
__global__ void note_skip_kernel(const gradient_scalars* scalars, double* skipped, loss_scale_counts* counts) {
  if (scalars->found_inf == 0) return;
  *skipped += 1;
  counts->found_inf = 1;
}
/// Numbers of parameters, as a kernel takes them along.
struct number_table {
  static constexpr unsigned capacity = 512;
  std::uint32_t at[capacity];
  unsigned size = 0;
};
template <class = void>
__global__ void note_missed_kernel(const __grid_constant__ number_table of, const gradient_scalars* scalars,
                                   double* missed) {
  if (scalars != nullptr && scalars->found_inf != 0) return;
  if (threadIdx.x < of.size) missed[of.at[threadIdx.x]] += 1;
}
template <class = void>
__global__ void update_loss_scale_kernel(op::update_loss_scale update, float* scale, loss_scale_counts* counts) {
  update(*scale, *counts);
}

}  // namespace cuda_kit

/// In a fixed order, without atomics: the same bits every run.
template <>
struct kernel<op::gradient_pass, cuda> {
  template <class G>
  static void forward(context<cuda>& ctx, const op::gradient_pass& pass, gradient_scalars* to,
                      view<double, op::gradient_pass::partial_sums, cuda> sums,
                      const std::vector<gradient_span<G>>& spans) {
    using namespace cuda_kit;
    double* partial = sums.data();
    unsigned blocks = 0;
    bool first = true;
    for_tables(spans, [&](const auto& table) {
      // Of several tables each has as many, so that all partial sums are there from the first on.
      blocks = table.size < table.capacity && first ? std::min(gradient_pass_blocks, table.first_chunk[table.size])
                                                    : gradient_pass_blocks;
      launch(ctx, &gradient_pass_kernel<G>, blocks, block_threads, table, pass, to, partial, first);
      first = false;
    });
    launch(ctx, &conclude_gradient_pass_kernel<static_cast<int>(gradient_pass_blocks)>, 1, gradient_pass_blocks, pass,
           to, partial, blocks);
  }
};

template <>
struct kernel<op::note_skip, cuda> {
  static void forward(context<cuda>& ctx, const gradient_scalars* scalars, double* skipped, loss_scale_counts* counts) {
    cuda_kit::launch(ctx, &cuda_kit::note_skip_kernel<>, 1, 1, scalars, skipped, counts);
  }
};

template <>
struct kernel<op::note_missed, cuda> {
  static void forward(context<cuda>& ctx, const gradient_scalars* scalars, double* missed,
                      const std::vector<std::uint32_t>& which) {
    using table_type = cuda_kit::number_table;
    for (std::size_t done = 0; done < which.size();) {
      table_type table;
      while (done < which.size() && table.size < table_type::capacity) table.at[table.size++] = which[done++];
      cuda_kit::launch(ctx, &cuda_kit::note_missed_kernel<>, 1, table_type::capacity, table, scalars, missed);
    }
  }
};

template <>
struct kernel<op::update_loss_scale, cuda> {
  static void forward(context<cuda>& ctx, const op::update_loss_scale& update, float* scale,
                      loss_scale_counts* counts) {
    cuda_kit::launch(ctx, &cuda_kit::update_loss_scale_kernel<>, 1, 1, update, scale, counts);
  }
};

template <>
struct kernel<op::element_step, cuda> {
  template <class Rule, class T, class G, class S, std::size_t N>
  static void forward(context<cuda>& ctx, const std::vector<update_span<T, G>>& spans, const Rule& rule,
                      const rule_states<T, S, N>& states, const step_inputs& in) {
    const auto known = cuda_kit::follow(ctx, rule, in);
    cuda_kit::for_tables(spans, [&](const auto& table) {
      cuda_kit::launch(ctx, &cuda_kit::element_step_kernel<Rule, T, G, S, N>, cuda_kit::table_blocks(ctx, table),
                       cuda_kit::block_threads, table, known, states);
    });
  }
};

template <>
struct kernel<op::adamw_8bit_step, cuda> {
  template <class T, class G>
  static void forward(context<cuda>& ctx, const std::vector<block_span<T, G>>& spans, const adamw_8bit_options& options,
                      const step_inputs& in) {
    const auto known = cuda_kit::follow(ctx, options, in);
    cuda_kit::for_tables(spans, [&](const auto& table) {
      cuda_kit::launch(ctx, &cuda_kit::adamw_8bit_kernel<T, G>, cuda_kit::table_blocks(ctx, table),
                       cuda_kit::block_threads, table, known);
    });
  }
};

template <>
struct kernel<op::average_weights, cuda> {
  template <class T, class G, class S>
  static void forward(context<cuda>& ctx, const op::average_weights& how, const std::vector<update_span<T, G>>& spans,
                      S* averages) {
    cuda_kit::for_tables(spans, [&](const auto& table) {
      cuda_kit::launch(ctx, &cuda_kit::average_weights_kernel<T, G, S>, cuda_kit::table_blocks(ctx, table),
                       cuda_kit::block_threads, table, static_cast<S>(how.decay), static_cast<S>(1 - how.decay),
                       averages);
    });
  }
};

template <>
struct kernel<op::swap_averages, cuda> {
  template <class T, class G, class S>
  static void forward(context<cuda>& ctx, const std::vector<update_span<T, G>>& spans, S* averages, T* back) {
    cuda_kit::for_tables(spans, [&](const auto& table) {
      cuda_kit::launch(ctx, &cuda_kit::swap_averages_kernel<T, G, S>, cuda_kit::table_blocks(ctx, table),
                       cuda_kit::block_threads, table, averages, back);
    });
  }
};

template <>
struct kernel<op::restore_values, cuda> {
  template <class T, class G>
  static void forward(context<cuda>& ctx, const std::vector<update_span<T, G>>& spans, const T* back) {
    cuda_kit::for_tables(spans, [&](const auto& table) {
      cuda_kit::launch(ctx, &cuda_kit::restore_values_kernel<T, G>, cuda_kit::table_blocks(ctx, table),
                       cuda_kit::block_threads, table, back);
    });
  }
};

}  // namespace gradus
