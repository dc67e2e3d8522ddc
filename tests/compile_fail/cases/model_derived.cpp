// expect: for_each_param\(model\): parameters in a member of this type would not be found; give the type a public GRADUS_MEMBERS\(\.\.\.\) line of its own
// expect: all_parameters_are_found<.*members_besides_those_of_its_base<model>
#include <gradus/gradus.hpp>

using X = gradus::on<gradus::cpu>;
struct model : gradus::nn::linear<X, 2, 2> {
  gradus::param<X, 2> gain;
#ifndef GRADUS_FAIL
  GRADUS_MEMBERS(weight, bias, gain)
#endif
};
auto f(const model& m) { return gradus::parameter_count(m); }
