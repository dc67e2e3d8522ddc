// expect: for_each_param\(model\): parameters in a member of this type would not be found; give the type a public GRADUS_MEMBERS\(\.\.\.\) line of its own
// expect: all_parameters_are_found<.*more_than_12_members<model>
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
