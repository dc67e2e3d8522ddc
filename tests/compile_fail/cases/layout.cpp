#include <gradus/gradus.hpp>

namespace gr = gradus;
template <gr::index_t... Extents>
using tensor = gr::tensor<float, gr::shape<Extents...>>;

// case: concat_shapes
// expect: concat<axis>\(a, b, \.\.\.\): the shapes must be equal on every other axis
// expect: shape<2, 3>, (gradus::)?shape<2, 4>
auto f(const tensor<2, 3>& a, const tensor<2, 4>& b) { return gr::concat<0>(a, b); }
// twin
auto f(const tensor<2, 3>& a, const tensor<5, 3>& b) { return gr::concat<0>(a, b); }

// case: expand_as_shapes
// expect: expand_as\(x, y\): the shape of x must broadcast to that of y
auto f(const tensor<3>& x, const tensor<gr::upto<9>, 4>& y) { return gr::expand_as(x, y); }
// twin
auto f(const tensor<4>& x, const tensor<gr::upto<9>, 4>& y) { return gr::expand_as(x, y); }

// case: expand_shapes
// expect: expand<extents\.\.\.>\(x\): the shape of x must broadcast to the new one: each extent of x is 1 or the same
// expect: shape_broadcasts_to<(gradus::)?shape<2(UL)?, 3(UL)?>, (gradus::)?shape<4(UL)?, 3(UL)?> ?>
auto f(const tensor<2, 3>& x) { return gr::expand<4, 3>(x); }
// twin
auto f(const tensor<1, 3>& x) { return gr::expand<4, 3>(x); }

// case: pad_of_a_negative_count
// expect: pad<axis, before, after>\(x, value\): before and after must be at least 0; slice removes entries
// expect: counts_are_not_negative<-1(L)?, 0(L)?>
auto f(const tensor<3, 4>& x) { return gr::pad<1, -1, 0>(x); }
// twin
auto f(const tensor<3, 4>& x) { return gr::pad<1, 1, 0>(x); }

// case: permute_of_another_rank
// expect: permute<order\.\.\.>\(x\): the order must name each axis of x once
// expect: shape<2, 3>, 1(U?L)?, 0(U?L)?, 2(U?L)?>
auto f(const tensor<2, 3>& x) { return gr::permute<1, 0, 2>(x); }
// twin
auto f(const tensor<2, 3>& x) { return gr::permute<1, 0>(x); }

// case: permute_order
// expect: permute<order\.\.\.>\(x\): the order must name each axis of x once
// expect: shape<2, 3>, 0(U?L)?, 0(U?L)?>
auto f(const tensor<2, 3>& x) { return gr::permute<0, 0>(x); }
// twin
auto f(const tensor<2, 3>& x) { return gr::permute<1, 0>(x); }

// case: reshape_of_minus_one
// expect: reshape<extents\.\.\.>\(x\): the product of the other extents must divide the number of elements of x
// expect: others_divide_elements<6(UL)?, 4(UL)?>
// expect-lines: 17
auto f(const tensor<2, 3>& x) { return gr::reshape<-1, 4>(x); }
// twin
auto f(const tensor<2, 3>& x) { return gr::reshape<-1, 2>(x); }

// case: reshape_of_two_open_extents
// expect: reshape<extents\.\.\.>\(x\): one extent may be -1, which is inferred; the others must be at least 1
// expect: one_extent_is_open<-1, -1>
// expect-lines: 17
auto f(const tensor<2, 3>& x) { return gr::reshape<-1, -1>(x); }
// twin
auto f(const tensor<2, 3>& x) { return gr::reshape<3, -1>(x); }

// case: reshape_size
// expect: reshape<extents\.\.\.>\(x\): the new shape must have as many elements as x
// expect: elements_equal<8(UL)?, 6(UL)?>
auto f(const tensor<2, 4>& x) { return gr::reshape<2, 3>(x); }
// twin
auto f(const tensor<6>& x) { return gr::reshape<2, 3>(x); }

// case: slice_axis
// expect: slice<axis, first, count>\(x\): x has no such axis
// expect: axis_exists<2(UL)?, 2(UL)?>
auto f(const tensor<2, 3>& x) { return gr::slice<2, 0, 1>(x); }
// twin
auto f(const tensor<2, 3>& x) { return gr::slice<1, 0, 1>(x); }

// case: slice_end
// expect: slice<axis, first, count>\(x\): first \+ count must be within the axis of x
// expect: ends_within<4(UL)?, 3(UL)?>
auto f(const tensor<2, 3>& x) { return gr::slice<1, 2, 2>(x); }
// twin
auto f(const tensor<2, 3>& x) { return gr::slice<1, 2, 1>(x); }

// case: slice_of_a_negative_position
// expect: slice<axis, first, count>\(x\): first and count must be positive
auto f(const tensor<2, 3>& x) { return gr::slice<-1, -2, 2>(x); }
// twin
auto f(const tensor<2, 3>& x) { return gr::slice<-1, 1, 2>(x); }

// case: split_sizes
// expect: split<axis, sizes\.\.\.>\(x\): the sizes must add up to the axis of x
// expect: elements_equal_extent<5(UL)?, 6(UL)?>
auto f(const tensor<2, 6>& x) { return gr::split<1, 2, 3>(x); }
// twin
auto f(const tensor<2, 6>& x) { return gr::split<1, 2, 4>(x); }

// case: stack_shapes
// expect: stack<axis>\(a, b, \.\.\.\): the shapes must be equal; concat<axis> joins others
// expect: stacked_shapes_are_equal<(gradus::)?shape<2(UL)?, 3(UL)?>, (gradus::)?shape<2(UL)?, 4(UL)?> ?>
auto f(const tensor<2, 3>& a, const tensor<2, 4>& b) { return gr::stack<0>(a, b); }
// twin
auto f(const tensor<2, 3>& a, const tensor<2, 3>& b) { return gr::stack<0>(a, b); }
