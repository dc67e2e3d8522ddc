// expect: init\(model, context, rule\): the context must be of the device that the model's parameters are on
// expect: parameters_are_on<.*param_kind<float, (gradus::)?meta.*, (gradus::)?cpu>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using device = gradus::meta;
#else
using device = gradus::cpu;
#endif

void f(gradus::nn::linear<gradus::on<device>, 2, 2>& model, gradus::context<gradus::cpu>& ctx) {
  gradus::init(model, ctx, gradus::normal_init{});
}
