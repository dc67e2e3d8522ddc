#pragma once
// The step of a rule for one element, on the CPU.

#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "../../core/config.hpp"
#include "../../cpu/simd_math.hpp"
#include "../element_optimizer.hpp"
#include "gradient_pass.hpp"
#include "spans.hpp"

namespace gradus {

template <>
struct kernel<op::element_step, cpu> {
  /// Span: update_span<T, G>, or span_of_rows of one, whose rows alone are updated.
  template <class Span, class Rule, class T, class S, std::size_t N>
  static void forward(context<cpu>& ctx, const std::vector<Span>& spans, const Rule& rule,
                      const rule_states<T, S, N>& states, const step_inputs& in) {
    if (in.skips()) return;
    using C = compute_type<T>;
    using P = pack<C>;
    const gradient_scaling<C> scaling(in);
    constexpr bool optional = requires { rule.states_in_use(); };  // states may be absent
    constexpr bool compensated = detail::is_compensated<Rule, T>;
    cpu_kit::parallel_spans(ctx, spans, [&](const Span& t, index_t first_entry, index_t last_entry) {
      const auto update = rule.template at<C>(in.at(rule, t));
      cpu_kit::value_writer writer(in);
      cpu_kit::for_runs(t, first_entry, last_entry, [&](index_t begin, index_t end) {
        cpu_kit::for_packs<C>(end - begin, [&](index_t k, auto n) {
          const index_t i = begin + k;
          const P g = scaling(cpu_kit::load<C>(t.gradient + i, n));
          P p = cpu_kit::load<C>(t.value + i, n);
          if constexpr (compensated) p = p + cpu_kit::load<C>(states.compensation + t.first + i, n);
          std::array<P, N> s;
          for (std::size_t j = 0; j < N; ++j)
            s[j] = optional && states.at[j] == nullptr ? P(0) : cpu_kit::load<C>(states.at[j] + t.first + i, n);
          if constexpr (!GRADUS_GPU_PASS)
            [&]<std::size_t... J>(std::index_sequence<J...>) { update(p, g, s[J]...); }(std::make_index_sequence<N>{});
          for (std::size_t j = 0; j < N; ++j)
            if (!optional || states.at[j] != nullptr) cpu_kit::store(s[j], states.at[j] + t.first + i, n);
          writer.write(p, t.value + i, n, t.draw + i);
          if constexpr (compensated)
            cpu_kit::store(p - cpu_kit::load<C>(t.value + i, n), states.compensation + t.first + i, n);
        });
      });
    });
  }
};

}  // namespace gradus
