// The table of reductions, products and running sums.
#pragma once

#include <gradus/ops/cumsum/cumsum.hpp>
#include <gradus/ops/logsumexp/logsumexp.hpp>
#include <gradus/ops/prod/prod.hpp>
#include <gradus/ops/reduce/deviation.hpp>
#include <gradus/ops/reduce/reduce.hpp>

#include <cmath>
#include <cstddef>
#include <vector>

#include "../support/reference.hpp"
#include "drawn.hpp"

namespace gradus_test {

/// Calls each(name, f, reference, how) for all reductions of S over Axes...
template <class S, std::ptrdiff_t... Axes, class F>
void each_reduction(const F& each) {
  namespace gr = gradus;
  using group = std::vector<std::size_t>;
  group axes;
  for (std::size_t a = 0; a < S::rank; ++a)
    if (gr::axes<Axes...>::contains(a, S::rank)) axes.push_back(a);
  const auto over = [=](auto of_group) {
    return [=](const std::vector<values>& of) {
      values y;
      for (const group& g : reference::groups({S::extents.begin(), S::extents.end()}, axes))
        y.push_back(of_group(of[0], g));
      return y;
    };
  };
  const auto mean = [](const values& x, const group& g) {
    return reference::sum_of(x, g) / static_cast<double>(g.size());
  };
  const auto largest = [](const values& x, const group& g) { return x[g[reference::largest_of(x, g)]]; };
  const auto smallest = [](const values& x, const group& g) { return x[g[reference::smallest_of(x, g)]]; };
  each(
      "sum", [](auto x) { return gr::sum<Axes...>(x, gr::keep_axes); }, over(reference::sum_of), drawn{});
  each(
      "mean", [](auto x) { return gr::mean<Axes...>(x); }, over(mean), drawn{});
  each(
      "variance", [](auto x) { return gr::variance<Axes...>(x); }, over(reference::variance_of), drawn{});
  each(
      "max", [](auto x) { return gr::max<Axes...>(x); }, over(largest), drawn{.apart = true, .halves = false});
  each(
      "min", [](auto x) { return gr::min<Axes...>(x, gr::keep_axes); }, over(smallest),
      drawn{.apart = true, .halves = false});
}

template <class R>
void reduce_table(R& r) {
  namespace gr = gradus;
  const auto everywhere = [&]<class S>(S) { return [&](const auto&... of) { r.template hold<S>(of...); }; };
  const auto here = [&]<class S>(S) { return [&](const auto&... of) { r.template also<S>(of...); }; };
  const auto large = [&]<class S>(S) { return [&](const auto&... of) { r.template large<S>(of...); }; };
  each_reduction<gr::shape<3, 5, 7>, 1>(everywhere(gr::shape<3, 5, 7>{}));
  each_reduction<gr::shape<2, 3, 19>, 0, 2>(everywhere(gr::shape<2, 3, 19>{}));
  each_reduction<gr::shape<1>>(here(gr::shape<1>{}));
  each_reduction<gr::shape<19>>(here(gr::shape<19>{}));
  each_reduction<gr::shape<33, 67>, 0>(here(gr::shape<33, 67>{}));
  each_reduction<gr::shape<3, 19>, -1>(here(gr::shape<3, 19>{}));
  each_reduction<gr::shape<5, 7, 9, 3>, 1, 3>(here(gr::shape<5, 7, 9, 3>{}));
  each_reduction<gr::shape<5, 1, 9, 3>, 0, 2>(here(gr::shape<5, 1, 9, 3>{}));
  each_reduction<gr::shape<2, 3, 66>, 0, 2>(here(gr::shape<2, 3, 66>{}));  // rows that one number goes along with
  // Where work is cut into chunks; in the last, some are so short that they begin with an extreme.
  each_reduction<gr::shape<200003>>(large(gr::shape<200003>{}));
  each_reduction<gr::shape<30011, 5>, 0>(large(gr::shape<30011, 5>{}));
  each_reduction<gr::shape<2, 40009>, 1>(large(gr::shape<2, 40009>{}));
  each_reduction<gr::shape<1009, 3, 67>, 0, 2>(large(gr::shape<1009, 3, 67>{}));
  each_reduction<gr::shape<600, 128>, 0>(large(gr::shape<600, 128>{}));

  // On a GPU: in one stage and in two.
  r.template on_gpu<float, gr::shape<70001>>("sum of many", [](auto x) { return gr::sum(x * x); });
  r.template on_gpu<float, gr::shape<3001, 5>>("columns, odd", [](auto x) { return gr::mean<0>(x); });
  r.template on_gpu<float, gr::shape<900, 264>>("columns", [](auto x) { return gr::sum<0>(x); });
  r.template on_gpu<float, gr::shape<2, 5000, 3>>("a middle axis", [](auto x) { return gr::sum<1>(x); });
  r.template on_gpu<double, gr::shape<3, 5001>>("rows", [](auto x) { return gr::mean<1>(x); });
  r.template on_gpu<gr::bf16, gr::shape<33, 40>>("rows, bf16", [](auto x) { return gr::sum<1>(x); });
  using cube = gr::shape<7, 9, 21>;
  r.template on_gpu<float, cube>("max of axis 2", [](auto x) { return gr::max<2>(x, gr::keep_axes); });
  r.template on_gpu<float, cube>("min", [](auto x) { return gr::min(x); });
  r.template on_gpu<gr::f16, cube>("max of axes 0 and 2, f16", [](auto x) { return gr::max<0, 2>(x); });
  r.template on_gpu<float, cube>("variance of axis 0", [](auto x) { return gr::variance<0>(x); });
  r.template on_gpu<float, cube>("variance of axis 2", [](auto x) { return gr::variance<2>(x); });
  r.template on_gpu<double, cube>("variance", [](auto x) { return gr::variance(x); });
  r.template on_gpu<float, gr::shape<70001>>("max of many", [](auto x) { return gr::max(x); });
  r.template on_gpu<gr::bf16, gr::shape<3001, 5>>("min of columns", [](auto x) { return gr::min<0>(x); });
  r.template on_gpu<float, gr::shape<2, 5000, 3>>("max of a middle axis", [](auto x) { return gr::max<1>(x); });
  r.template on_gpu<float, gr::shape<70001>>("variance of many", [](auto x) { return gr::variance(x); });
  r.template on_gpu<float, gr::shape<900, 264>>("variance of columns", [](auto x) { return gr::variance<0>(x); });
  r.template on_gpu<gr::bf16, gr::shape<33, 41>>("variance of rows, bf16", [](auto x) { return gr::variance<1>(x); });

  const auto product = [](const std::vector<values>& of) {
    double all = 1;
    for (const double v : of[0]) all *= v;
    return values{all};
  };
  const auto running = [](const std::vector<values>& of) {  // along the last axis, of 19
    values y = of[0];
    for (std::size_t i = 0; i < y.size(); ++i)
      if (i % 19 != 0) y[i] += y[i - 1];
    return y;
  };
  using box = gr::shape<3, 2, 19>;
  r.template hold<gr::shape<37>>("prod", [](auto x) { return gr::prod(x); }, product, {.low = 0.8, .high = 1.2});
  r.template hold<box>("prod of axes 0 and 2", [](auto x) { return gr::prod<0, 2>(x); }, {}, {.low = 0.9, .high = 1.1});
  r.template hold<box>("standard_deviation", [](auto x) { return gr::standard_deviation<0, 2>(x, gr::keep_axes); });
  r.template hold<box>(
      "cumsum", [](auto x) { return gr::cumsum<-1>(x); }, running);
  r.template hold<box>("cumsum of axis 1", [](auto x) { return gr::cumsum<1>(x); });
  r.template hold<box>("logsumexp of axes 1 and 0", [](auto x) { return gr::logsumexp<1, 0>(x, gr::keep_axes); });
  r.template on_gpu<float, gr::shape<5, 101>>("cumsum of rows",
                                              [](auto x) { return gr::cumsum<-1>(x) + gr::cumsum<1>(x * x); });
  r.template on_gpu<gr::f16, gr::shape<3, 33>>("cumsum, f16", [](auto x) { return gr::cumsum<-1>(x); });
}

}  // namespace gradus_test
