// expect: for_each_param\(model\): a type in the model has no public GRADUS_MEMBERS\(\.\.\.\) line of its own, so its parameters would not be found; add the line
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
