// expect: for_each_param\(model\): a type in the model has no public GRADUS_MEMBERS\(\.\.\.\) line of its own, so its parameters would not be found; add the line
// expect: all_parameters_are_found<.*no_members_line<model>
#include <gradus/gradus.hpp>

struct model {
  gradus::param<gradus::on<gradus::cpu>, 2, 2> weight;
  gradus::param<gradus::on<gradus::cpu>, 2> bias;
#ifndef GRADUS_FAIL
  GRADUS_MEMBERS(weight, bias)
#endif
};
void f(model& m) {
  gradus::for_each_param(m, [](std::string_view, auto&) {});
}
