// expect: for_each_param\(model\): a type in the model has no public GRADUS_MEMBERS\(\.\.\.\) line of its own, so its parameters would not be found; add the line
// expect: all_parameters_are_found<.*no_members_line<std::map<int, (gradus::)?nn::linear<
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
