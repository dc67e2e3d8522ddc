#pragma once
// ResNet-18 for images of 32 x 32 (He et al. 2015, arXiv 1512.03385; the first convolution is 3 x 3, without pooling).

#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>

#include <gradus/gradus.hpp>

namespace bench {

namespace gr = gradus;

/// A convolution of Kernel x Kernel without a bias, then batch norm.
template <class X, gr::index_t In, gr::index_t Out, gr::index_t Kernel, gr::index_t Stride>
struct convolution {
  gr::nn::conv2d<X, In, Out, Kernel, gr::conv{.stride = Stride, .padding = Kernel / 2}, gr::nn::no_bias> conv;
  gr::nn::batch_norm<X, Out> norm;
  GRADUS_MEMBERS(conv, norm)
  constexpr auto operator()(auto&& x) const { return norm(conv(std::forward<decltype(x)>(x))); }
};

/// Two convolutions beside a shortcut, which is a convolution of 1 x 1 where the shape changes.
template <class X, gr::index_t In, gr::index_t Out, gr::index_t Stride>
struct residual_block {
  convolution<X, In, Out, 3, Stride> first;
  convolution<X, Out, Out, 3, 1> second;
  convolution<X, In, Out, 1, Stride> shortcut;
  GRADUS_MEMBERS(first, second, shortcut)
  constexpr auto operator()(const auto& x) const { return gr::relu(second(gr::relu(first(x))) + shortcut(x)); }
};
template <class X, gr::index_t Width>
struct residual_block<X, Width, Width, 1> {
  convolution<X, Width, Width, 3, 1> first, second;
  GRADUS_MEMBERS(first, second)
  constexpr auto operator()(const auto& x) const { return gr::relu(second(gr::relu(first(x))) + x); }
};
/// Two blocks of one width.
template <class X, gr::index_t In, gr::index_t Out, gr::index_t Stride>
struct stage {
  residual_block<X, In, Out, Stride> first;
  residual_block<X, Out, Out, 1> second;
  GRADUS_MEMBERS(first, second)
  constexpr auto operator()(const auto& x) const { return second(first(x)); }
};

/// Images [B, 3, 32, 32] -> logits [B, Classes].
template <class X, gr::index_t Classes = 10>
struct resnet18 {
  convolution<X, 3, 64, 3, 1> stem;
  stage<X, 64, 64, 1> stage1;
  stage<X, 64, 128, 2> stage2;
  stage<X, 128, 256, 2> stage3;
  stage<X, 256, 512, 2> stage4;
  gr::nn::linear<X, 512, Classes> head;
  GRADUS_MEMBERS(stem, stage1, stage2, stage3, stage4, head)
  constexpr auto operator()(const auto& images) const {
    auto x = stage4(stage3(stage2(stage1(gr::relu(stem(images))))));
    return head(gr::mean<2, 3>(x));
  }
};

/// Trains it by AdamW on one batch of random images.
template <class D, gr::index_t Batch = 64, class P = gr::fp32>
class resnet_training {
 public:
  resnet18<gr::on<D, P>> net;
  gr::adamw<typename P::store, D, typename P::gradient> optimizer{net, {.lr = 1e-4}};

  constexpr resnet_training(gr::context<D>& persistent, gr::context<D>& transient)
      : persistent_(persistent),
        transient_(transient),
        tape_(transient),
        images_(persistent, gr::category::input),
        labels_(persistent, gr::category::input),
        loss_(persistent, gr::category::input) {
    gr::init(net, persistent, gr::he_normal{.seed = 1});
  }
  void load() {
    images_ = gr::normal<float, images>(persistent_, {.seed = 2});
    for (gr::index_t i = 0; i < Batch; ++i) labels_.data()[i] = static_cast<std::int32_t>(i % 10);
  }
  constexpr void step() {
    auto loss = gr::cross_entropy(net(tape_.watch(images_)), labels_);
    if constexpr (D::computes)
      gr::device_access<D>::copy(transient_, loss_.data(), std::as_const(loss.value()).data(), loss_.bytes);
    gr::backward(loss);
    optimizer.clip(transient_, 1);
    optimizer.step(persistent_);
  }
  auto loss() const { return gr::item(loss_); }

 private:
  using images = gr::shape<Batch, 3, 32, 32>;
  gr::context<D>& persistent_;
  gr::context<D>& transient_;
  gr::tape<D> tape_;
  gr::tensor<float, images, D> images_;
  gr::tensor<std::int32_t, gr::shape<Batch>, D> labels_;
  gr::tensor<typename P::reduce, gr::shape<>, D> loss_;
};

}  // namespace bench
