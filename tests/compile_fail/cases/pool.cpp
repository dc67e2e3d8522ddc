#include <gradus/gradus.hpp>

namespace gr = gradus;
template <gr::index_t... Extents>
using tensor = gr::tensor<float, gr::shape<Extents...>>;

// case: adaptive_pool_of_a_bounded_axis
// expect: adaptive pooling\(x\): there must be an output, and the extents of pooled axes are numbers, not upto<N>
auto f(const tensor<1, 3, 4, gr::upto<4>>& x) { return gr::adaptive_avg_pool2d<1, 1>(x); }
// twin
auto f(const tensor<gr::upto<4>, 3, 4, 4>& x) { return gr::adaptive_avg_pool2d<1, 1>(x); }

// case: avg_pool_rank
// expect: pooling\(x\): images have the axes \[B, C, H, W\]
auto f(const tensor<3, 4, 4>& x) { return gr::avg_pool2d<gr::pool{.size = 2}>(x); }
// twin
auto f(const tensor<1, 3, 4, 4>& x) { return gr::avg_pool2d<gr::pool{.size = 2}>(x); }

// case: max_pool1d_rank
// expect: pooling\(x\): sequences have the axes \[B, C, L\]
auto f(const tensor<3, 4>& x) { return gr::max_pool1d<gr::pool{.size = 2}>(x); }
// twin
auto f(const tensor<1, 3, 4>& x) { return gr::max_pool1d<gr::pool{.size = 2}>(x); }

// case: max_pool_of_integers
// expect: pooling\(x\): x must have floating-point elements
auto f(const gr::tensor<std::int32_t, gr::shape<1, 3, 4, 4>>& x) { return gr::max_pool2d<gr::pool{.size = 2}>(x); }
// twin
auto f(const tensor<1, 3, 4, 4>& x) { return gr::max_pool2d<gr::pool{.size = 2}>(x); }

// case: max_pool_window
// expect: pooling\(x\): a window must fit the padded axis, whose extent is a number, not upto<N>; padding is at most half of its size
// expect(g++): window_fits<3(UL)?, 4(UL)?, 0(UL)?>
auto f(const tensor<2, 3, 3, 3>& x) { return gr::max_pool2d<gr::pool{.size = 4}>(x); }
// twin
auto f(const tensor<2, 3, 3, 3>& x) { return gr::max_pool2d<gr::pool{.size = 3}>(x); }
