// expect: for_each_param\(model\): a type in the model has no public GRADUS_MEMBERS\(\.\.\.\) line of its own, so its parameters would not be found; add the line
// expect: all_parameters_are_found<.*no_members_line<std::shared_ptr<(gradus::)?nn::linear<
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
#define POINTER std::shared_ptr
#else
#define POINTER std::unique_ptr
#endif

struct model {
  POINTER<gradus::nn::linear<gradus::on<gradus::cpu>, 2, 2>> layer;
  GRADUS_MEMBERS(layer)
};
auto f(model& m) { return gradus::sgd{m}; }
