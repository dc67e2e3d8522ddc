// expect: tape\.watch\(x\): x must be on the tape's device
// expect: device_of_tape_is<(gradus::)?cpu, (gradus::)?meta>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using device = gradus::meta;
#else
using device = gradus::cpu;
#endif

void f(gradus::tape<gradus::cpu>& tape, const gradus::tensor<float, gradus::shape<2>, device>& x) { tape.watch(x); }
