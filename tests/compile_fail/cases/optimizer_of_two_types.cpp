// expect: optimizer\(model\): all parameters of the model must be of one element type and on one device
// expect: parameters_are_of_one_type_and_device<.*param_kind<float, (gradus::)?cpu(, float)?>, .*param_kind<double, (gradus::)?cpu(, double)?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using other = gradus::fp64;
#else
using other = gradus::fp32;
#endif

struct model {
  gradus::param<gradus::on<gradus::cpu>, 2, 2> weight;
  gradus::param<gradus::on<gradus::cpu, other>, 2> bias;
  GRADUS_MEMBERS(weight, bias)
};
auto f(model& m) { return gradus::adamw{m}; }
