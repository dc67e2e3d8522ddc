// Groups of parameters that come and go on the GPU: their copies in bf16 do so with them, and bits stay.
#include <gradus/model/parameter_residency.hpp>

#include <algorithm>
#include <array>
#include <string>

#include "device.hpp"

namespace {

struct network {
  using X = gr::on<gr::cuda, gr::bf16_mixed>;
  std::array<gr::nn::linear<X, 32, 32>, 5> layers;
  gr::nn::layer_norm<X, 32> norm;
  GRADUS_MEMBERS(layers, norm)

  auto loss(auto x, const gr::region_schedule& regions) const {
    x = gr::chain(layers, std::move(x), regions, [](const auto& layer, auto v) { return v + gr::gelu(layer(v)); });
    return gr::mean(gr::gelu(norm(std::move(x))));
  }
};

struct uploading_store final : gr::group_store<float> {
  gr::context<gr::cuda>* ctx;
  std::vector<std::vector<float>> arrays;

  uploading_store(gr::context<gr::cuda>& on, const network& from) : ctx(&on) {
    gr::for_each_param(from, [&](std::string_view name, const auto& p) {
      if (name.ends_with("weight") || arrays.empty()) arrays.emplace_back();
      const auto values = gr::to_host(p.value());
      arrays.back().insert(arrays.back().end(), values.begin(), values.end());
      arrays.back().resize((arrays.back().size() + 63) / 64 * 64);
    });
  }
  void start_load(std::size_t group, float* to) override {
    gr::device_access<gr::cuda>::upload(*ctx, to, arrays[group].data(), arrays[group].size() * sizeof(float));
  }
  void finish_load(std::size_t) override {}
};

std::vector<std::vector<float>> gradients(const network& net) {
  std::vector<std::vector<float>> all;
  gr::visit_params(net, [&](const auto& p) {
    all.push_back(gr::to_host(p.gradient()));
    p.clear_gradient();
  });
  return all;
}

}  // namespace

TEST_CASE("with two groups of parameters on the GPU, losses and gradients have the plain bits") {
  if (no_gpu()) return;
  gpu d;
  gr::basic_stats_resource<gr::cuda_stream> stats(d.poisoned);
  gr::context<gr::cuda> ctx{d.stream, stats};
  network plain, paged;
  gr::init(plain, d.ctx, gr::xavier_normal{.seed = gradus_test::fresh_seed()});
  uploading_store store(ctx, plain);
  gr::parameter_residency<float, gr::cuda> residency(ctx, gr::param_groups<float, gr::cuda>(paged), store);
  const auto values = runner<gr::cuda>(d.ctx, gradus_test::fresh_seed()).random<float>(8 * 32);
  const auto step = [&](const network& net, const gr::region_schedule& regions) {
    gr::tape tape{d.ctx};
    const auto loss = net.loss(tape.watch(gr::from_host<float, gr::shape<8, 32>>(d.ctx, values.data())), regions);
    const float value = gr::item(loss.value());
    gr::backward(loss);
    return value;
  };
  for (const auto& regions : {gr::region_schedule{}, gr::region_schedule::every_block(5)}) {
    CHECK(step(plain, regions) == step(paged, regions));
    CHECK(gradients(plain) == gradients(paged));
    residency.invalidate();
    CHECK(stats.of(gr::category::parameter).live == 0);
  }
  const std::size_t group = residency.groups()[0].bytes();
  CHECK(stats.of(gr::category::parameter).peak <= 2 * group + group);  // values, and copies of half the size
}
