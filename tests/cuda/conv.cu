#include "conv_cases.hpp"
#include "device.hpp"

namespace {

template <class X>
struct net {
  gr::nn::conv2d<X, 3, 4, 3, gr::conv{.stride = 2, .padding = 1}> first;
  gr::nn::conv2d<X, 4, 4, gr::per_axis(1, 3), gr::conv{.groups = 4}, gr::nn::no_bias> second;
  gr::nn::conv_transpose2d<X, 4, 2, 2, gr::conv_transpose{.stride = 2}> third;
  GRADUS_MEMBERS(first, second, third)

  constexpr auto operator()(auto x) const { return third(second(first(std::move(x)))); }
};

// The loss of a batch of two images, and the gradient of the first weights.
template <class X, gr::index_t Batch>
std::vector<float> step(const std::vector<float>& images) {
  gpu g;
  net<X> model;
  gr::init(model, g.ctx, gr::normal_init{.seed = 3, .stddev = 0.3});
  gr::tape tape{g.ctx};
  using S = gr::shape<Batch, 3, 8, 7>;
  gr::extents_of<S> extents{};
  if constexpr (S::bounded) extents = {2};
  const auto y = model(tape.variable(gr::from_values<float, S>(g.ctx, images, extents)));
  auto loss = gr::mean(y * y);
  std::vector<float> all{static_cast<float>(gr::item(loss.value()))};
  gr::backward(loss);
  for (const float v : gr::to_host(model.first.weight.gradient())) all.push_back(v);
  return all;
}

// Whether values and gradients of images take memory for patches.
template <gr::index_t Side>
bool copies_patches() {
  gpu g;
  gr::tape tape{g.ctx};
  const auto x = tape.variable(gr::zeros<float, gr::shape<2, 4, 5, 6>>(g.ctx));
  const auto w = gr::zeros<float, gr::shape<8, 4, Side, Side>>(g.ctx);
  gr::backward(gr::sum(gr::conv2d<gr::conv{.padding = Side / 2}>(x, w)));
  return g.ctx.get<gr::cuda_kit::operand_workspace>().reserve(g.ctx, 0) != nullptr;
}

}  // namespace

TEST_CASE("convolutions on the GPU have the CPU's values and gradients, with every option") {
  if (no_gpu()) return;
  agree(&conv_on_cpu, [](auto& r) { conv_cases(r); });
}

TEST_CASE("images are matrices of patches for filters of one element on the GPU, and are not copied") {
  if (no_gpu()) return;
  CHECK_FALSE(copies_patches<1>());
  CHECK(copies_patches<3>());
}

TEST_CASE("layers of filters on the GPU: a bounded batch has the bits of a static one, in fp32 and bf16") {
  if (no_gpu()) return;
  gpu g;
  runner<gr::cuda> r(g.ctx, gradus_test::fresh_seed());
  const auto images = r.random<float>(2 * 3 * 8 * 7);
  using fp32 = gr::on<gr::cuda>;
  using mixed = gr::on<gr::cuda, gr::bf16_mixed>;
  const auto exact = step<fp32, 2>(images);
  CHECK(exact == step<fp32, gr::upto<5>>(images));
  const auto rounded = step<mixed, 2>(images);
  CHECK(rounded == step<mixed, gr::upto<5>>(images));
  const std::vector<double> wanted(exact.begin(), exact.end()), got(rounded.begin(), rounded.end());
  CHECK(relative_error(got, wanted) < 0.02);
}
