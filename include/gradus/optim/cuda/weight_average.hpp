#pragma once
// Moving averages of weights, on the GPU.

#include <vector>

#include "../../gpu/access.hpp"
#include "../weight_average.hpp"
#include "spans.hpp"

namespace gradus {

namespace cuda_kit {

template <class T, class G, class S>
__global__ void __launch_bounds__(block_threads)
    average_weights_kernel(const __grid_constant__ span_table<update_span<T, G>> table, S decay, S one_minus_decay,
                           S* averages) {
  for_elements(table, [&](const update_span<T, G>& s, index_t at) {
    S& average = averages[s.first + at];
    const S value = static_cast<S>(s.value[at]);
    average = decay == S(0) ? value : decay * average + one_minus_decay * value;
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

}  // namespace cuda_kit

template <>
struct kernel<op::average_weights, cuda> {
  template <class T, class G, class S>
  static void forward(context<cuda>& ctx, const op::average_weights& how, const std::vector<update_span<T, G>>& spans,
                      S* averages) {
    cuda_kit::launch_on_spans(ctx, spans, &cuda_kit::average_weights_kernel<T, G, S>, static_cast<S>(how.decay),
                              static_cast<S>(1 - how.decay), averages);
  }
};

template <>
struct kernel<op::swap_averages, cuda> {
  template <class T, class G, class S>
  static void forward(context<cuda>& ctx, const std::vector<update_span<T, G>>& spans, S* averages, T* back) {
    cuda_kit::launch_on_spans(ctx, spans, &cuda_kit::swap_averages_kernel<T, G, S>, averages, back);
  }
};

template <>
struct kernel<op::restore_values, cuda> {
  template <class T, class G>
  static void forward(context<cuda>& ctx, const std::vector<update_span<T, G>>& spans, const T* back) {
    cuda_kit::launch_on_spans(ctx, spans, &cuda_kit::restore_values_kernel<T, G>, back);
  }
};

}  // namespace gradus
