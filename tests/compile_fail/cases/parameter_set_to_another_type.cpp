// expect: param\.set\(value\): the value must have the parameter's element type, shape and device
// expect: parameter_takes<(gradus::)?tensor<float, (gradus::)?shape<2>.*, (gradus::)?tensor<double, (gradus::)?shape<2>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using value = gradus::tensor<double, gradus::shape<2>>;
#else
using value = gradus::tensor<float, gradus::shape<2>>;
#endif

void f(gradus::param<gradus::on<gradus::cpu>, 2>& weight, const value& v) { weight.set(v); }
