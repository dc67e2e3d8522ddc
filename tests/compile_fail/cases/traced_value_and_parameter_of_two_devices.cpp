// expect: apply\(op, x\.\.\.\): the operands must be on one device
// expect: operands_are_on_one_device<.*linear
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using device = gradus::meta;
#else
using device = gradus::cpu;
#endif

auto f(gradus::tape<gradus::cpu>& tape, const gradus::tensor<float, gradus::shape<4, 2>>& x,
       const gradus::nn::linear<gradus::on<device>, 2, 3>& layer) {
  return layer(tape.watch(x));
}
