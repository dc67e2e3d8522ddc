// expect: for_each_param\(model\): a model with more than 12 members needs a GRADUS_MEMBERS\(\.\.\.\) line
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
#define MORE , m
#else
#define MORE
#endif

using weight = gradus::param<gradus::on<gradus::cpu>, 2>;
struct model {
  weight a, b, c, d, e, f, g, h, i, j, k, l MORE;
};
void f(model& m) {
  gradus::for_each_param(m, [](std::string_view, auto&) {});
}
