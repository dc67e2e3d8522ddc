#pragma once
// The CPU kernels of lstm and gru: the cells of one step.

#include "../../cpu/rows.hpp"
#include "../../cpu/simd_math.hpp"
#include "../broadcast/cpu.hpp"
#include "../matmul/cpu.hpp"
#include "../slice/cpu.hpp"
#include "recurrent.hpp"

namespace gradus {

namespace cpu_kit::inline GRADUS_BUILD {

inline constexpr index_t cells_per_task = 1024;

// The gates of one pack of hidden units, `width` elements apart.
template <index_t Gates, class C, class S, class Which>
GRADUS_INLINE void load_gates(const S* from, index_t width, Which which, pack<C> (&gate)[Gates]) {
  for (index_t g = 0; g < Gates; ++g) gate[g] = load<C>(from + g * width, which);
}
template <index_t Gates, class C, class S, class Which>
GRADUS_INLINE void store_gates(const pack<C> (&gate)[Gates], index_t width, Which which, S* to) {
  for (index_t g = 0; g < Gates; ++g) store(gate[g], to + g * width, which);
}

template <class Cell, class T, class TY>
void recurrent_cells(context<cpu>& ctx, recurrent_step step, recurrent_forward<T, TY> of) {
  using C = compute_type<T>;
  for_rows(ctx, step.batch, step.width, cells_per_task, [=](index_t row) {
    const index_t n = step.width, state = row * n;
    const bool runs = step.has(row);
    const T* const gates = of.gates.at(row, step.time);
    const C* const of_h = of.of_h + Cell::gates * state;
    TY* const y = of.y.at(row, step.time);
    T* const activated = of.activated.at(row, step.time);
    C* const memories = of.memories.at(row, step.time);
    for_packs<C>(n, [&](index_t i, auto which) {
      pack<C> h = load<C>(of.h + state + i, which), memory(0);
      if constexpr (Cell::carries_memory) memory = load<C>(of.memory + state + i, which);
      if (runs) {
        pack<C> gate[Cell::gates], product[Cell::gates];
        load_gates(gates + i, n, which, gate);
        load_gates(of_h + i, n, which, product);
        h = Cell::forward(gate, product, h, memory);
        store(h, of.h + state + i, which);
        h = load<C>(of.h + state + i, which);  // rounded, as the next step reads it
        if constexpr (Cell::carries_memory) store(memory, of.memory + state + i, which);
        if (activated != nullptr) store_gates(gate, n, which, activated + i);
      }
      store(h, y + i, which);
      if (memories != nullptr) store(memory, memories + i, which);
    });
  });
}

template <class Cell, class T, class TY>
void recurrent_cell_gradients(context<cpu>& ctx, recurrent_step step, recurrent_backward<T, TY> of) {
  using C = compute_type<T>;
  for_rows(ctx, step.batch, step.width, cells_per_task, [=](index_t row) {
    const index_t n = step.width, state = row * n;
    const bool runs = step.has(row);
    const TY* const dy = of.dy.at(row, step.time);
    const TY* const h_before = step.first ? of.first_h + state : of.y.at(row, step.before);
    const C* const memory_before =
        Cell::carries_memory && step.first ? of.first_memory + state : of.memories.at(row, step.before);
    const C* const memories = of.memories.at(row, step.time);
    T* const gates = of.gates.at(row, step.time);
    T* const of_h = of.of_h + Cell::gates * state;
    T* const all_of_h = of.all_of_h.at(row, step.time);
    T* const all_h_before = of.h_before.at(row, step.time);
    for_packs<C>(n, [&](index_t i, auto which) {
      pack<C> gate[Cell::gates], product[Cell::gates];
      pack<C> dh = load<C>(of.dh + state + i, which) + load<C>(dy + i, which);
      const pack<C> h = load<C>(h_before + i, which);
      if (all_h_before != nullptr) store(h, all_h_before + i, which);
      if (runs) {
        pack<C> before(0), dmemory(0);
        if constexpr (Cell::carries_memory) {
          before = load<C>(memory_before + i, which);
          dmemory = load<C>(of.dmemory + state + i, which);
        }
        load_gates(gates + i, n, which, gate);
        dh = Cell::backward(gate, product, dh, h, load<C>(memories + i, which), before, dmemory);
        if constexpr (Cell::carries_memory) store(dmemory, of.dmemory + state + i, which);
      } else {
        for (index_t g = 0; g < Cell::gates; ++g) gate[g] = product[g] = pack<C>(0);
      }
      store(dh, of.dh + state + i, which);
      store_gates(gate, n, which, gates + i);
      store_gates(product, n, which, of_h + i);
      if (all_of_h != nullptr) store_gates(product, n, which, all_of_h + i);
    });
  });
}

}  // namespace cpu_kit::inline GRADUS_BUILD

template <class Cell>
struct kernel<op::recurrent_cells<Cell>, cpu> {
  template <class T, class TY>
  static void forward(context<cpu>& ctx, const recurrent_step& step, const recurrent_forward<T, TY>& of) {
    cpu_kit::recurrent_cells<Cell>(ctx, step, of);
  }
  template <class T, class TY>
  static void backward(context<cpu>& ctx, const recurrent_step& step, const recurrent_backward<T, TY>& of) {
    cpu_kit::recurrent_cell_gradients<Cell>(ctx, step, of);
  }
};

}  // namespace gradus
