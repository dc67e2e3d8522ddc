#pragma once
// The CPU kernels of batch, group and instance norm. Sums are of runs first, in packs, then of the runs of a group, in
// double, in order: they do not depend on threads.

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "../../core/config.hpp"
#include "../../cpu/rows.hpp"
#include "../reduce/cpu_sums.hpp"
#include "channel_norm.hpp"

namespace gradus {

namespace cpu_kit::inline GRADUS_BUILD {

/// Adjacent groups or channels whose sums a task computes side by side.
inline constexpr index_t channel_strip = 64;

/// Calls f(o, a, b) for each output o of a strip, with the sums over begin <= k < end of the two numbers term(o, k).
template <class Term, class F>
GRADUS_INLINE void sum_strip(index_t first, index_t width, index_t begin, index_t end, const Term& term, const F& f) {
  double a[channel_strip] = {}, b[channel_strip] = {};
  for (index_t k = begin; k < end; ++k)
    for (index_t i = 0; i < width; ++i) {
      const auto [u, v] = term(first + i, k);
      a[i] += static_cast<double>(u);
      b[i] += static_cast<double>(v);
    }
  for (index_t i = 0; i < width; ++i) f(first + i, a[i], b[i]);
}
/// Calls f(first, width) for strips of `count` groups or channels.
template <class F>
void for_channel_strips(context<cpu>& ctx, index_t count, const F& f) {
  parallel_elements(ctx, (count + channel_strip - 1) / channel_strip, 1, [&](index_t first, index_t last) {
    for (index_t s = first * channel_strip; s < std::min(count, last * channel_strip); s += channel_strip)
      f(s, std::min(channel_strip, count - s));
  });
}
/// Calls finish(o, sums) with the sums over k < terms of the two numbers term(o, k), for each output o.
template <class Term, class Finish>
void sum_pairs(context<cpu>& ctx, index_t outputs, index_t terms, const Term& term, const Finish& finish) {
  for_channel_strips(ctx, outputs,
                     [=](index_t first, index_t width) { sum_strip(first, width, 0, terms, term, finish); });
}
/// sum_pairs for the columns of a matrix [batch, channels], whose elements are pages apart: adds up blocks of rows
/// first, whose sums are in `parts`, then the blocks.
template <class C, class Term, class Finish>
void sum_pairs_of_columns(context<cpu>& ctx, const channel_groups& of, C* parts, const Term& term,
                          const Finish& finish) {
  const index_t n = of.channels, block = std::max<index_t>(16, (of.batch + 63) / 64);
  parallel_ranges(ctx, of.batch, block, [=](index_t begin, index_t end) {
    C* const to = parts + begin / block * 2 * n;
    for (index_t s = 0; s < n; s += channel_strip)
      sum_strip(s, std::min(channel_strip, n - s), begin, end, term, [=](index_t channel, double a, double b) {
        to[channel] = static_cast<C>(a);
        to[n + channel] = static_cast<C>(b);
      });
  });
  const auto sums_of_block = [=](index_t channel, index_t k) {
    return std::pair(parts[2 * k * n + channel], parts[(2 * k + 1) * n + channel]);
  };
  sum_pairs(ctx, n, (of.batch + block - 1) / block, sums_of_block, finish);
}

/// The sum of term(x) over a run, in packs for 16 additions, then in double.
template <class C, class T, class Term>
double sum_of_run(const T* from, index_t n, const Term& term) {
  constexpr index_t piece = 64 * lanes<C>;
  double sum = 0;
  for (index_t i = 0; i < n; i += piece) sum += sum_run<C>(from + i, std::min(piece, n - i), term);
  return sum;
}

/// Moments [groups, 2]; `parts` has the mean and the sum of squared differences from it of each run.
template <class C, class T>
void find_moments(context<cpu>& ctx, C* moments, C* parts, const T* x, const channel_groups& of) {
  const double runs = static_cast<double>(of.runs_in_group()), length = static_cast<double>(of.length);
  const auto distance = [=](C mean, index_t group) {
    return (mean - moments[2 * group]) * (mean - moments[2 * group]);
  };
  const auto put_mean = [=](index_t group, double sum, double within) {
    moments[2 * group] = static_cast<C>(sum / runs);
    moments[2 * group + 1] = static_cast<C>(within / (runs * length));
  };
  const auto add_variance = [=](index_t group, double sum, double) {
    moments[2 * group + 1] += static_cast<C>(sum / runs);
  };
  if (of.are_columns()) {
    const auto element = [=, n = of.channels](index_t channel, index_t b) {
      return static_cast<C>(x[b * n + channel]);
    };
    sum_pairs_of_columns(
        ctx, of, parts, [=](index_t channel, index_t b) { return std::pair(element(channel, b), C(0)); }, put_mean);
    sum_pairs_of_columns(
        ctx, of, parts,
        [=](index_t channel, index_t b) { return std::pair(distance(element(channel, b), channel), C(0)); },
        add_variance);
    return;
  }
  for_rows(ctx, of.runs(), of.length, 1 << 14, [=](index_t run) {
    const T* const from = x + run * of.length;
    const C mean = static_cast<C>(sum_of_run<C>(from, of.length, [](pack<C> v) { return v; }) / length);
    const double squares = sum_of_run<C>(from, of.length, [=](pack<C> v) { return (v - mean) * (v - mean); });
    parts[run] = mean;
    parts[of.runs() + run] = static_cast<C>(squares);
  });
  sum_pairs(
      ctx, of.groups(), of.runs_in_group(),
      [=](index_t group, index_t i) {
        const index_t run = of.run_of(group, i);
        return std::pair(parts[run], parts[of.runs() + run]);
      },
      put_mean);
  sum_pairs(
      ctx, of.groups(), of.runs_in_group(),
      [=](index_t group, index_t i) { return std::pair(distance(parts[of.run_of(group, i)], group), C(0)); },
      add_variance);
}

/// Calls body(i, lanes, coefficients) over the elements of all runs in packs; `coefficients_of(run)` returns N numbers.
template <class C, std::size_t N, class Coefficients, class Body>
void for_runs_with(context<cpu>& ctx, const channel_groups& of, const Coefficients& coefficients_of, const Body& body) {
  using packs = std::array<pack<C>, N>;
  if (of.are_columns()) {
    parallel_elements(ctx, of.batch, 64, [=](index_t begin, index_t end) {
      for (index_t s = 0; s < of.channels; s += channel_strip) {
        const index_t width = std::min(channel_strip, of.channels - s);
        C table[N][channel_strip];
        for (index_t i = 0; i < width; ++i) {
          const std::array<C, N> one = coefficients_of(s + i);
          for (std::size_t k = 0; k < N; ++k) table[k][i] = one[k];
        }
        for (index_t b = begin; b < end; ++b)
          for_packs<C>(width, [&](index_t i, auto which) {
            packs all;
            for (std::size_t k = 0; k < N; ++k) all[k] = load<C>(table[k] + i, which);
            body(b * of.channels + s + i, which, all);
          });
      }
    });
  } else {
    for_rows(ctx, of.runs(), of.length, 1 << 14, [=](index_t run) {
      const std::array<C, N> one = coefficients_of(run);
      packs all;
      for (std::size_t k = 0; k < N; ++k) all[k] = pack<C>(one[k]);
      for_packs<C>(of.length, [&](index_t i, auto which) { body(run * of.length + i, which, all); });
    });
  }
}

/// Mean and 1 / sqrt(variance + eps) of a group.
template <class C, class M>
GRADUS_INLINE std::pair<C, C> mean_and_rstd(const group_moments<M>& m, index_t group, double eps) {
  return {static_cast<C>(m.mean(group)), C(1) / std::sqrt(static_cast<C>(m.variance(group)) + static_cast<C>(eps))};
}

template <class C, class TY, class T, class TW, class TB, class M>
void normalise_channels(context<cpu>& ctx, double eps, TY* y, const T* x, const TW* w, const TB* b,
                        const group_moments<M>& moments, const channel_groups& of) {
  for_runs_with<C, 3>(
      ctx, of,
      [=](index_t run) {
        const auto [mean, rstd] = mean_and_rstd<C>(moments, of.group_of(run), eps);
        const index_t channel = of.channel_of(run);
        return std::array{mean, rstd * static_cast<C>(w[channel]), static_cast<C>(b[channel])};
      },
      [=](index_t i, auto which, const std::array<pack<C>, 3>& by) {
        store((load<C>(x + i, which) - by[0]) * by[1] + by[2], y + i, which);
      });
}

/// The sums of dy and of dy x^ over each run, in parts [2, runs].
template <class C, class TY, class T, class M>
void sum_gradients_of_runs(context<cpu>& ctx, double eps, C* parts, const TY* dy, const T* x,
                           const group_moments<M>& moments, const channel_groups& of) {
  for_rows(ctx, of.runs(), of.length, 1 << 14, [=](index_t run) {
    const auto [mean, rstd] = mean_and_rstd<C>(moments, of.group_of(run), eps);
    const pack<C> middle(mean);
    const index_t start = run * of.length;
    double sum = 0, product = 0;
    for (index_t begin = 0; begin < of.length; begin += 64 * lanes<C>) {
      pack<C> a(0), b(0);
      for_packs<C>(std::min(64 * lanes<C>, of.length - begin), [&](index_t i, auto which) {
        const pack<C> d = load<C>(dy + start + begin + i, which);
        a = a + d;
        b = b + d * (load<C>(x + start + begin + i, which) - middle);
      });
      sum += static_cast<double>(sum_lanes(a));
      product += static_cast<double>(sum_lanes(b));
    }
    parts[run] = static_cast<C>(sum);
    parts[of.runs() + run] = static_cast<C>(product * static_cast<double>(rstd));
  });
}

/// `parts` [2, runs] and `means` [groups, 2] are scratch; null means: the moments are constants.
template <class C, class TDX, class TDW, class TDB, class TY, class T, class TW, class M>
void normalise_channels_backward(context<cpu>& ctx, double eps, elementwise_target<TDX> dx, elementwise_target<TDW> dw,
                                 elementwise_target<TDB> db, C* parts, C* means, const TY* dy, const T* x, const TW* w,
                                 const group_moments<M>& moments, const channel_groups& of) {
  const auto add = [](const auto& to, index_t channel, double sum) {
    using target = std::remove_cvref_t<decltype(*to.data)>;
    if (to.data == nullptr) return;
    const double before = to.accumulate ? static_cast<double>(static_cast<C>(to.data[channel])) : 0;
    to.data[channel] = static_cast<target>(static_cast<C>(before + sum));
  };
  const double share = 1.0 / static_cast<double>(of.elements_in_group());
  // Of the sums over a channel, of dy and of dy x^; if the channels are the groups, also the means.
  const auto put_channel = [=](index_t channel, double sum, double product) {
    if (of.over_batch() && means != nullptr) {
      const double weight = static_cast<double>(static_cast<C>(w[channel])) * share;
      means[2 * channel] = static_cast<C>(sum * weight);
      means[2 * channel + 1] = static_cast<C>(product * weight);
    }
    add(dw, channel, product);
    add(db, channel, sum);  // after dw: one parameter may be both
  };
  if (of.are_columns()) {
    const auto term = [=, n = of.channels](index_t channel, index_t b) {
      const C d = static_cast<C>(dy[b * n + channel]);
      return std::pair(d, d * (static_cast<C>(x[b * n + channel]) - static_cast<C>(moments.mean(channel))));
    };
    sum_pairs_of_columns(ctx, of, parts, term, [=](index_t channel, double sum, double product) {
      put_channel(channel, sum, product * static_cast<double>(mean_and_rstd<C>(moments, channel, eps).second));
    });
  } else {
    sum_gradients_of_runs(ctx, eps, parts, dy, x, moments, of);
    sum_pairs(
        ctx, of.channels, of.batch,
        [=](index_t channel, index_t b) {
          const index_t run = b * of.channels + channel;
          return std::pair(parts[run], parts[of.runs() + run]);
        },
        put_channel);
  }
  if (dx.data == nullptr) return;
  if (!of.over_batch() && means != nullptr)
    sum_pairs(
        ctx, of.groups(), of.runs_in_group(),
        [=](index_t group, index_t i) {
          const index_t run = of.run_of(group, i);
          const C weight = static_cast<C>(w[of.channel_of(run)]);
          return std::pair(weight * parts[run], weight * parts[of.runs() + run]);
        },
        [=](index_t group, double sum, double product) {
          means[2 * group] = static_cast<C>(sum * share);
          means[2 * group + 1] = static_cast<C>(product * share);
        });
  for_runs_with<C, 4>(
      ctx, of,
      [=](index_t run) {  // dx = rstd (dy w - mean(g) - x^ mean(g x^))
        const index_t group = of.group_of(run);
        const auto [mean, rstd] = mean_and_rstd<C>(moments, group, eps);
        const C mean_g = means == nullptr ? C(0) : means[2 * group];
        const C mean_gx = means == nullptr ? C(0) : means[2 * group + 1];
        return std::array{mean, rstd * static_cast<C>(w[of.channel_of(run)]), -rstd * rstd * mean_gx, -rstd * mean_g};
      },
      [=](index_t i, auto which, const std::array<pack<C>, 4>& by) {
        const pack<C> distance = load<C>(x + i, which) - by[0];
        put(load<C>(dy + i, which) * by[1] + (distance * by[2] + by[3]), dx.data + i, dx.accumulate, which);
      });
}

}  // namespace cpu_kit::inline GRADUS_BUILD

template <>
struct kernel<op::channel_moments<0>, cpu> {
  template <class C, class T>
  static void forward(context<cpu>& ctx, C* moments, C* parts, const T* x, const channel_groups& groups) {
    cpu_kit::find_moments(ctx, moments, parts, x, groups);
  }
};

template <>
struct kernel<op::channel_norm<0>, cpu> {
  template <class TY, class T, class TW, class TB, class M>
  static void forward(context<cpu>& ctx, double eps, TY* y, const T* x, const TW* w, const TB* b,
                      const group_moments<M>& moments, const channel_groups& groups) {
    using C = compute_type<promote<TY, T>>;
    cpu_kit::normalise_channels<C>(ctx, eps, y, x, w, b, moments, groups);
  }
  template <class TDX, class TDW, class TDB, class C, class TY, class T, class TW, class M>
  static void backward(context<cpu>& ctx, double eps, elementwise_target<TDX> dx, elementwise_target<TDW> dw,
                       elementwise_target<TDB> db, C* parts, C* means, const TY* dy, const T* x, const TW* w,
                       const group_moments<M>& moments, const channel_groups& groups) {
    cpu_kit::normalise_channels_backward(ctx, eps, dx, dw, db, parts, means, dy, x, w, moments, groups);
  }
};

template <>
struct kernel<op::running_moment, cpu> {
  template <class T, class M>
  static void forward(context<cpu>&, T* next, const T* running, const M* moments, index_t which, double momentum,
                      double factor, index_t channels) {
    using C = compute_type<promote<T, M>>;
    const C share = static_cast<C>(momentum), rest = static_cast<C>(1 - momentum), by = static_cast<C>(factor);
    for (index_t c = 0; c < channels; ++c)
      next[c] =
          static_cast<T>(rest * static_cast<C>(running[c]) + share * (by * static_cast<C>(moments[2 * c + which])));
  }
};

}  // namespace gradus
