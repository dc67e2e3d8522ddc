#include <gradus/gradus.hpp>

namespace gr = gradus;
template <gr::index_t... Extents>
using tensor = gr::tensor<float, gr::shape<Extents...>>;

// case: cumsum_axis
// expect: cumsum<axis>\(x\): x has no such axis
auto f(const tensor<2, 3>& x) { return gr::cumsum<2>(x); }
// twin
auto f(const tensor<2, 3>& x) { return gr::cumsum<-2>(x); }

// case: max_axis
// expect: sum<axes\.\.\.>\(x\) and other reductions: x has no such axis
// expect: axes_exist<(gradus::)?axes<-3>, 2
auto f(const tensor<2, 3>& x) { return gr::max<-3>(x); }
// twin
auto f(const tensor<2, 3>& x) { return gr::max<-2>(x); }

// case: mean_of_integers
// expect: mean\(x\): x must have floating-point elements
auto f(const gr::tensor<std::int32_t, gr::shape<4>>& x) { return gr::mean(x); }
// twin
auto f(const tensor<4>& x) { return gr::mean(x); }

// case: prod_axis
// expect: prod<axes...>\(x\): x has no such axis, or it is named twice
auto f(const tensor<2, 3>& x) { return gr::prod<1, -1>(x); }
// twin
auto f(const tensor<2, 3>& x) { return gr::prod<0, 1>(x); }

// case: sum_axis
// expect: sum<axes\.\.\.>\(x\) and other reductions: x has no such axis
// expect: axes_exist<(gradus::)?axes<2>, 2
auto f(const tensor<2, 3>& x) { return gr::sum<2>(x); }
// twin
auto f(const tensor<2, 3>& x) { return gr::sum<-1>(x); }

// case: sum_of_an_argument
// expect: sum<axes\.\.\.>\(x\) and other reductions: axes are template arguments, as in sum<0, -1>\(x, keep_axes\)
// expect-lines: 18
auto f(const tensor<4, 8>& x) { return gr::sum(x, 0); }
// twin
auto f(const tensor<4, 8>& x) { return gr::sum<0>(x); }

// case: sum_of_an_axis_twice
// expect: sum<axes\.\.\.>\(x\) and other reductions: x has no such axis, or it is named twice
// expect: axes_exist<(gradus::)?axes<1, -1>, 2
auto f(const tensor<2, 3>& x) { return gr::sum<1, -1>(x); }
// twin
auto f(const tensor<2, 3>& x) { return gr::sum<1, 0>(x); }
