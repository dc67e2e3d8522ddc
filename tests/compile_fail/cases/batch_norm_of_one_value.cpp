// expect: batch_norm\(x, \.\.\.\): in training the batch needs two or more values for each channel
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr gradus::index_t batch = 1;
#else
constexpr gradus::index_t batch = 2;
#endif

using X = gradus::on<gradus::cpu>;
using value = gradus::traced<gradus::tensor<float, gradus::shape<batch, 3>>, gradus::tape<gradus::cpu>>;
auto f(const gradus::nn::batch_norm<X, 3>& norm, const value& x) { return norm(x); }
