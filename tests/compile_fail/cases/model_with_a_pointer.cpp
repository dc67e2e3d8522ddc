// expect: for_each_param\(model\): parameters in a member of this type would not be found; give the type a public GRADUS_MEMBERS\(\.\.\.\) line of its own
// expect: all_parameters_are_found<.*points_at_a_model<(gradus::)?nn::linear<.*, 2, 2> ?\*>
#include <gradus/gradus.hpp>

struct model {
  gradus::nn::linear<gradus::on<gradus::cpu>, 2, 2> own;
#ifdef GRADUS_FAIL
  gradus::nn::linear<gradus::on<gradus::cpu>, 2, 2>* other;
#else
  const char* other;
#endif
};
void f(model& m) {
  gradus::for_each_param(m, [](std::string_view, auto&) {});
}
