// expect: optimizer\(model\): the model has no parameters; its members must be gradus::param, or hold some
// expect: model_has_parameters<settings>
#include <gradus/gradus.hpp>

struct settings {
  double rate = 0.1;
  std::vector<int> sizes;
  GRADUS_MEMBERS(rate, sizes)
};
#ifdef GRADUS_FAIL
using model = settings;
#else
struct model {
  gradus::param<gradus::on<gradus::cpu>, 2> weight;
  settings how;
  GRADUS_MEMBERS(weight, how)
};
#endif

auto f(model& m) { return gradus::adamw{m}; }
