#include <doctest/doctest.h>

#include <tuple>
#include <vector>

#include "../../support/operands.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {

void check_outcome(const outcome& found, const outcome& wanted, double tolerance) {
  CHECK(worst_error(found.y, wanted.y) < tolerance);
  for (std::size_t i = 0; i < wanted.gradients.size(); ++i) {
    CAPTURE(i);
    CHECK(worst_error(found.gradients[i], wanted.gradients[i]) < tolerance);
  }
}
template <class T>
constexpr double tolerance = sizeof(T) == 2 ? 1e-2 : 1e-5;

constexpr reference::convolution reference_of(gr::conv o, const auto& x, const auto& w) {
  return {x[0],       x[1],       x[2],        x[3],        w[0],         w[2],         w[3],
          o.stride.y, o.stride.x, o.padding.y, o.padding.x, o.dilation.y, o.dilation.x, o.groups};
}

template <class T, gr::conv Options, class X, class W>
void check() {
  workplace at;
  const auto x = normal<T, X>(at.ctx);
  const auto w = normal<T, W>(at.ctx);
  const auto b = normal<T, gr::shape<W::extent(0)>>(at.ctx);
  const auto f = [](auto v, auto m, auto s) { return gr::conv2d<Options>(v, m, s); };
  const auto dy = normal<T, gr::shape_of<decltype(f(x, w, b))>>(at.ctx);
  const auto run = [&](int count) {
    const threads n(at.ctx, count);
    return evaluate(at.ctx, f, dy, x, w, b);
  };
  const auto found = run(1);
  check_outcome(
      numbers(found),
      reference::conv(reference_of(Options, X::extents, W::extents), numbers(x), numbers(w), numbers(b), numbers(dy)),
      tolerance<T>);
  const auto on_four = run(4);
  CHECK(same_bits(found.y, on_four.y));
  CHECK(same_bits(std::get<0>(found.gradients), std::get<0>(on_four.gradients)));
  CHECK(same_bits(std::get<1>(found.gradients), std::get<1>(on_four.gradients)));
  CHECK(same_bits(std::get<2>(found.gradients), std::get<2>(on_four.gradients)));
}

template <class T, gr::conv_transpose Options, class X, class W>
void check_transposed() {
  workplace at;
  const auto x = normal<T, X>(at.ctx);
  const auto w = normal<T, W>(at.ctx);
  const auto b = normal<T, gr::shape<W::extent(1) * Options.groups>>(at.ctx);
  const auto f = [](auto v, auto m, auto s) { return gr::conv_transpose2d<Options>(v, m, s); };
  using Y = gr::shape_of<decltype(f(x, w, b))>;
  const auto dy = normal<T, Y>(at.ctx);
  constexpr gr::conv inverse{Options.stride, Options.padding, Options.dilation, Options.groups};
  const auto wanted = reference::conv_transpose(reference_of(inverse, Y::extents, W::extents), numbers(x), numbers(w),
                                                numbers(b), numbers(dy));
  check_outcome(numbers(evaluate(at.ctx, f, dy, x, w, b)), wanted, tolerance<T>);
}

}  // namespace

TEST_CASE("conv2d and its gradients agree with plain loops, and have the same bits on any number of threads") {
  check<float, gr::conv{}, gr::shape<1, 1, 1, 1>, gr::shape<1, 1, 1, 1>>();
  check<float, gr::conv{}, gr::shape<1, 1, 5, 5>, gr::shape<1, 1, 3, 2>>();
  check<float, gr::conv{.padding = 1}, gr::shape<3, 5, 4, 4>, gr::shape<17, 5, 3, 3>>();
  check<float, gr::conv{.padding = {3, 0}}, gr::shape<2, 3, 9, 37>, gr::shape<7, 3, 5, 4>>();
  check<float, gr::conv{.stride = 2, .padding = 1}, gr::shape<2, 5, 17, 16>, gr::shape<9, 5, 3, 3>>();
  check<float, gr::conv{.stride = {2, 3}, .padding = 2, .dilation = {1, 2}}, gr::shape<2, 3, 11, 13>,
        gr::shape<5, 3, 4, 3>>();
  check<float, gr::conv{.stride = {4, 2}, .dilation = {6, 4}}, gr::shape<2, 2, 21, 13>, gr::shape<3, 2, 3, 3>>();
  check<float, gr::conv{.stride = 3}, gr::shape<2, 6, 7, 8>, gr::shape<4, 6, 1, 1>>();
  check<float, gr::conv{.padding = 1, .groups = 3}, gr::shape<2, 9, 7, 8>, gr::shape<6, 3, 3, 3>>();
}

TEST_CASE("sums over more than one block of terms and of columns agree with plain loops") {
  check<float, gr::conv{.padding = 1}, gr::shape<3, 67, 9, 8>, gr::shape<33, 67, 3, 3>>();
  check<float, gr::conv{.padding = 1}, gr::shape<2, 2, 31, 33>, gr::shape<3, 2, 3, 3>>();
}

TEST_CASE("3 x 3 filters at stride 1 agree with plain loops, through Winograd's algorithm") {
  check<float, gr::conv{.padding = 1}, gr::shape<3, 17, 4, 4>, gr::shape<19, 17, 3, 3>>();
  check<float, gr::conv{.padding = {0, 2}}, gr::shape<3, 16, 9, 7>, gr::shape<16, 16, 3, 3>>();
  check<float, gr::conv{.padding = 1}, gr::shape<2, 18, 5, 37>, gr::shape<33, 18, 3, 3>>();
  check<float, gr::conv{.padding = 2}, gr::shape<1, 16, 3, 2>, gr::shape<29, 16, 3, 3>>();
  check<float, gr::conv{.padding = 1}, gr::shape<2, 16, 5, 32>, gr::shape<17, 16, 3, 3>>();  // rows of whole registers
}

TEST_CASE("depthwise convolutions and their gradients agree with plain loops") {
  check<float, gr::conv{.padding = 1, .groups = 5}, gr::shape<2, 5, 7, 21>, gr::shape<5, 1, 3, 3>>();
  check<float, gr::conv{.stride = 2, .padding = 2, .dilation = 2, .groups = 3}, gr::shape<2, 3, 9, 10>,
        gr::shape<6, 1, 3, 2>>();
  check<float, gr::conv{.stride = {1, 2}, .padding = 1, .groups = 3}, gr::shape<2, 3, 6, 9>, gr::shape<3, 1, 3, 3>>();
}

TEST_CASE_TEMPLATE("convolutions of 16-bit numbers agree with plain loops", T, gr::bf16, gr::f16) {
  check<T, gr::conv{.stride = {1, 2}, .padding = 1}, gr::shape<3, 5, 6, 9>, gr::shape<8, 5, 3, 3>>();
  check<T, gr::conv{.padding = 1, .groups = 3}, gr::shape<2, 3, 5, 5>, gr::shape<3, 1, 3, 3>>();
}

TEST_CASE("conv_transpose2d and its gradients agree with plain loops") {
  check_transposed<float, gr::conv_transpose{}, gr::shape<1, 1, 1, 1>, gr::shape<1, 1, 1, 1>>();
  check_transposed<float, gr::conv_transpose{.stride = 2, .padding = 1, .output_padding = {1, 0}},
                   gr::shape<3, 5, 4, 7>, gr::shape<5, 6, 4, 3>>();
  check_transposed<float, gr::conv_transpose{.stride = {3, 1}, .padding = 1, .dilation = 2, .groups = 2},
                   gr::shape<2, 4, 5, 6>, gr::shape<4, 3, 2, 3>>();
  check_transposed<gr::bf16, gr::conv_transpose{.stride = 2}, gr::shape<2, 4, 5, 3>, gr::shape<4, 3, 2, 2>>();
}

TEST_CASE("conv1d is conv2d of images of height 1, bit for bit") {
  workplace at;
  constexpr gr::conv options{.stride = {1, 2}, .padding = {0, 3}, .dilation = {1, 2}};
  const auto x = normal<float, gr::shape<2, 3, 23>>(at.ctx);
  const auto w = normal<float, gr::shape<5, 3, 4>>(at.ctx);
  const auto b = normal<float, gr::shape<5>>(at.ctx);
  const auto wide = gr::conv2d<options>(gr::reshape<2, 3, 1, 23>(x), gr::reshape<5, 3, 1, 4>(w), b);
  CHECK(numbers(gr::conv1d<options>(x, w, b)) == numbers(wide));
}

TEST_CASE("a batch of a bounded number of images has the bits of a static one") {
  workplace at;
  constexpr gr::conv options{.stride = 2, .padding = 1};
  const auto w = normal<float, gr::shape<7, 3, 3, 3>>(at.ctx);
  const auto run = [&]<class X>(X x) {
    gr::tape tape{at.ctx};
    auto vx = tape.variable(X(x));
    auto vw = tape.variable(gr::tensor<float, gr::shape<7, 3, 3, 3>>(w));
    auto y = gr::conv2d<options>(vx, vw);
    std::vector<values> all{numbers(y.value())};
    gr::backward(gr::mean(y * y));
    all.push_back(numbers(vx.gradient()));
    all.push_back(numbers(vw.gradient()));
    return all;
  };
  const auto x = normal<float, gr::shape<3, 3, 8, 9>>(at.ctx);
  const auto bounded = gr::from_values<float, gr::shape<gr::upto<8>, 3, 8, 9>>(at.ctx, gr::to_host(x), {3});
  CHECK(run(x) == run(bounded));
}
