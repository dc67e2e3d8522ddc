#include <gradus/gradus.hpp>

namespace gr = gradus;
template <gr::index_t... Extents>
using tensor = gr::tensor<float, gr::shape<Extents...>>;

// case: batch_norm_channels
// expect: batch_norm, group_norm, instance_norm\(x, weight, bias\): weight and bias must have x's channels
// expect(g++): one_weight_and_bias_for_each_channel<3(UL)?, 4(UL)?, 4(UL)?>
auto f(const gr::nn::batch_norm<gr::on<gr::cpu>, 4>& norm, const tensor<2, 3, 4, 4>& x) { return norm(x); }
// twin
auto f(const gr::nn::batch_norm<gr::on<gr::cpu>, 3>& norm, const tensor<2, 3, 4, 4>& x) { return norm(x); }

// case: batch_norm_of_one_value
// expect: batch_norm\(x, \.\.\.\): in training the batch needs two or more values for each channel
auto f(const gr::nn::batch_norm<gr::on<gr::cpu>, 3>& norm, const gr::traced<tensor<1, 3>, gr::tape<gr::cpu>>& x) {
  return norm(x);
}
// twin
auto f(const gr::nn::batch_norm<gr::on<gr::cpu>, 3>& norm, const gr::traced<tensor<2, 3>, gr::tape<gr::cpu>>& x) {
  return norm(x);
}

// case: batch_norm_state
// expect: batch_norm\(x, weight, bias, mean, variance\): the running state must have x's channels
auto f(const tensor<2, 3, 4>& x, const tensor<3>& w, const gr::state<gr::on<gr::cpu>, 4>& mean,
       const gr::state<gr::on<gr::cpu>, 4>& var) {
  return gr::batch_norm(x, w, w, mean, var);
}
// twin
auto f(const tensor<2, 3, 4>& x, const tensor<3>& w, const gr::state<gr::on<gr::cpu>, 3>& mean,
       const gr::state<gr::on<gr::cpu>, 3>& var) {
  return gr::batch_norm(x, w, w, mean, var);
}

// case: group_norm_groups
// expect: group_norm<Groups>\(x, weight, bias\): the channels must be divisible by the number of groups
// expect(g++): channels_are_divisible_by_groups<6(UL)?, 4(UL)?>
auto f(const gr::nn::group_norm<gr::on<gr::cpu>, 4, 6>& norm, const tensor<2, 6, 4>& x) { return norm(x); }
// twin
auto f(const gr::nn::group_norm<gr::on<gr::cpu>, 3, 6>& norm, const tensor<2, 6, 4>& x) { return norm(x); }

// case: group_norm_rank
// expect: batch_norm, group_norm, instance_norm\(x, weight, bias\): x is \[B, C, \.\.\.\], weight and bias are \[C\]
auto f(const tensor<6>& x, const tensor<6>& w) { return gr::group_norm<2>(x, w, w); }
// twin
auto f(const tensor<1, 6>& x, const tensor<6>& w) { return gr::group_norm<2>(x, w, w); }

// case: instance_norm_of_integers
// expect: batch_norm, group_norm, instance_norm\(x, weight, bias\): the operands must have floating-point elements
auto f(const gr::tensor<std::int32_t, gr::shape<2, 3, 4>>& x, const tensor<3>& w) { return gr::instance_norm(x, w, w); }
// twin
auto f(const tensor<2, 3, 4>& x, const tensor<3>& w) { return gr::instance_norm(x, w, w); }

// case: layer_norm_bias
// expect: layer_norm\(x, weight, bias\): weight and bias must have the same length
// expect: length_of_weight_equals_length_of_bias<768(UL)?, 512(UL)?>
auto f(const tensor<4, 768>& x, const tensor<768>& weight, const tensor<512>& bias) {
  return gr::layer_norm(x, weight, bias);
}
// twin
auto f(const tensor<4, 768>& x, const tensor<768>& weight, const tensor<768>& bias) {
  return gr::layer_norm(x, weight, bias);
}

// case: layer_norm_of_integers
// expect: layer_norm\(x, weight, bias\): the operands must have floating-point elements
// expect: have_floating_elements<int, float, float>
auto f(const gr::tensor<int, gr::shape<2, 3>>& x, const tensor<3>& w) { return gr::layer_norm(x, w, w); }
// twin
auto f(const tensor<2, 3>& x, const tensor<3>& w) { return gr::layer_norm(x, w, w); }

// case: layer_norm_weight
// expect(g++): error: static assertion failed: layer_norm\(x, weight, bias\): columns of x must equal the length of weight$
// expect(g++): note: .gradus::detail::columns_equal_length_of_weight<768, 512>. evaluates to false$
// expect(clang++): error: static(_assert| assertion) failed due to requirement .detail::columns_equal_length_of_weight<768, 512>.:? "?layer_norm\(x, weight, bias\): columns of x must equal the length of weight"?$
auto f(const tensor<4, 768>& x, const tensor<512>& weight) { return gr::layer_norm(x, weight, weight); }
// twin
auto f(const tensor<4, 768>& x, const tensor<768>& weight) { return gr::layer_norm(x, weight, weight); }

// case: nn_layer_norm_width
// expect: layer_norm\(x, weight, bias\): columns of x must equal the length of weight
// expect: columns_equal_length_of_weight<96(UL)?, 64(UL)?>
auto f(const gr::nn::layer_norm<gr::on<gr::cpu>, 64>& layer, const tensor<4, 96>& x) { return layer(x); }
// twin
auto f(const gr::nn::layer_norm<gr::on<gr::cpu>, 96>& layer, const tensor<4, 96>& x) { return layer(x); }

// case: rms_norm_of_integers
// expect: rms_norm\(x, weight\): the operands must have floating-point elements
// expect: have_floating_elements<int, float>
auto f(const gr::tensor<int, gr::shape<2, 3>>& x, const tensor<3>& w) { return gr::rms_norm(x, w); }
// twin
auto f(const tensor<2, 3>& x, const tensor<3>& w) { return gr::rms_norm(x, w); }

// case: rms_norm_weight
// expect: rms_norm\(x, weight\): columns of x must equal the length of weight
// expect: columns_equal_length_of_weight<768(UL)?, 512(UL)?>
auto f(const tensor<4, 768>& x, const tensor<512>& weight) { return gr::rms_norm(x, weight); }
// twin
auto f(const tensor<4, 768>& x, const tensor<768>& weight) { return gr::rms_norm(x, weight); }
