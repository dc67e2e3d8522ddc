// ResNet-18 on 64 images of 32 x 32.

#include "resnet.hpp"

#include "measure.hpp"

template <class D>
using training = bench::resnet_training<D>;

int main(int argc, char** argv) { return bench::measure<training>(argc, argv, 64); }
