// expect: init\(model, context, rule\): the context must be of the device that the model's states are on
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using device = gradus::meta;
#else
using device = gradus::cpu;
#endif

struct model {
  gradus::param<gradus::on<gradus::cpu>, 2> weight;
  gradus::state<gradus::on<device>, 2> mean;
  GRADUS_MEMBERS(weight, mean)
};

void f(model& m, gradus::context<gradus::cpu>& ctx) { gradus::init(m, ctx, gradus::normal_init{}); }
