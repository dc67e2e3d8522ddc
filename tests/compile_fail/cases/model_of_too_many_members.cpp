// expect: for_each_param\(model\): parameters in a member of this type would not be found; give the type a public GRADUS_MEMBERS\(\.\.\.\) line of its own
// expect: all_parameters_are_found<.*more_than_12_members<model>
#include <gradus/gradus.hpp>

using weight = gradus::param<gradus::on<gradus::cpu>, 2>;
struct model {
  weight a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r;
#ifndef GRADUS_FAIL
  GRADUS_MEMBERS(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r)
#endif
};
auto f(const model& m) { return gradus::parameter_count(m); }
