// expect: map\(f, x\.\.\.\): x holds several elements, and goes into no function of one number
// expect: write `using gradus::math::exp;` and exp\(x\)
// expect-lines: 15
#include <gradus/gradus.hpp>

#include <cmath>

auto f(gradus::tape<gradus::cpu>& tape, const gradus::tensor<float, gradus::shape<4, 8>>& x) {
  return gradus::map(
      [](auto u) {
#ifdef GRADUS_FAIL
        return u / (1 + std::exp(-u));
#else
        using gradus::math::exp;
        return u / (1 + exp(-u));
#endif
      },
      tape.variable(x));
}
