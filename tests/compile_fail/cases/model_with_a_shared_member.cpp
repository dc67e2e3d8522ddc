// expect: for_each_param\(model\): parameters in a member of this type would not be found; give the type a public GRADUS_MEMBERS\(\.\.\.\) line of its own
// expect: all_parameters_are_found<.*not_an_aggregate<std::shared_ptr<(gradus::)?nn::linear<
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
#define POINTER std::shared_ptr
#else
#define POINTER std::unique_ptr
#endif

struct model {
  POINTER<gradus::nn::linear<gradus::on<gradus::cpu>, 2, 2>> layer;
};
auto f(model& m) { return gradus::sgd{m}; }
