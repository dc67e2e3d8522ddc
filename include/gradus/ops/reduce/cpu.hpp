#pragma once
// Sums are taken block by block in the compute type, and blocks are added in double; work is split by the shape alone.
// So results are accurate and the same on any number of threads.

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>

#include "../../core/config.hpp"
#include "../../cpu/parallel.hpp"
#include "../../cpu/simd.hpp"
#include "plan.hpp"
#include "reduce.hpp"

namespace gradus {
namespace cpu_kit::inline GRADUS_BUILD {

/// What extreme values are found in: small integers widen.
template <class T>
using reduce_type =
    std::conditional_t<is_floating<T>, compute_type<T>, std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>>;
/// What a block is summed in: integers of up to 16 bits cannot overflow 32 there, and others wrap at 64.
template <class T>
using sum_type = std::conditional_t<is_floating<T>, compute_type<T>,
                                    std::conditional_t<sizeof(T) <= 2, std::int32_t, std::uint64_t>>;
/// What sums of blocks are added in.
template <class C>
using wide_type = std::conditional_t<std::is_floating_point_v<C>, double, std::uint64_t>;

/// `n` elements, fewer than a pack at the end of a row.
template <class C, class S>
GRADUS_INLINE pack<C> load_up_to(const S* from, index_t n) {
  return n >= lanes<C> ? pack<C>::load(from) : pack<C>::load(from, n);
}
template <class C, class S>
GRADUS_INLINE void store_up_to(pack<C> x, S* to, index_t n) {
  if (n >= lanes<C>) x.store(to);
  else x.store(to, n);
}

/// How a reduction's work is cut: into tasks with results of their own (one output, or a block of columns), and a task,
/// if there are few, into chunks whose results are merged in order. A unit of a task is a piece of a row.
template <class Plan>
struct reduction_grid {
  static constexpr index_t piece = 1024;  // of a reduced row
  static constexpr index_t block = 128;   // columns
  static constexpr index_t most = 96;     // chunks of all tasks
  static constexpr index_t pieces = (Plan::inner + piece - 1) / piece;
  static constexpr index_t blocks = (Plan::inner + block - 1) / block;
  static constexpr index_t tasks = Plan::inner_reduced ? Plan::out_rows : Plan::out_rows * blocks;
  static constexpr index_t units = Plan::inner_reduced ? Plan::steps * pieces : Plan::steps;
  static constexpr index_t work = Plan::outputs * Plan::count / tasks;
  static constexpr index_t wanted = tasks >= most || work < (index_t{1} << 16) ? 1 : std::min(units, most / tasks);
  static constexpr index_t chunk = (units + wanted - 1) / wanted;
  static constexpr index_t chunks = (units + chunk - 1) / chunk;
  static constexpr index_t width =
      Plan::inner_reduced ? 1 : std::min(block, Plan::inner);  ///< results of a task, at most

  /// Columns of a task: the first, and how many.
  static constexpr index_t first_column(index_t task) { return task % blocks * block; }
  static constexpr index_t columns(index_t task) { return std::min(block, Plan::inner - first_column(task)); }
  /// First output of a task.
  static constexpr index_t output(index_t task) {
    return Plan::inner_reduced ? task : task / blocks * Plan::inner + first_column(task);
  }
  static constexpr index_t results(index_t task) { return Plan::inner_reduced ? 1 : columns(task); }

  /// Runs `reduce(state, task, first unit, last unit)` on the chunks of every task, merges them, and calls
  /// finish(state, task).
  template <class State, class Reduce, class Finish>
  static void run(context<cpu>& ctx, const Reduce& reduce, const Finish& finish) {
    if constexpr (chunks == 1) {
      parallel_elements(ctx, tasks, std::max<index_t>(1, (index_t{1} << 14) / work), [&](index_t first, index_t last) {
        for (index_t t = first; t < last; ++t) {
          State state;
          reduce(state, t, index_t{0}, units);
          finish(state, t);
        }
      });
    } else {
      std::array<State, tasks * chunks> parts;  // `most` of them
      parallel_tasks(ctx, tasks * chunks, [&](index_t i) {
        const index_t c = i % chunks;
        reduce(parts[i], i / chunks, c * chunk, std::min(units, (c + 1) * chunk));
      });
      for (index_t t = 0; t < tasks; ++t) {
        for (index_t c = 1; c < chunks; ++c) parts[t * chunks].merge(parts[t * chunks + c]);
        finish(parts[t * chunks], t);
      }
    }
  }
};

/// The sums of one task.
template <class W, index_t Width>
struct sums {
  W value[Width] = {};
  void merge(const sums& o) {
    for (index_t i = 0; i < Width; ++i) value[i] += o.value[i];
  }
};

/// Sums of term(x, output): of the elements, or of something made of each and of its output's number.
/// `term(pack, offset of the first of the outputs it belongs to, lanes that count)`.
template <class Plan, class C, class T, class Term, class Finish>
void sum_terms(context<cpu>& ctx, const T* x, const Term& term, const Finish& finish) {
  using grid = reduction_grid<Plan>;
  using W = wide_type<C>;
  using state = sums<W, grid::width>;
  [[maybe_unused]] const T* end_of_x = x + Plan::outputs * Plan::count;
  const auto reduce = [&](state& s, index_t task, index_t first, index_t last) {
    if constexpr (Plan::inner_reduced) {
      // Sixteen additions in C, and on in W: as many on narrow registers as on wide ones.
      constexpr index_t run = 64 * lanes<C>;
      const auto sum_run = [&](const T* from, index_t n) {
        pack<C> a(0), b(0), c(0), d(0);  // four sums hide the latency of an addition
        index_t i = 0;
        for (; i + 4 * lanes<C> <= n; i += 4 * lanes<C>) {
          a = a + term(pack<C>::load(from + i), task);
          b = b + term(pack<C>::load(from + i + lanes<C>), task);
          c = c + term(pack<C>::load(from + i + 2 * lanes<C>), task);
          d = d + term(pack<C>::load(from + i + 3 * lanes<C>), task);
        }
        for (; i + lanes<C> <= n; i += lanes<C>) a = a + term(pack<C>::load(from + i), task);
        W total = n >= lanes<C> ? static_cast<W>(sum_lanes((a + b) + (c + d))) : W(0);
        if (i < n) {
          C rest[lanes<C>];
          term(pack<C>::load(from + i, n - i), task).store(rest);
          for (index_t k = 0; k < n - i; ++k) total += static_cast<W>(rest[k]);
        }
        return total;
      };
      for (index_t u = first; u < last; ++u) {
        const index_t begin = u % grid::pieces * grid::piece;
        const T* from = x + Plan::row(task, u / grid::pieces) + begin;
        const index_t n = std::min(grid::piece, Plan::inner - begin);
        for (index_t i = 0; i < n; i += run) s.value[0] += sum_run(from + i, std::min(run, n - i));
      }
    } else {
      constexpr index_t packs = (grid::width + lanes<C> - 1) / lanes<C>;
      constexpr index_t rows_at_once = 32, rows_ahead = 16;
      const index_t out_row = task / grid::blocks;
      const index_t column = grid::first_column(task);
      const index_t width = grid::blocks == 1 ? grid::width : grid::columns(task);  // mostly known to the compiler
      const auto add_rows = [&](index_t from_row, index_t to_row, auto whole) {
        pack<C> part[packs];
        for (auto& p : part) p = pack<C>(0);
        for (index_t r = from_row; r < to_row; ++r) {
          const T* from = x + Plan::row(out_row, r) + column;
          const T* later = x + Plan::row(out_row, std::min(r + rows_ahead, last - 1)) + column;
          for (index_t p = 0; p < packs; ++p) {
            if constexpr (decltype(whole)::value) {
              __builtin_prefetch(later + p * lanes<C>);  // no hardware foresees runs so short
              part[p] = part[p] + term(pack<C>::load(from + p * lanes<C>), grid::output(task) + p * lanes<C>, lanes<C>);
            } else {
              if (p * lanes<C> >= width) break;
              const index_t n = width - p * lanes<C>;
              const T* at = from + p * lanes<C>;
              // A whole pack, if memory goes on that far: what it has too much of the next row is left out below.
              const pack<C> v =
                  static_cast<index_t>(end_of_x - at) >= lanes<C> ? pack<C>::load(at) : load_up_to<C>(at, n);
              part[p] = part[p] + term(v, grid::output(task) + p * lanes<C>, n);
            }
          }
        }
        C flat[packs * lanes<C>];
        for (index_t p = 0; p < packs; ++p) part[p].store(flat + p * lanes<C>);
        for (index_t c = 0; c < width; ++c) s.value[c] += static_cast<W>(flat[c]);
      };
      for (index_t r = first; r < last; r += rows_at_once) {
        const index_t end = std::min(last, r + rows_at_once);
        if constexpr (grid::width == packs * lanes<C>) {
          if (width == grid::width) {
            add_rows(r, end, std::true_type{});
            continue;
          }
        }
        add_rows(r, end, std::false_type{});
      }
    }
  };
  grid::template run<state>(ctx, reduce, [&](const state& s, index_t task) {
    for (index_t c = 0; c < grid::results(task); ++c) finish(grid::output(task) + c, s.value[c]);
  });
}

/// to (+)= factor * the plain sums of `from`.
template <class Plan, class T, class U>
void sum_into(context<cpu>& ctx, T* to, const U* from, bool accumulate, double factor) {
  using C = sum_type<U>;
  using W = wide_type<C>;
  const auto as_is = [](const pack<C>& x, auto...) { return x; };
  sum_terms<Plan, C>(ctx, from, as_is, [&](index_t i, W sum) {
    if constexpr (std::is_floating_point_v<C>) {
      const W before = accumulate ? static_cast<W>(static_cast<reduce_type<T>>(to[i])) : W(0);
      to[i] = static_cast<T>(static_cast<reduce_type<T>>(before + sum * factor));
    } else {
      to[i] = static_cast<T>(sum);
    }
  });
}

/// The extreme values of one task and where they were first seen. NaN beats everything.
template <class C, index_t Width, bool Largest>
struct extremes {
  C value[Width] = {};
  std::int32_t at[Width] = {};
  bool any = false;

  static bool better(C a, C b) { return (Largest ? a > b : a < b) || (a != a && b == b); }
  static GRADUS_INLINE pack_mask<C> better(pack<C> a, pack<C> b) {  // not (a <= b) is true of NaN, too
    return !(Largest ? a <= b : a >= b) && b == b;
  }
  void offer(index_t i, C v, std::int32_t where) {
    if (!better(v, value[i])) return;  // of equal ones the first counts: they are offered in order
    value[i] = v;
    at[i] = where;
  }
  void merge(const extremes& o) {
    for (index_t i = 0; i < Width; ++i) offer(i, o.value[i], o.at[i]);
  }
};

/// In each lane, the extreme value seen so far and a number of where it was first.
template <class C, bool Largest>
struct lane_extremes {
  using places = typename pack<C>::mask_native;
  using state = extremes<C, 1, Largest>;
  pack<C> value;
  places at;

  GRADUS_INLINE void offer(pack<C> v, places where) {
    const auto take = state::better(v, value);
    value = select(take, v, value);
    at = take.m ? where : at;
  }
  GRADUS_INLINE void merge(const lane_extremes& o) {
    const auto beaten = state::better(value, o.value), better = state::better(o.value, value);
    const places take = better.m | (~beaten.m & (o.at < at));
    value.v = take ? o.value.v : value.v;
    at = take ? o.at : at;
  }
};

/// The extreme value of n elements, and where it is first.
template <class C, bool Largest, class T>
extremes<C, 1, Largest> best_of_run(const T* from, index_t n) {
  using lanes_so_far = lane_extremes<C, Largest>;
  extremes<C, 1, Largest> best{{static_cast<C>(from[0])}, {0}, true};
  const index_t packs = n / lanes<C>;
  if (packs > 0) {
    const auto number = [&](index_t p) { return pack<C>::load(from + p * lanes<C>); };
    lanes_so_far a{number(0), {}}, b = a, c = a, d = a;  // four, so that none waits for what the one before it comes to
    typename lanes_so_far::places four{};
    index_t p = 0;
    for (; p + 4 <= packs; p += 4) {
      a.offer(number(p), four);
      b.offer(number(p + 1), four);
      c.offer(number(p + 2), four);
      d.offer(number(p + 3), four);
      four = four + 1;
    }
    if (p < packs) a.offer(number(p), four);
    if (p + 1 < packs) b.offer(number(p + 1), four);
    if (p + 2 < packs) c.offer(number(p + 2), four);
    a.at = 4 * a.at, b.at = 4 * b.at + 1, c.at = 4 * c.at + 2, d.at = 4 * d.at + 3;
    a.merge(b);
    c.merge(d);
    a.merge(c);
    for (index_t l = 0; l < lanes<C>; ++l) {
      const C v = a.value.v[l];
      const auto at = static_cast<std::int32_t>(static_cast<index_t>(a.at[l]) * lanes<C> + l);
      const bool take = best.better(v, best.value[0]) || (!best.better(best.value[0], v) && at < best.at[0]);
      best.value[0] = take ? v : best.value[0];
      best.at[0] = take ? at : best.at[0];
    }
  }
  for (index_t i = packs * lanes<C>; i < n; ++i) best.offer(0, static_cast<C>(from[i]), static_cast<std::int32_t>(i));
  return best;
}

/// finish(output, value, place) for every output.
template <class Plan, bool Largest, class T, class Finish>
void find_extremes(context<cpu>& ctx, const T* x, const Finish& finish) {
  static_assert(Plan::count < (index_t{1} << 31),
                "max, min, argmax: more elements to choose from than an i32 can number");
  using grid = reduction_grid<Plan>;
  using C = reduce_type<T>;
  using state = extremes<C, grid::width, Largest>;
  const auto reduce = [&](state& s, index_t task, index_t first, index_t last) {
    const index_t out_row = Plan::inner_reduced ? task : task / grid::blocks;
    for (index_t u = first; u < last; ++u) {
      if constexpr (Plan::inner_reduced) {
        const index_t begin = u % grid::pieces * grid::piece;
        const T* from = x + Plan::row(out_row, u / grid::pieces) + begin;
        const index_t n = std::min(grid::piece, Plan::inner - begin);
        const index_t base = u / grid::pieces * Plan::inner + begin;
        const auto best = best_of_run<C, Largest>(from, n);
        const auto at = static_cast<std::int32_t>(base) + best.at[0];
        if (s.any) s.offer(0, best.value[0], at);
        else s = {{best.value[0]}, {at}, true};
      } else {
        const T* from = x + Plan::row(out_row, u) + grid::first_column(task);
        const index_t width = grid::columns(task);
        const auto where = static_cast<std::int32_t>(u);
        if (!s.any) {
          for (index_t c = 0; c < grid::width; ++c) {
            s.value[c] = static_cast<C>(from[std::min(c, width - 1)]);  // a short last block repeats its last column
            s.at[c] = where;
          }
          s.any = true;
          continue;
        }
        index_t c = 0;
        if constexpr (sizeof(C) == sizeof(std::int32_t)) {
          for (; c + lanes<C> <= width; c += lanes<C>) {
            lane_extremes<C, Largest> so_far{pack<C>::load(s.value + c), pack<std::int32_t>::load(s.at + c).v};
            so_far.offer(pack<C>::load(from + c), typename pack<C>::mask_native{} + where);
            so_far.value.store(s.value + c);
            pack<std::int32_t>(so_far.at).store(s.at + c);
          }
        }
        for (; c < width; ++c) s.offer(c, static_cast<C>(from[c]), where);
      }
    }
  };
  grid::template run<state>(ctx, reduce, [&](const state& s, index_t task) {
    for (index_t c = 0; c < grid::results(task); ++c) finish(grid::output(task) + c, s.value[c], s.at[c]);
  });
}

/// to (+)= value(pack offset, ...): walks all rows of the larger side. `value(at, out, n)` gives the pack for elements
/// at .. at+n-1, which belong to output `out` (the inner axis reduced) or to outputs out .. out+n-1.
template <class Plan, class T, class Value>
void spread(context<cpu>& ctx, T* to, bool accumulate, const Value& value) {
  using C = compute_type<T>;
  constexpr index_t rows = Plan::out_rows * Plan::steps;
  constexpr index_t pieces = reduction_grid<Plan>::pieces;
  constexpr index_t piece = reduction_grid<Plan>::piece;
  parallel_elements(ctx, rows * pieces, std::max<index_t>(1, (index_t{1} << 14) / std::min(piece, Plan::inner)),
                    [&](index_t first, index_t last) {
                      for (index_t u = first; u < last; ++u) {
                        const index_t r = u / pieces;
                        const index_t out_row = r / Plan::steps;
                        const index_t start = Plan::row(out_row, r % Plan::steps);
                        const index_t begin = u % pieces * piece;
                        const index_t end = std::min(Plan::inner, begin + piece);
                        for (index_t i = begin; i < end; i += lanes<C>) {
                          const index_t n = std::min<index_t>(lanes<C>, end - i);
                          pack<C> v = value(start + i, Plan::inner_reduced ? out_row : out_row * Plan::inner + i, n);
                          if (accumulate) v = v + load_up_to<C>(to + start + i, n);
                          store_up_to(v, to + start + i, n);
                        }
                      }
                    });
}
/// The pack of per-output values that goes with n elements, in the sense of spread.
template <class Plan, class C, class S>
GRADUS_INLINE pack<C> per_output(const S* from, index_t out, index_t n) {
  if constexpr (Plan::inner_reduced) return pack<C>(static_cast<C>(from[out]));
  else return load_up_to<C>(from + out, n);
}

}  // namespace cpu_kit::inline GRADUS_BUILD

template <class Axes, bool Keep, bool Mean>
struct kernel<op::sum<Axes, Keep, Mean>, cpu> {
  template <class TY, class Small, class T, class Big>
  static void forward(context<cpu>& ctx, view<TY, Small> y, view<const T, Big> x) {
    using plan = reduction_plan<Big, Small>;
    cpu_kit::sum_into<plan>(ctx, y.data(), x.data(), false, Mean ? 1.0 / static_cast<double>(plan::count) : 1.0);
  }
  template <class T, class Big, class TY, class Small>
  static void backward(context<cpu>& ctx, view<T, Big> dx, bool accumulate, view<const TY, Small> dy) {
    using plan = reduction_plan<Big, Small>;
    using C = compute_type<T>;
    const pack<C> factor(Mean ? 1.0 / static_cast<double>(plan::count) : 1.0);
    cpu_kit::spread<plan>(ctx, dx.data(), accumulate, [&](index_t, index_t out, index_t n) {
      return cpu_kit::per_output<plan, C>(dy.data(), out, n) * factor;
    });
  }
};

template <class Axes, bool Keep, bool Largest>
struct kernel<op::extremum<Axes, Keep, Largest>, cpu> {
  template <class T, class Small, class Big>
  static void forward(context<cpu>& ctx, view<T, Small> y, view<std::int32_t, Small> at, view<const T, Big> x) {
    cpu_kit::find_extremes<reduction_plan<Big, Small>, Largest>(ctx, x.data(),
                                                                [&](index_t i, auto value, std::int32_t place) {
                                                                  if (y.data() != nullptr) y[i] = static_cast<T>(value);
                                                                  if (at.data() != nullptr) at[i] = place;
                                                                });
  }
  template <class T, class Big, class TY, class Small>
  static void backward(context<cpu>& ctx, view<T, Big> dx, view<const TY, Small> dy,
                       view<const std::int32_t, Small> at) {
    using plan = reduction_plan<Big, Small>;
    using C = compute_type<T>;
    cpu_kit::parallel_elements(ctx, plan::outputs, 1 << 12, [&](index_t first, index_t last) {
      for (index_t o = first; o < last; ++o) {
        const auto place = static_cast<index_t>(at[o]);
        const index_t where = plan::inner_reduced ? plan::row(o, place / plan::inner) + place % plan::inner
                                                  : plan::row(o / plan::inner, place) + o % plan::inner;
        dx[where] = static_cast<T>(static_cast<C>(dx[where]) + static_cast<C>(dy[o]));
      }
    });
  }
};

template <class Axes, bool Keep>
struct kernel<op::variance<Axes, Keep>, cpu> {
  template <class TY, class Small, class C, class T, class Big>
  static void forward(context<cpu>& ctx, view<TY, Small> y, view<C, Small> mean, view<const T, Big> x) {
    using plan = reduction_plan<Big, Small>;
    constexpr double share = 1.0 / static_cast<double>(plan::count);
    cpu_kit::sum_into<plan>(ctx, mean.data(), x.data(), false, share);
    const auto square = [&](pack<C> v, index_t out, index_t n = lanes<C>) {
      const pack<C> d = v - cpu_kit::per_output<plan, C>(mean.data(), out, n);
      return d * d;
    };
    cpu_kit::sum_terms<plan, C>(ctx, x.data(), square,
                                [&](index_t i, double sum) { y[i] = static_cast<TY>(static_cast<C>(sum * share)); });
  }
  template <class TDX, class Big, class TY, class Small, class T, class C>
  static void backward(context<cpu>& ctx, view<TDX, Big> dx, bool accumulate, view<const TY, Small> dy,
                       view<const T, Big> x, view<const C, Small> mean) {
    using plan = reduction_plan<Big, Small>;
    const pack<C> factor(2.0 / static_cast<double>(plan::count));
    cpu_kit::spread<plan>(ctx, dx.data(), accumulate, [&](index_t at, index_t out, index_t n) {
      return factor * cpu_kit::per_output<plan, C>(dy.data(), out, n) *
             (cpu_kit::load_up_to<C>(x.data() + at, n) - cpu_kit::per_output<plan, C>(mean.data(), out, n));
    });
  }
};

}  // namespace gradus
