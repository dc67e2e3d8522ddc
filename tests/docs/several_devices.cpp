// The code of docs/guide/several-devices.md.
#include <doctest/doctest.h>

#include <cstdint>
#include <gradus/gradus.hpp>
#include <gradus/ranks/thread_communicator.hpp>
#include <gradus/train/data_parallel.hpp>
#include <mutex>
#include <vector>

namespace gr = gradus;

namespace {

template <class X>
struct mlp {
  gr::nn::linear<X, 64, 128> hidden;
  gr::nn::linear<X, 128, 10> output;
  GRADUS_MEMBERS(hidden, output)

  auto operator()(const auto& x) const { return output(gr::relu(hidden(x))); }
};

using cpu = gr::on<gr::cpu>;

auto images(gr::context<gr::cpu>& ctx, std::uint32_t number) {
  return gr::uniform<float, gr::shape<8, 64>>(ctx, gr::random_key{number + 1}, -1, 1);
}
auto labels(gr::context<gr::cpu>& ctx) { return gr::arange<std::int32_t, 8>(ctx); }

// [train]
// Trains on rank ranks.rank() of ranks.size(), and returns a weight.
std::vector<float> train(gr::communicator<gr::cpu>& ranks, gr::sharding shard) {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  mlp<cpu> net;
  gr::data_parallel<float, gr::cpu> parallel(net, ranks, ctx, ctx, {.leaves = 4, .shard = shard});
  gr::init(net, ctx, gr::normal_init{.seed = 1, .stddev = 0.1});  // the same on every rank
  parallel.take_values();
  gr::param_pieces<float, gr::cpu> pieces(net, parallel.own_pieces());  // what this rank updates
  parallel.attach(pieces);
  gr::adamw optimizer(pieces);
  optimizer.share_norm(ranks);  // clipping is by the norm of all pieces
  gr::tape tape(ctx);

  for (std::uint32_t step = 0; step < 3; ++step) {
    for (gr::index_t i = 0; i < parallel.leaves_here(); ++i) {
      const auto number = 4 * step + static_cast<std::uint32_t>(parallel.leaf(i));  // of the batch, on any rank
      parallel.begin_batch(tape, i, true);
      auto loss = gr::cross_entropy(net(tape.watch(images(ctx, number))), labels(ctx));
      gr::backward(loss, 1.0f / 4);
      parallel.end_leaf();
    }
    parallel.finish();
    optimizer.clip(ctx, 1.0);
    optimizer.step(ctx);
    parallel.gather_values();
  }
  return gr::to_host(net.output.weight.value());
}
// [/train]

}  // namespace

TEST_CASE("the guide's loop has the same weights on any number of ranks") {
  std::vector<std::vector<float>> found;
  // [ranks]
  gr::single_communicator<gr::cpu> alone;
  const std::vector<float> expected = train(alone, gr::sharding::states);
  std::mutex mutex;
  gr::run_ranks(4, [&](gr::communicator<gr::cpu>& ranks) {  // on a thread each
    const std::vector<float> weight = train(ranks, gr::sharding::gradients);
    const std::lock_guard lock(mutex);
    found.push_back(weight);  // equal to `expected`, bit for bit
  });
  // [/ranks]
  REQUIRE(found.size() == 4);
  for (const auto& weight : found) CHECK(weight == expected);
}
