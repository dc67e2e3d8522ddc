#pragma once
// The step of a rule for one element, on the GPU.

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "../../gpu/access.hpp"
#include "../element_optimizer.hpp"
#include "followed_step.hpp"
#include "gradient_pass.hpp"
#include "spans.hpp"

namespace gradus {

namespace cuda_kit {

static_assert(sizeof(span_table<update_span<double, double>>) + 512 <= 4096);

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
    if constexpr (compensated) vectors = vectors && aligned<width>(states.compensation + s.first);
    for_runs<width>(begin, end, vectors, [&](auto whole, index_t at, int n) {
      constexpr bool all = decltype(whole)::value;
      const auto g = load<width, all>(s.gradient + at, n);
      auto p = load<width, all>(s.value + at, n);
      [[maybe_unused]] vector_of<T, width> rest{};
      if constexpr (compensated) rest = load<width, all>(states.compensation + s.first + at, n);
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
            const index_t element = s.draw + at + static_cast<index_t>(i);
            if (i == 0 || element % 8 == 0) words = key.words(element / 8);
            p.at[i] = round_stochastically(value, words, element % 8);
          }
        if constexpr (compensated) rest.at[i] = convert_element<T>(value - static_cast<C>(p.at[i]));
      }
#pragma unroll
      for (std::size_t j = 0; j < N; ++j)
        if (!optional || states.at[j] != nullptr) store<width, all>(states.at[j] + s.first + at, state[j], n);
      if constexpr (compensated) store<width, all>(states.compensation + s.first + at, rest, n);
      store<width, all>(s.value + at, p, n);
    });
  });
}

}  // namespace cuda_kit

template <>
struct kernel<op::element_step, cuda> {
  template <class Rule, class T, class G, class S, std::size_t N>
  static void forward(context<cuda>& ctx, const std::vector<update_span<T, G>>& spans, const Rule& rule,
                      const rule_states<T, S, N>& states, const step_inputs& in) {
    cuda_kit::launch_on_spans(ctx, spans, &cuda_kit::element_step_kernel<Rule, T, G, S, N>,
                              cuda_kit::follow(ctx, rule, in), states);
  }
};

}  // namespace gradus
