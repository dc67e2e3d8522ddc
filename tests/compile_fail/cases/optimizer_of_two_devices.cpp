// expect: optimizer\(model\): all parameters of the model must be of one element type and on one device
// expect: parameters_are_of_one_type_and_device<.*param_kind<float, (gradus::)?cpu(, float)?>, .*param_kind<float, (gradus::)?meta(, float)?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using other = gradus::meta;
#else
using other = gradus::cpu;
#endif

struct model {
  gradus::nn::linear<gradus::on<gradus::cpu>, 2, 2> first;
  gradus::nn::linear<gradus::on<other>, 2, 2> second;
  GRADUS_MEMBERS(first, second)
};
auto f(model& m) { return gradus::sgd{m}; }
