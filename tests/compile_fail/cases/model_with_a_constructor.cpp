// expect: for_each_param\(model\): a type in the model has no public GRADUS_MEMBERS\(\.\.\.\) line of its own, so its parameters would not be found; add the line
// expect: all_parameters_are_found<.*no_members_line<layer>
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
  GRADUS_MEMBERS(first, second)
};
void f(model& m, gradus::context<gradus::cpu>& ctx) { gradus::init(m, ctx, gradus::normal_init{}); }
