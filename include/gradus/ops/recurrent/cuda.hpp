#pragma once
// The CUDA kernels of lstm and gru: the cells of one step, one hidden unit of one row in a thread.

#include <cstdint>

#include "../../gpu/runs.hpp"
#include "../elementwise/cuda.hpp"
#include "../matmul/cuda.hpp"
#include "../slice/cuda.hpp"
#include "recurrent.hpp"

namespace gradus {

namespace cuda_kit {

// The hidden unit of this thread, in all rows; row becomes its row.
__device__ inline index_t unit_of_thread(divisor<std::uint64_t> width, index_t& row) {
  std::uint64_t unit = static_cast<std::uint64_t>(blockIdx.x) * block_threads + threadIdx.x;
  const std::uint64_t in_row = width.divide(unit);
  row = unit;
  return in_row;
}

template <class Cell, class T, class TY>
__global__ void recurrent_cells_kernel(recurrent_step step, divisor<std::uint64_t> width, recurrent_forward<T, TY> of) {
  using C = compute_type<T>;
  index_t row;
  const index_t unit = unit_of_thread(width, row), state = row * step.width + unit;
  if (row >= step.batch) return;
  C h = static_cast<C>(of.h[state]), memory = 0;
  if constexpr (Cell::carries_memory) memory = of.memory[state];
  if (step.has(row)) {
    C gate[Cell::gates], product[Cell::gates];
#pragma unroll
    for (int g = 0; g < static_cast<int>(Cell::gates); ++g) {
      gate[g] = static_cast<C>(of.gates.at(row, step.time)[g * step.width + unit]);
      product[g] = of.of_h[(row * Cell::gates + g) * step.width + unit];
    }
    const T next = convert_element<T>(Cell::forward(gate, product, h, memory));
    of.h[state] = next;
    h = static_cast<C>(next);  // rounded, as the next step reads it
    if constexpr (Cell::carries_memory) of.memory[state] = memory;
    if (of.activated.data != nullptr)
#pragma unroll
      for (int g = 0; g < static_cast<int>(Cell::gates); ++g)
        of.activated.at(row, step.time)[g * step.width + unit] = convert_element<T>(gate[g]);
  }
  of.y.at(row, step.time)[unit] = convert_element<TY>(h);
  if (of.memories.data != nullptr) of.memories.at(row, step.time)[unit] = memory;
}

template <class Cell, class T, class TY>
__global__ void recurrent_cell_gradients_kernel(recurrent_step step, divisor<std::uint64_t> width,
                                                recurrent_backward<T, TY> of) {
  using C = compute_type<T>;
  index_t row;
  const index_t unit = unit_of_thread(width, row), state = row * step.width + unit;
  if (row >= step.batch) return;
  const C h = static_cast<C>(step.first ? of.first_h[state] : of.y.at(row, step.before)[unit]);
  if (of.h_before.data != nullptr) of.h_before.at(row, step.time)[unit] = convert_element<T>(h);
  C dh = of.dh[state] + static_cast<C>(of.dy.at(row, step.time)[unit]);
  C gate[Cell::gates] = {}, product[Cell::gates] = {};
  T* const gates = of.gates.at(row, step.time) + unit;
  if (step.has(row)) {
    C before = 0, dmemory = 0;
    if constexpr (Cell::carries_memory) {
      before = step.first ? of.first_memory[state] : of.memories.at(row, step.before)[unit];
      dmemory = of.dmemory[state];
    }
#pragma unroll
    for (int g = 0; g < static_cast<int>(Cell::gates); ++g) gate[g] = static_cast<C>(gates[g * step.width]);
    dh = Cell::backward(gate, product, dh, h, of.memories.at(row, step.time)[unit], before, dmemory);
    if constexpr (Cell::carries_memory) of.dmemory[state] = dmemory;
  }
  of.dh[state] = dh;
#pragma unroll
  for (int g = 0; g < static_cast<int>(Cell::gates); ++g) {
    const T of_h = convert_element<T>(product[g]);
    gates[g * step.width] = convert_element<T>(gate[g]);
    of.of_h[(row * Cell::gates + g) * step.width + unit] = of_h;
    if (of.all_of_h.data != nullptr) of.all_of_h.at(row, step.time)[g * step.width + unit] = of_h;
  }
}

}  // namespace cuda_kit

template <class Cell>
struct kernel<op::recurrent_cells<Cell>, cuda> {
  template <class T, class TY>
  static void forward(context<cuda>& ctx, const recurrent_step& step, const recurrent_forward<T, TY>& of) {
    launch(ctx, &cuda_kit::recurrent_cells_kernel<Cell, T, TY>, cuda_kit::blocks_for(step.batch * step.width),
           cuda_kit::block_threads, step, cuda_kit::divisor<std::uint64_t>(step.width), of);
  }
  template <class T, class TY>
  static void backward(context<cuda>& ctx, const recurrent_step& step, const recurrent_backward<T, TY>& of) {
    launch(ctx, &cuda_kit::recurrent_cell_gradients_kernel<Cell, T, TY>, cuda_kit::blocks_for(step.batch * step.width),
           cuda_kit::block_threads, step, cuda_kit::divisor<std::uint64_t>(step.width), of);
  }
};

}  // namespace gradus
