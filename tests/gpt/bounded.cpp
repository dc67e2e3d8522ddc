// The GPT's model with bounded batches and contexts: loss and gradients are those of the model with these extents.
#include <doctest/doctest.h>

#include <cstdint>
#include <gradus/gradus.hpp>
#include <string>
#include <vector>

#include "gpt/model.hpp"

namespace gr = gradus;

namespace {

constexpr gpt::config sizes{.layers = 2, .heads = 2, .width = 16, .context = 12, .vocabulary = 61};
using X = gr::on<gr::cpu>;
using values = std::vector<std::vector<float>>;

/// The loss, the logits of the plain model and the gradients, of texts with these extents.
template <class Ids>
values run(const gr::extents_of<Ids>& extents, gr::region_schedule regions) {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  gpt::model<X, sizes> net;
  gr::init(net, ctx, gr::normal_init{.seed = 3});
  net.dropout = 0.1;
  net.regions = std::move(regions);
  std::vector<std::int32_t> ids(extents.size), targets(extents.size);
  for (gr::index_t i = 0; i < ids.size(); ++i) {
    const auto w = gr::random_key{.seed = 5}.words(i);
    ids[i] = static_cast<std::int32_t>(w[0] % sizes.vocabulary);
    targets[i] = static_cast<std::int32_t>(w[1] % sizes.vocabulary);
  }
  const auto x = gr::from_values<std::int32_t, Ids>(ctx, ids, extents);
  const auto y = gr::from_values<std::int32_t, Ids>(ctx, targets, extents);
  values all{gr::to_host(net(x))};
  gr::tape tape{ctx, 9};
  const auto loss = net.loss(tape.watch(x), y);
  all.push_back(gr::to_host(loss.value()));
  gr::backward(loss);
  gr::visit_params(net, [&](const auto& p) { all.push_back(gr::to_host(p.slot().value())); });
  return all;
}

}  // namespace

TEST_CASE("a GPT of up to 4 texts of up to 12 tokens has the bits of one of 3 texts of 7, with regions or without") {
  using bounded = gr::shape<gr::upto<4>, gr::upto<12>>;
  for (const bool regions : {false, true}) {
    CAPTURE(regions);
    const auto schedule = regions ? gr::region_schedule::every_block(sizes.layers) : gr::region_schedule{};
    CHECK(run<bounded>({3, 7}, schedule) == run<gr::shape<3, 7>>({}, schedule));
    CHECK(run<bounded>({4, 12}, schedule) == run<gr::shape<4, 12>>({}, schedule));
  }
}
