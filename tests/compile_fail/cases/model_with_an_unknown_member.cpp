// expect: for_each_param\(model\): parameters in a member of this type would not be found; give the type a public GRADUS_MEMBERS\(\.\.\.\) line of its own
// expect: all_parameters_are_found<.*not_an_aggregate<std::map<int, (gradus::)?nn::linear<
#include <gradus/gradus.hpp>

#include <map>

using linear = gradus::nn::linear<gradus::on<gradus::cpu>, 2, 2>;
struct model {
#ifdef GRADUS_FAIL
  std::map<int, linear> experts;
#else
  std::vector<linear> experts;
#endif
  GRADUS_MEMBERS(experts)
};
auto f(const model& m) { return gradus::parameter_count(m); }
