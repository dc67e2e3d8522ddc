// expect: map\(f, x\.\.\.\): x holds several elements, and a condition on it has several answers
// expect: write `using gradus::math::select;` and select\(c, a, b\)
// expect-lines: 15
#include <gradus/gradus.hpp>

struct leaky {
  template <class T>
  auto operator()(T x) const {
#ifdef GRADUS_FAIL
    return x > 0 ? x : 0.1 * x;
#else
    using gradus::math::select;
    return select(x > 0, x, 0.1 * x);
#endif
  }
};
auto f(gradus::tape<gradus::cpu>& tape, const gradus::tensor<float, gradus::shape<4, 8>>& x) {
  return gradus::map(leaky{}, tape.variable(x));
}
