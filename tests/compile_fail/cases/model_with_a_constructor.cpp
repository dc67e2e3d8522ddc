// expect: for_each_param\(model\): parameters in a member of this type would not be found; give the type a public GRADUS_MEMBERS\(\.\.\.\) line of its own
// expect: all_parameters_are_found<.*not_an_aggregate<layer>
#include <gradus/gradus.hpp>

class layer {
 public:
  explicit layer(double scale) : weight_(gradus::start::drawn, scale) {}
#ifndef GRADUS_FAIL
  GRADUS_MEMBERS(weight_)
#endif

 private:
  gradus::param<gradus::on<gradus::cpu>, 2, 2> weight_;
};
struct model {
  layer first{0.5};
  gradus::param<gradus::on<gradus::cpu>, 2> second;
};
void f(model& m, gradus::context<gradus::cpu>& ctx) { gradus::init(m, ctx, gradus::normal_init{}); }
