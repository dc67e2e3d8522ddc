#pragma once
// Moving averages of weights, on the CPU.

#include <algorithm>
#include <vector>

#include "../../core/config.hpp"
#include "../weight_average.hpp"
#include "spans.hpp"

namespace gradus {

template <>
struct kernel<op::average_weights, cpu> {
  template <class T, class G, class S>
  static void forward(context<cpu>& ctx, const op::average_weights& how, const std::vector<update_span<T, G>>& spans,
                      S* averages) {
    const pack<S> decay(how.decay), one_minus_decay(1 - how.decay);
    cpu_kit::parallel_spans(ctx, spans, [&](const update_span<T, G>& t, index_t begin, index_t end) {
      cpu_kit::for_packs<S>(end - begin, [&](index_t k, auto n) {
        S* at = averages + t.first + begin + k;
        const pack<S> value = cpu_kit::load<S>(t.value + begin + k, n);
        cpu_kit::store(how.decay == 0 ? value : decay * cpu_kit::load<S>(at, n) + one_minus_decay * value, at, n);
      });
    });
  }
};

template <>
struct kernel<op::swap_averages, cpu> {
  template <class T, class G, class S>
  static void forward(context<cpu>& ctx, const std::vector<update_span<T, G>>& spans, S* averages, T* back) {
    cpu_kit::parallel_spans(ctx, spans, [&](const update_span<T, G>& t, index_t begin, index_t end) {
      S* average = averages + t.first;
      for (index_t i = begin; i < end; ++i) {
        const T value = t.value[i];
        t.value[i] = convert_element<T>(average[i]);
        if (back == nullptr) average[i] = convert_element<S>(value);
        else back[t.first + i] = value;
      }
    });
  }
};

template <>
struct kernel<op::restore_values, cpu> {
  template <class T, class G>
  static void forward(context<cpu>& ctx, const std::vector<update_span<T, G>>& spans, const T* back) {
    cpu_kit::parallel_spans(ctx, spans, [&](const update_span<T, G>& t, index_t begin, index_t end) {
      std::copy(back + t.first + begin, back + t.first + end, t.value + begin);
    });
  }
};

}  // namespace gradus
