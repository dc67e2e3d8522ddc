// expect: for_each_param\(model\): a type in the model has no public GRADUS_MEMBERS\(\.\.\.\) line of its own, so its parameters would not be found; add the line
// expect: all_parameters_are_found<.*points_at_a_model<(gradus::)?nn::linear<.*, 2, 2> ?\*>
#include <gradus/gradus.hpp>

struct model {
  gradus::nn::linear<gradus::on<gradus::cpu>, 2, 2> own;
#ifdef GRADUS_FAIL
  gradus::nn::linear<gradus::on<gradus::cpu>, 2, 2>* other;
#else
  const char* other;
#endif
  GRADUS_MEMBERS(own, other)
};
void f(model& m) {
  gradus::for_each_param(m, [](std::string_view, auto&) {});
}
