// expect: tape<Device>\{ctx\}: ctx must be a context of Device
// expect: device_of_tape_is<(gradus::)?cpu, (gradus::)?meta>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using device = gradus::meta;
#else
using device = gradus::cpu;
#endif

void f(gradus::context<device>& ctx) { gradus::tape<gradus::cpu> tape{ctx}; }
