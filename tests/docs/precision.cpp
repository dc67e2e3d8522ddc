// The code of docs/guide/precision.md.
#include <doctest/doctest.h>

#include <cstdint>
#include <gradus/gradus.hpp>
#include <type_traits>
#include <utility>

namespace gr = gradus;

// [model]
template <class X>
struct network {
  gr::nn::layer_norm<X, 64> norm;
  gr::nn::linear<X, 64, 10> head;
  GRADUS_MEMBERS(norm, head)

  constexpr auto operator()(auto x) const { return head(norm(std::move(x))); }
};
// [/model]

// [own_policy]
using my_policy = gr::precision<float,     // parameters are stored in
                                gr::bf16,  // operands of products are cast to
                                float,     // sums inside an operation are accumulated in
                                float,     // norms, sums and losses come out in
                                float>;    // gradients of parameters accumulate in
// [/own_policy]

// [overrides]
using careful = gr::precision_with<gr::bf16_mixed, gr::in_full<gr::op::attention>>;  // attention in float
// [/overrides]

// [stream]
using with_bf16_stream =
    gr::precision_with<gr::bf16_mixed, gr::in_low<gr::op::embedding, gr::op::map<gr::functor::add>, gr::op::layer_norm,
                                                  gr::op::rms_norm, gr::op::channel_norm<0>>>;
// [/stream]
static_assert(std::is_base_of_v<with_bf16_stream, gr::bf16_stream>);

// [parts]
template <class X>
struct two_parts {
  gr::nn::linear<X, 64, 64> body;                                       // as the rest of the model says
  gr::nn::linear<gr::on<typename X::device, gr::fp32>, 64, 10> head{};  // always in float
  GRADUS_MEMBERS(body, head)

  constexpr auto operator()(auto x) const { return head(gr::gelu(body(std::move(x)))); }
};
// [/parts]

TEST_CASE("a model trains in bf16_mixed by naming it") {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  const auto images = gr::normal<float, gr::shape<8, 64>>(ctx, {1, 0, 0});
  const auto labels = gr::from_values<std::int32_t, gr::shape<8>>(ctx, {0, 1, 2, 3, 4, 5, 6, 7});
  // [train]
  network<gr::on<gr::cpu, gr::bf16_mixed>> net;
  gr::init(net, ctx, gr::he_normal{.seed = 7});
  gr::adamw optimizer{net, {.lr = 1e-3}};  // parameters, gradients and moments are in float
  gr::tape tape{ctx};
  auto logits = net(tape.watch(images));  // in bf16
  auto loss = gr::cross_entropy(logits, labels);
  gr::backward(loss);
  optimizer.step(ctx);
  // [/train]
  static_assert(std::is_same_v<gr::value_of_t<decltype(logits)>, gr::bf16>);
  static_assert(std::is_same_v<gr::value_of_t<decltype(loss)>, float>);
  CHECK(gr::item(loss.value()) > 0);
}

TEST_CASE("a float16 model's loss is scaled") {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  const auto images = gr::normal<float, gr::shape<8, 64>>(ctx, {1, 0, 0});
  const auto labels = gr::from_values<std::int32_t, gr::shape<8>>(ctx, {0, 1, 2, 3, 4, 5, 6, 7});
  network<gr::on<gr::cpu, gr::fp16_mixed>> net;
  gr::init(net, ctx, gr::he_normal{.seed = 7});
  gr::sgd optimizer{net, {.lr = 1e-3}};
  gr::tape tape{ctx};
  auto loss = gr::cross_entropy(net(tape.watch(images)), labels);
  // [scale]
  gr::loss_scaler scaler{ctx};       // once; what follows, in each step
  gr::backward(scaler.scale(loss));  // 65536 times the loss, at first
  optimizer.unscale(scaler);         // before clip()
  optimizer.clip(ctx, 1.0);          // the norm is that of the unscaled gradients
  optimizer.step(ctx);               // changes nothing where a gradient overflowed
  scaler.update(ctx);                // half the scale after an overflow, twice after 2000 steps without
  // [/scale]
  CHECK(gr::item(scaler.value()) == 65536);
  CHECK(optimizer.skipped() == 0);
  CHECK(gr::item(loss.value()) > 0);
}

TEST_CASE("parts and operations may compute in other types than the rest") {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  const auto images = gr::normal<float, gr::shape<8, 64>>(ctx, {1, 0, 0});
  two_parts<gr::on<gr::cpu, gr::bf16_mixed>> net;
  gr::init(net, ctx, gr::he_normal{.seed = 7});
  static_assert(std::is_same_v<decltype(net.body(images))::value_type, gr::bf16>);
  static_assert(std::is_same_v<decltype(net(images))::value_type, float>);
  static_assert(std::is_same_v<my_policy::compute, gr::bf16_mixed::compute>);
  static_assert(careful::list_of<gr::op::causal_attention<3>>(gr::op_precision::low) == gr::op_precision::full);
  // [cast]
  auto half = gr::cast<gr::bf16>(images);
  auto product = gr::matmul<gr::transpose{.b = true}>(half, images);  // float meets bf16 in bf16
  auto sum = half + images;                                           // elementwise they meet in float
  // [/cast]
  static_assert(std::is_same_v<decltype(product)::value_type, gr::bf16>);
  static_assert(std::is_same_v<decltype(sum)::value_type, float>);
}
