// expect: lstm\(x, state\), gru\(x, state\): the state is nn::lstm_state\{h, c\} or nn::gru_state\{h\}
#include <gradus/gradus.hpp>

auto f(const gradus::nn::gru<gradus::on<gradus::cpu>, 4, 8>& layer,
       const gradus::tensor<float, gradus::shape<2, 3, 4>>& x, const gradus::tensor<float, gradus::shape<1, 2, 8>>& h) {
#ifdef GRADUS_FAIL
  return layer(x, h);
#else
  return layer(x, gradus::nn::gru_state{h});
#endif
}
