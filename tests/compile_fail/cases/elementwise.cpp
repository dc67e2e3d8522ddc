#include <cmath>
#include <gradus/gradus.hpp>

namespace gr = gradus;
template <gr::index_t... Extents>
using tensor = gr::tensor<float, gr::shape<Extents...>>;

// case: add_in_place_shapes
// expect: x \+= y, x -= y, x \*= y, x /= y: x must be a tensor or a traced value that is not const
// expect: shape<3>.*shape<2, 3>
void f(tensor<3>& x, tensor<2, 3>& y) { x += y; }
// twin
void f(tensor<3>& x, tensor<2, 3>& y) { y += x; }

// case: add_shapes
// expect(g++): error: static assertion failed: a \+ b: the shapes of a and b must be equal, or 1 where they differ, axis by axis from the back$
// expect(g++): note: .gradus::detail::shapes_broadcast<gradus::shape<2, 3>, gradus::shape<2, 4> ?>. evaluates to false$
// expect(clang++): error: static(_assert| assertion) failed due to requirement .detail::shapes_broadcast<gradus::shape<2, 3>, gradus::shape<2, 4> ?>.:? "?a \+ b: the shapes of a and b must be equal, or 1 where they differ, axis by axis from the back"?$
auto f(const tensor<2, 3>& a, const tensor<2, 4>& b) { return a + b; }
// twin
auto f(const tensor<2, 3>& a, const tensor<2, 1>& b) { return a + b; }

// case: comparison_as_a_condition
// expect: if \(a > b\), !\(a == b\): a comparison of tensors has an answer for each element
bool f(const tensor<>& loss) {
  if (loss > 0.5) return true;
  return false;
}
// twin
bool f(const tensor<>& loss) {
  if (gr::item(loss > 0.5)) return true;
  return false;
}

// case: comparison_shapes
// expect: a < b, a == b, logical_and\(a, b\): the shapes of a and b must be equal, or 1 where they differ
// expect: shape<5>, (gradus::)?shape<2, 3>
auto f(const tensor<5>& a, const tensor<2, 3>& b) { return a <= b; }
// twin
auto f(const tensor<3>& a, const tensor<2, 3>& b) { return a <= b; }

// case: comparison_with_a_fraction
// expect: x < c, x == c: an integer tensor is compared with whole numbers; for others cast it first
auto f(const gr::tensor<std::int32_t, gr::shape<3>>& x) { return 0.5 < x; }
// twin
auto f(const gr::tensor<std::int32_t, gr::shape<3>>& x) { return 0.5 < gr::cast<float>(x); }

// case: divide_shapes
// expect: a / b: the shapes of a and b must be equal, or 1 where they differ
// expect: shape<2, 3>, (gradus::)?shape<2, 4>
auto f(const tensor<2, 3>& a, const tensor<2, 4>& b) { return a / b; }
// twin
auto f(const tensor<2, 3>& a, const tensor<2, 1>& b) { return a / b; }

// case: exp_of_integers
// expect: exp, log, .*must have floating-point elements
auto f(const gr::tensor<std::int32_t, gr::shape<3>>& x) { return gr::exp(x); }
// twin
auto f(const tensor<3>& x) { return gr::exp(x); }

// case: integers_times_a_fraction
// expect: x \+ c, x - c, x \* c, x / c: an integer tensor takes whole constants \(x \* 2\)
// expect: constant_fits_elements<double, int>
auto f(const gr::tensor<int, gr::shape<2, 3>>& x) { return x * 0.5; }
// twin
auto f(const tensor<2, 3>& x) { return x * 0.5; }

// case: map_condition
// expect: map\(f, x\.\.\.\): x holds several elements, and a condition on it has several answers
// expect: write `using gradus::math::select;` and select\(c, a, b\)
// expect-lines: 15
struct leaky {
  template <class T>
  auto operator()(T x) const {
    return x > 0 ? x : 0.1 * x;
  }
};
auto f(gr::tape<gr::cpu>& tape, const tensor<4, 8>& x) { return gr::map(leaky{}, tape.variable(x)); }
// twin
struct leaky {
  template <class T>
  auto operator()(T x) const {
    using gr::math::select;
    return select(x > 0, x, 0.1 * x);
  }
};
auto f(gr::tape<gr::cpu>& tape, const tensor<4, 8>& x) { return gr::map(leaky{}, tape.variable(x)); }

// case: map_of_five
// expect: map\(f, x\.\.\.\): takes one to four operands
struct total {
  template <class T, class... Ts>
  T operator()(T a, Ts... b) const {
    return (a + ... + b);
  }
};
// mistake
auto f(const tensor<2>& x) { return gr::map(total{}, x, x, x, x, x); }
// twin
auto f(const tensor<2>& x) { return gr::map(total{}, x, x, x, x); }

// case: map_of_one_type
// expect: map\(f, x\.\.\.\): f must take one argument per operand, all of one deduced type
// expect-lines: 15
auto f(const tensor<4, 8>& x) {
  return gr::map([](float u) { return u * u + 1; }, x);
}
// twin
auto f(const tensor<4, 8>& x) {
  return gr::map([](auto u) { return u * u + 1; }, x);
}

// case: map_of_too_few
// expect: map\(f, x\.\.\.\): f must take one argument per operand, all of one deduced type
// expect: functor_takes_arguments<.*product, float, (gradus::)?tensor<float, (gradus::)?shape<2>
struct product {
  template <class T>
  T operator()(T a, T b) const {
    return a * b;
  }
};
// mistake
auto f(const tensor<2>& x) { return gr::map(product{}, x); }
// twin
auto f(const tensor<2>& x) { return gr::map(product{}, x, x); }

// case: map_shapes
// expect: map\(f, x\.\.\.\): the operands. shapes do not broadcast together
// expect: shape<2, 3>, (gradus::)?shape<4>
struct product {
  template <class T>
  T operator()(T a, T b) const {
    return a * b;
  }
};
// mistake
auto f(const tensor<2, 3>& a, const tensor<4>& b) { return gr::map(product{}, a, b); }
// twin
auto f(const tensor<2, 3>& a, const tensor<3>& b) { return gr::map(product{}, a, b); }

// case: map_std_exp
// expect: map\(f, x\.\.\.\): x holds several elements, and goes into no function of one number
// expect: write `using gradus::math::exp;` and exp\(x\)
// expect-lines: 15
auto f(gr::tape<gr::cpu>& tape, const tensor<4, 8>& x) {
  return gr::map([](auto u) { return u / (1 + std::exp(-u)); }, tape.variable(x));
}
// twin
auto f(gr::tape<gr::cpu>& tape, const tensor<4, 8>& x) {
  return gr::map(
      [](auto u) {
        using gr::math::exp;
        return u / (1 + exp(-u));
      },
      tape.variable(x));
}

// case: maximum_shapes
// expect: maximum\(a, b\): the shapes of a and b must be equal, or 1 where they differ
// expect: shape<2, 3>, (gradus::)?shape<2, 4>
auto f(const tensor<2, 3>& a, const tensor<2, 4>& b) { return gr::maximum(a, b); }
// twin
auto f(const tensor<2, 3>& a, const tensor<2, 1>& b) { return gr::maximum(a, b); }

// case: maximum_with_a_fraction
// expect: minimum\(x, c\), maximum\(x, c\): beside integers a number must be whole
auto f(const gr::tensor<std::int32_t, gr::shape<3>>& x) { return gr::maximum(x, 0.5); }
// twin
auto f(const gr::tensor<std::int32_t, gr::shape<3>>& x) { return gr::maximum(x, 1); }

// case: minimum_shapes
// expect: minimum\(a, b\): the shapes of a and b must be equal, or 1 where they differ
// expect: shape<2, 3>, (gradus::)?shape<2, 4>
auto f(const tensor<2, 3>& a, const tensor<2, 4>& b) { return gr::minimum(a, b); }
// twin
auto f(const tensor<2, 3>& a, const tensor<2, 1>& b) { return gr::minimum(a, b); }

// case: multiply_shapes
// expect: a \* b: the shapes of a and b must be equal, or 1 where they differ
// expect: shape<2, 3>, (gradus::)?shape<2, 4>
auto f(const tensor<2, 3>& a, const tensor<2, 4>& b) { return a * b; }
// twin
auto f(const tensor<2, 3>& a, const tensor<2, 1>& b) { return a * b; }

// case: pow_shapes
// expect: pow\(a, b\): the shapes of a and b must be equal, or 1 where they differ
// expect: shape<2, 3>, (gradus::)?shape<2, 4>
auto f(const tensor<2, 3>& a, const tensor<2, 4>& b) { return gr::pow(a, b); }
// twin
auto f(const tensor<2, 3>& a, const tensor<2, 1>& b) { return gr::pow(a, b); }

// case: subtract_shapes
// expect: a - b: the shapes of a and b must be equal, or 1 where they differ
// expect: shape<2, 3>, (gradus::)?shape<2, 4>
auto f(const tensor<2, 3>& a, const tensor<2, 4>& b) { return a - b; }
// twin
auto f(const tensor<2, 3>& a, const tensor<2, 1>& b) { return a - b; }

// case: where_of_a_fraction
// expect: where\(condition, a, b\): beside integers a number must be whole
// expect-lines: 15
auto f(const gr::tensor<std::int32_t, gr::shape<8>>& condition, const gr::tensor<std::int32_t, gr::shape<8>>& x) {
  return gr::where(condition, x, 0.5);
}
// twin
auto f(const gr::tensor<std::int32_t, gr::shape<8>>& condition, const gr::tensor<std::int32_t, gr::shape<8>>& x) {
  return gr::where(condition, x, -1);
}

// case: where_shapes
// expect: where\(condition, a, b\): the three shapes must broadcast together
// expect: shape<5>, (gradus::)?shape<2, 3>
auto f(const tensor<5>& condition, const tensor<2, 3>& a) { return gr::where(condition, a, a); }
// twin
auto f(const tensor<3>& condition, const tensor<2, 3>& a) { return gr::where(condition, a, a); }
