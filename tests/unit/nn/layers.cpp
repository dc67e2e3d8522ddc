#include <doctest/doctest.h>

#include <gradus/gradus.hpp>
#include <string>
#include <vector>

namespace gr = gradus;
using X = gr::on<gr::cpu, gr::fp32>;

TEST_CASE("nn::rms_norm has one weight, which starts at one, and is rms_norm with it") {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  gr::nn::rms_norm<X, 3> norm;
  gr::init(norm, ctx, gr::normal_init{});
  std::vector<std::string> names;
  gr::for_each_param(norm, [&](std::string_view name, const auto&) { names.emplace_back(name); });
  CHECK(names == std::vector<std::string>{"weight"});
  CHECK(gr::to_host(norm.weight.value()) == std::vector<float>{1, 1, 1});

  norm.weight.set(gr::from_values<float, gr::shape<3>>(ctx, {1, 2, -3}));
  const auto x = gr::normal<float, gr::shape<2, 4, 3>>(ctx, {.seed = 1});
  CHECK(gr::to_host(norm(x)) == gr::to_host(gr::rms_norm(x, norm.weight.value())));
  gr::tape tape{ctx};
  gr::backward(gr::sum(norm(tape.watch(x))));
  CHECK(norm.weight.gradient());
}
