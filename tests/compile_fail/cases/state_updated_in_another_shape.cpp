// expect: state\.update\(x, value\): value must have the state's shape and device
// expect: state_takes<.*state<.*2.*shape<3
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using shape = gradus::shape<3>;
#else
using shape = gradus::shape<2>;
#endif

void f(gradus::tape<gradus::cpu>& tape, const gradus::tensor<float, shape>& y,
       const gradus::state<gradus::on<gradus::cpu>, 2>& s) {
  const auto x = tape.watch(y);
  s.update(x, x);
}
