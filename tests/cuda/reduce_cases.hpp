#pragma once
#include "../ops/reduce.hpp"
#include "cases.hpp"

template <class D>
void reduce_cases(runner<D>& r) {
  gradus_test::reduce_table(r);
  std::vector<double> factors(3 * 1601, 1.0);  // a row without zeros, one with one, and one with two
  factors[1601 + 700] = factors[2 * 1601 + 5] = factors[2 * 1601 + 1600] = 0;
  const auto zeros = gr::from_values<double, gr::shape<3, 1601>>(r.ctx(), factors);
  r.template differentiate<double, gr::shape<3, 1601>>(
      "prod of long rows, zeros", [&](auto x) { return gr::prod<-1>(x * zeros); }, 0.99, 1.01);
  r.template differentiate<float, gr::shape<33, 7>>(
      "prod, zeros", [](auto x) { return gr::prod<-1>(gr::clamp(x, 0, 2) + 0.0 * x); }, -0.3, 2);

  auto& ctx = r.ctx();
  {
    const auto x = gr::from_values<std::int32_t, gr::shape<2, 3>>(ctx, {3, -1, 2147483647, 5, 0, -7});
    r.keep("prod of integers", gr::to_host(gr::prod<1>(x)), 0x1p-50);
    r.keep("cumsum of integers", gr::to_host(gr::cumsum<1>(x)), 0x1p-50);
    r.keep("cumsum of columns of integers", gr::to_host(gr::cumsum<0>(x)), 0x1p-50);
  }
  using cube = gr::shape<7, 9, 21>;
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
