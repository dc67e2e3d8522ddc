// expect: nn::conv1d, conv2d, conv_transpose2d: groups must divide the channels, In and Out
// expect: groups_divide_channels<4(UL)?, 6(UL)?>
#include <gradus/gradus.hpp>

using X = gradus::on<gradus::cpu>;
#ifdef GRADUS_FAIL
gradus::nn::conv2d<X, 6, 8, 3, gradus::conv{.groups = 4}> layer;
#else
gradus::nn::conv2d<X, 6, 8, 3, gradus::conv{.groups = 2}> layer;
#endif
