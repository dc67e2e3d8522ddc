#include <doctest/doctest.h>

#include <array>
#include <string>
#include <vector>

#include <gradus/gradus.hpp>

namespace gr = gradus;

namespace {

using X = gr::on<gr::cpu, gr::fp32>;

template <class Y>
struct named {
  gr::param<Y, 2, 3> weight;
  gr::param<Y, 3> bias;
  double rate = 0.5;
  GRADUS_MEMBERS(weight, bias, rate)
};
template <class Y>
struct tree {
  gr::param<Y, 4, 2> table;
  std::array<named<Y>, 2> blocks;
  GRADUS_MEMBERS(table, blocks)
};
struct unnamed {
  gr::param<X, 2, 2> a;
  named<X> b;
  int c = 0;
};

template <class Model>
std::vector<std::string> names(Model& m) {
  std::vector<std::string> all;
  gr::for_each_param(m, [&](std::string_view name, auto&) { all.emplace_back(name); });
  return all;
}

}  // namespace

TEST_CASE("parameters are named by the path of members that leads to them") {
  tree<X> t;
  CHECK(names(t) ==
        std::vector<std::string>{"table", "blocks.0.weight", "blocks.0.bias", "blocks.1.weight", "blocks.1.bias"});
}

TEST_CASE("members of a struct without names are known by position") {
  unnamed u;
  CHECK(names(u) == std::vector<std::string>{"0", "1.weight", "1.bias"});
}

TEST_CASE("a model knows how many values it trains") {
  const tree<X> t;
  CHECK(gr::parameter_count(t) == 8 + 2 * (6 + 3));
}

TEST_CASE("initial values depend on the seed and the parameter alone; vectors start at zero, norms at one") {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  tree<X> a, b, c;
  gr::init(a, ctx, gr::normal_init{.seed = 1, .stddev = 0.5});
  gr::init(b, ctx, gr::normal_init{.seed = 1, .stddev = 0.5});
  gr::init(c, ctx, gr::normal_init{.seed = 2, .stddev = 0.5});
  CHECK(gr::to_host(a.table.value()) == gr::to_host(b.table.value()));
  CHECK(gr::to_host(a.table.value()) != gr::to_host(c.table.value()));
  CHECK(gr::to_host(a.blocks[0].weight.value()) != gr::to_host(a.blocks[1].weight.value()));
  CHECK(gr::to_host(a.blocks[0].bias.value()) == std::vector<float>(3, 0.0f));
  gr::nn::layer_norm<X, 5> norm;
  gr::init(norm, ctx, gr::normal_init{});
  CHECK(gr::to_host(norm.weight.value()) == std::vector<float>(5, 1.0f));
}

TEST_CASE("initial values have the deviation that the rule names") {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  gr::nn::linear<X, 200, 300> layer;
  gr::init(layer, ctx, gr::he_normal{.seed = 4});
  double squares = 0, sum = 0;
  for (const float x : layer.weight.value().values()) squares += double(x) * double(x), sum += double(x);
  CHECK(squares / 60000 == doctest::Approx(2.0 / 200).epsilon(0.02));
  CHECK(sum / 60000 == doctest::Approx(0).epsilon(1).scale(0.002));
}

TEST_CASE("residual projections of a deep transformer start smaller") {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  gr::nn::block<X, 64, 4, 8> block;
  gr::init(block, ctx, gr::normal_init{.seed = 4, .stddev = 1});
  double squares = 0;
  for (const float x : block.attention.projection.weight.value().values()) squares += double(x) * double(x);
  CHECK(squares / (64 * 64) == doctest::Approx(1.0 / 16).epsilon(0.1));
}

TEST_CASE("layers compute on plain values what they compute on traced ones") {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  gr::nn::block<X, 12, 3> block;
  gr::init(block, ctx, gr::normal_init{.seed = 4, .stddev = 0.3});
  auto x = gr::empty<float, gr::shape<2, 5, 12>>(ctx);
  for (gr::index i = 0; i < x.size; ++i) x.data()[i] = static_cast<float>(i % 7) - 3;
  gr::tape tape{ctx};
  CHECK(gr::to_host(block(x)) == gr::to_host(block(tape.watch(x)).value()));
}
