// expect: optimizer<T, Device>\(model\): T and Device must be those of the model's parameters
// expect: optimizer_is_for<.*param_kind<float, (gradus::)?cpu(, float)?>, .*param_kind<double, (gradus::)?cpu(, double)?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using element = double;
#else
using element = float;
#endif

using model = gradus::nn::linear<gradus::on<gradus::cpu>, 2, 2>;
auto f(model& m) { return gradus::adamw<element, gradus::cpu>{m}; }
