#pragma once
#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "../../core/error.hpp"
#include "../../cpu/parallel.hpp"
#include "../../cpu/rows.hpp"
#include "../../precision/promotion.hpp"
#include "embedding.hpp"

namespace gradus {

template <>
struct kernel<op::embedding, cpu> {
  template <class T, class Y, class I, class S, class Table>
  static void forward(context<cpu>& ctx, view<T, Y> y, view<const I, S> tokens, view<const T, Table> table) {
    constexpr index_t columns = columns_of<Table>;
    for (index_t i = 0; i < S::size; ++i) {
      if (!std::in_range<index_t>(tokens[i]) || static_cast<index_t>(tokens[i]) >= rows_of<Table>) [[unlikely]]
        throw error("embedding(tokens, table): token " + std::to_string(tokens[i]) + " at position " +
                    std::to_string(i) + " is outside 0 .. " + std::to_string(rows_of<Table> - 1));
    }
    cpu_kit::parallel_elements(ctx, S::size, grain<columns>, [&](index_t first, index_t last) {
      for (index_t i = first; i < last; ++i)
        std::memcpy(y.data() + i * columns, table.data() + static_cast<index_t>(tokens[i]) * columns,
                    columns * sizeof(T));
    });
  }

  // A task owns a class of tokens (their last bits) and a range of columns, and goes through the tokens in order:
  // repeated tokens add up the same way on any thread count, and rows that no token names are not touched. Sums are
  // rounded once: where the table has 16 bits, a task goes through its tokens by their number, with one sum for each.
  template <class T, class Table, class TY, class Y, class I, class S>
  static void backward(context<cpu>& ctx, view<T, Table> dtable, bool accumulate, view<const TY, Y> dy,
                       view<const I, S> tokens) {
    using C = compute_type<promote<T, TY>>;
    constexpr index_t columns = columns_of<Table>;
    // The more threads, the narrower and the more: it is the same sums whoever has them.
    const auto threads = static_cast<index_t>(thread_count(ctx.stream()));
    const index_t width = threads > 4 ? 128 : 512;
    const index_t blocks = (columns + width - 1) / width;
    const index_t classes = std::bit_ceil(std::max<index_t>(16, 2 * threads));
    if (!accumulate)
      cpu_kit::parallel_elements(ctx, Table::size, 1 << 16, [&](index_t first, index_t last) {
        std::memset(static_cast<void*>(dtable.data() + first), 0, (last - first) * sizeof(T));
      });
    if constexpr (!std::is_same_v<T, C>) {
      struct sorted {
        C sum[512];
        std::uint32_t places[S::size];
      };
      cpu_kit::parallel_tasks(ctx, blocks * classes, sizeof(sorted), [&](index_t task, void* memory) {
        auto& room = *static_cast<sorted*>(memory);
        const index_t first = task / classes * width;
        const index_t count = std::min(width, columns - first);
        index_t n = 0;
        for (index_t i = 0; i < S::size; ++i)
          if ((static_cast<index_t>(tokens[i]) & (classes - 1)) == task % classes)
            room.places[n++] = static_cast<std::uint32_t>(i);
        std::sort(room.places, room.places + n, [&](std::uint32_t a, std::uint32_t b) {
          return tokens[a] != tokens[b] ? tokens[a] < tokens[b] : a < b;
        });
        for (index_t i = 0; i < n;) {
          const auto token = static_cast<index_t>(tokens[room.places[i]]);
          T* to = dtable.data() + token * columns + first;
          for (index_t k = 0; k < count; ++k) room.sum[k] = static_cast<C>(to[k]);
          for (; i < n && static_cast<index_t>(tokens[room.places[i]]) == token; ++i) {
            const TY* from = dy.data() + room.places[i] * columns + first;
            cpu_kit::for_packs<C>(
                count, [&](index_t k, auto m) { cpu_kit::put(cpu_kit::load<C>(from + k, m), room.sum + k, true, m); });
          }
          cpu_kit::for_packs<C>(
              count, [&](index_t k, auto m) { cpu_kit::put(cpu_kit::load<C>(room.sum + k, m), to + k, false, m); });
        }
      });
      return;
    }
    cpu_kit::parallel_tasks(ctx, blocks * classes, [&](index_t task) {
      const index_t first = task / classes * width;
      const index_t count = std::min(width, columns - first);
      for (index_t i = 0; i < S::size; ++i) {
        const auto token = static_cast<index_t>(tokens[i]);
        if ((token & (classes - 1)) != task % classes) continue;
        const TY* from = dy.data() + i * columns + first;
        T* to = dtable.data() + token * columns + first;
        cpu_kit::for_packs<C>(count,
                              [&](index_t k, auto n) { cpu_kit::put(cpu_kit::load<C>(from + k, n), to + k, true, n); });
      }
    });
  }

 private:
  template <index_t Columns>
  static constexpr index_t grain = Columns >= 8192 ? 1 : 8192 / Columns;
};

}  // namespace gradus
