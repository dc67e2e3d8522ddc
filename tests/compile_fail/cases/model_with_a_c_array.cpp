// expect: for_each_param\(model\): parameters in a member of this type would not be found; give the type a public GRADUS_MEMBERS\(\.\.\.\) line of its own
// expect: all_parameters_are_found<.*c_array_without_a_name<model>
#include <gradus/gradus.hpp>

struct model {
  gradus::param<gradus::on<gradus::cpu>, 2> first;
  gradus::param<gradus::on<gradus::cpu>, 2> rest[3];
#ifndef GRADUS_FAIL
  GRADUS_MEMBERS(first, rest)
#endif
};
void f(model& m) {
  gradus::for_each_param(m, [](std::string_view, auto&) {});
}
