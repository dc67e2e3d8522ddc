// Pooling, norms over channels, and a residual net with batch norm against PyTorch.
#include <doctest/doctest.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {

constexpr gr::pool two{.size = 2}, three{.size = 3, .stride = 2, .padding = 1}, four{.size = 4};
constexpr gr::pool uneven{.size = {3, 2}, .stride = {2, 1}, .padding = {1, 0}};
using images = gr::shape<2, 3, 7, 9>;
using sequences = gr::shape<2, 3, 11>;

using X = gr::on<gr::cpu>;
constexpr gr::conv padded{.padding = 1};

template <gr::index_t In, gr::index_t Out, gr::index_t Stride>
struct residual_block {
  gr::nn::conv2d<X, In, Out, 3, gr::conv{.stride = Stride, .padding = 1}, gr::nn::no_bias> first;
  gr::nn::batch_norm<X, Out> first_norm;
  gr::nn::conv2d<X, Out, Out, 3, padded, gr::nn::no_bias> second;
  gr::nn::batch_norm<X, Out> second_norm;
  gr::nn::conv2d<X, In, Out, 1, gr::conv{.stride = Stride}, gr::nn::no_bias> shortcut;
  gr::nn::batch_norm<X, Out> shortcut_norm;
  GRADUS_MEMBERS(first, first_norm, second, second_norm, shortcut, shortcut_norm)

  auto operator()(const auto& x) const {
    const auto y = gr::relu(first_norm(first(x)));
    return gr::relu(second_norm(second(y)) + shortcut_norm(shortcut(x)));
  }
};
struct residual_net {
  gr::nn::conv2d<X, 3, 8, 3, padded, gr::nn::no_bias> stem;
  gr::nn::batch_norm<X, 8> stem_norm;
  residual_block<8, 8, 1> fine;
  residual_block<8, 12, 2> coarse;
  gr::nn::linear<X, 12, 5> head;
  GRADUS_MEMBERS(stem, stem_norm, fine, coarse, head)

  auto operator()(const auto& x) const {
    const auto y = coarse(fine(gr::max_pool2d<three>(gr::relu(stem_norm(stem(x))))));
    return head(gr::reshape<4, 12>(gr::adaptive_avg_pool2d<1, 1>(y)));
  }
};

}  // namespace

TEST_CASE_TEMPLATE("pooling has PyTorch's values and gradients", T, double, float) {
  const given<images> x{"x"};
  check_case<T>(
      "max_pool2d", [](auto v) { return gr::max_pool2d<two>(v); }, x);
  check_case<T>(
      "max_pool2d_padded", [](auto v) { return gr::max_pool2d<uneven>(v); }, x);
  check_case<T>(
      "avg_pool2d", [](auto v) { return gr::avg_pool2d<three>(v); }, x);
  check_case<T>(
      "adaptive_max_pool2d", [](auto v) { return gr::adaptive_max_pool2d<3, 4>(v); }, x);
  check_case<T>(
      "adaptive_avg_pool2d", [](auto v) { return gr::adaptive_avg_pool2d<10, 4>(v); }, x);
  check_case<T>(
      "max_pool1d", [](auto v) { return gr::max_pool1d<three>(v); }, given<sequences>{"x"});
  check_case<T>(
      "avg_pool1d", [](auto v) { return gr::avg_pool1d<four>(v); }, given<sequences>{"x"});
}

TEST_CASE_TEMPLATE("group_norm and instance_norm have PyTorch's values and gradients", T, double, float) {
  const given<gr::shape<6>> w{"w"}, b{"b"};
  check_case<T>(
      "group_norm", [](auto v, auto m, auto s) { return gr::group_norm<2>(v, m, s); },
      given<gr::shape<3, 6, 4, 5>>{"x"}, w, b);
  check_case<T>(
      "instance_norm", [](auto v, auto m, auto s) { return gr::instance_norm(v, m, s); },
      given<gr::shape<3, 6, 13>>{"x"}, w, b);
}

TEST_CASE("a residual net with batch norm learns as PyTorch's twin, in checkpoint regions too") {
  const fixture recorded_net(GRADUS_TEST_DATA "/parity/images.safetensors");
  const auto values = [&](const std::string& name) { return recorded_net.values("net." + name); };
  using input = gr::shape<4, 3, 11, 10>;
  for (const bool regions : {false, true}) {
    CAPTURE(regions);
    workplace at;
    residual_net net;
    gr::init(net, at.ctx, gr::he_normal{});
    gr::for_each_tensor(net, [&](std::string_view name, auto& t) {
      auto& to = t.edit();
      const auto from = values(std::string(name));
      REQUIRE(from.size() == to.size);
      put(from, std::span<float>(to.values()));
    });
    const auto x = recorded_net.values_as<float>("net.x");
    const auto labels = recorded_net.values_as<std::int32_t>("net.labels");
    gr::sgd optimizer{net, {.lr = 0.1, .weight_decay = 0}};
    gr::tape tape{at.ctx};
    for (std::size_t step = 0; step < 3; ++step) {
      const auto v = tape.watch(gr::from_host<float, input>(at.ctx, x.data() + step * input::size));
      const auto targets = gr::from_host<std::int32_t, gr::shape<4>>(at.ctx, labels.data() + step * 4);
      const auto body = [&](const auto& u) { return net(u); };
      const auto loss = gr::cross_entropy(regions ? gr::checkpoint(body, v) : body(v), targets);
      CHECK(static_cast<double>(gr::item(loss.value())) ==
            doctest::Approx(values("loss" + std::to_string(step))[0]).epsilon(2e-6));
      gr::backward(loss);
      if (step == 0)
        gr::for_each_param(net, [&](std::string_view name, const auto& p) {
          CAPTURE(std::string(name));
          CHECK(error_in_norm(p.gradient().values(), values("grad." + std::string(name))) < 2e-6);
        });
      optimizer.step(at.ctx);
    }
    gr::for_each_tensor(net, [&](std::string_view name, const auto& t) {
      if (name.find("running") == std::string_view::npos) return;
      CAPTURE(std::string(name));
      CHECK(error_in_norm(t.value().values(), values("end." + std::string(name))) < 2e-6);
    });
    const auto scores = net(gr::from_host<float, input>(at.ctx, x.data()));
    CHECK(error_in_norm(scores.values(), values("evaluated")) < 5e-6);
  }
}
