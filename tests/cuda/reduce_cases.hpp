#pragma once
#include <gradus/ops/cumsum/cumsum.hpp>
#include <gradus/ops/logsumexp/logsumexp.hpp>
#include <gradus/ops/prod/prod.hpp>
#include <gradus/ops/reduce/deviation.hpp>
#include <gradus/ops/reduce/reduce.hpp>

#include "cases.hpp"

template <class D>
void reduce_cases(runner<D>& r) {
  // sums in one stage and in two
  r.template differentiate<float, gr::shape<70001>>("sum of many", [](auto x) { return gr::sum(x * x); });
  r.template differentiate<float, gr::shape<3001, 5>>("columns, odd", [](auto x) { return gr::mean<0>(x); });
  r.template differentiate<float, gr::shape<900, 264>>("columns", [](auto x) { return gr::sum<0>(x); });
  r.template differentiate<float, gr::shape<2, 5000, 3>>("a middle axis", [](auto x) { return gr::sum<1>(x); });
  r.template differentiate<double, gr::shape<3, 5001>>("rows", [](auto x) { return gr::mean<1>(x); });
  r.template differentiate<gr::bf16, gr::shape<33, 40>>("rows, bf16", [](auto x) { return gr::sum<1>(x); });

  using cube = gr::shape<7, 9, 21>;
  const auto largest = [](auto x) { return gr::max<1>(x) * 2.0; };
  r.template differentiate<float, cube>("max of axis 1", largest);
  r.template differentiate<float, cube>("max of axis 2", [](auto x) { return gr::max<2>(x, gr::keep_axes); });
  r.template differentiate<float, cube>("min", [](auto x) { return gr::min(x); });
  r.template differentiate<gr::f16, cube>("max of axes 0 and 2, f16", [](auto x) { return gr::max<0, 2>(x); });
  r.template differentiate<float, cube>("variance of axis 0", [](auto x) { return gr::variance<0>(x); });
  r.template differentiate<float, cube>("variance of axis 2", [](auto x) { return gr::variance<2>(x); });
  r.template differentiate<double, cube>("variance", [](auto x) { return gr::variance(x); });
  // chosen and summed in two stages
  r.template differentiate<float, gr::shape<70001>>("max of many", [](auto x) { return gr::max(x); });
  r.template differentiate<gr::bf16, gr::shape<3001, 5>>("min of columns", [](auto x) { return gr::min<0>(x); });
  r.template differentiate<float, gr::shape<2, 5000, 3>>("max of a middle axis", [](auto x) { return gr::max<1>(x); });
  r.template differentiate<float, gr::shape<70001>>("variance of many", [](auto x) { return gr::variance(x); });
  r.template differentiate<float, gr::shape<900, 264>>("variance of columns",
                                                       [](auto x) { return gr::variance<0>(x); });
  r.template differentiate<gr::bf16, gr::shape<33, 41>>("variance of rows, bf16",
                                                        [](auto x) { return gr::variance<1>(x); });

  r.template differentiate<float, cube>(
      "prod", [](auto x) { return gr::prod<0, 2>(x); }, 0.9, 1.1);
  std::vector<double> factors(3 * 1601, 1.0);  // a row without zeros, one with one, and one with two
  factors[1601 + 700] = factors[2 * 1601 + 5] = factors[2 * 1601 + 1600] = 0;
  const auto zeros = gr::from_values<double, gr::shape<3, 1601>>(r.ctx(), factors);
  r.template differentiate<double, gr::shape<3, 1601>>(
      "prod of long rows, zeros", [&](auto x) { return gr::prod<-1>(x * zeros); }, 0.99, 1.01);
  r.template differentiate<float, gr::shape<33, 7>>(
      "prod, zeros", [](auto x) { return gr::prod<-1>(gr::clamp(x, 0, 2) + 0.0 * x); }, -0.3, 2);
  r.template differentiate<gr::bf16, cube>("standard deviation", [](auto x) { return gr::standard_deviation<1>(x); });
  r.template differentiate<float, cube>("logsumexp of axis 1", [](auto x) { return gr::logsumexp<1>(x); });
  r.template differentiate<float, cube>("cumsum of axis 0", [](auto x) { return gr::cumsum<0>(x * x) * x; });
  r.template differentiate<float, gr::shape<5, 101>>("cumsum of rows",
                                                     [](auto x) { return gr::cumsum<-1>(x) + gr::cumsum<1>(x * x); });
  r.template differentiate<gr::f16, gr::shape<3, 33>>("cumsum, f16", [](auto x) { return gr::cumsum<-1>(x); });

  auto& ctx = r.ctx();
  {
    const auto x = gr::from_values<std::int32_t, gr::shape<2, 3>>(ctx, {3, -1, 2147483647, 5, 0, -7});
    r.keep("prod of integers", gr::to_host(gr::prod<1>(x)), 0x1p-50);
    r.keep("cumsum of integers", gr::to_host(gr::cumsum<1>(x)), 0x1p-50);
    r.keep("cumsum of columns of integers", gr::to_host(gr::cumsum<0>(x)), 0x1p-50);
  }
  auto values = r.template random<float>(cube::size, 0, 4);
  for (float& v : values) v = static_cast<float>(static_cast<int>(v));  // many that are equal: the first counts
  values[100] = values[130] = std::nanf("");
  const auto x = gr::from_host<float, cube>(ctx, values.data());
  r.keep("argmax", gr::to_host(gr::argmax(x)), 0x1p-30);
  r.keep("argmin", gr::to_host(gr::argmin<1>(x)), 0x1p-30);
  r.keep("argmax of axis 0", gr::to_host(gr::argmax<0>(x)), 0x1p-30);
  r.keep("argmax of axes 1 and 2", gr::to_host(gr::argmax<1, 2>(x)), 0x1p-30);

  using many = gr::shape<5003, 7>;
  auto more = r.template random<float>(many::size, 0, 900);
  for (float& v : more) v = static_cast<float>(static_cast<int>(v));
  const auto y = gr::from_host<float, many>(ctx, more.data());
  r.keep("argmax of many", gr::to_host(gr::argmax(y)), 0x1p-30);
  r.keep("argmax of long columns", gr::to_host(gr::argmax<0>(y)), 0x1p-30);
  more[20000] = more[30000] = std::nanf("");
  const auto z = gr::from_host<float, many>(ctx, more.data());
  r.keep("argmax of many, with NaN", gr::to_host(gr::argmax(z)), 0x1p-30);
}

// Computed in the .cpp file.
std::vector<record> reduce_on_cpu(unsigned seed);
