// expect: optimizer\(model, 1e-3\): settings are named; write \{\.lr = 1e-3\}
// expect-lines: 15
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
#define SETTINGS 1
#else
#define SETTINGS \
  { .lr = 1 }
#endif

struct model {
  gradus::param<gradus::on<gradus::cpu>, 4, 4> w;
  GRADUS_MEMBERS(w)
};
void f(model& net) { gradus::muon optimizer(net, SETTINGS, gradus::decay_matrices); }
