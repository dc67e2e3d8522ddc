// The sums of gradients over leaves and ranks, and updates that ranks share.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <mutex>
#include <vector>

#include "../../support/scratch_folder.hpp"

#include <gradus/gradus.hpp>
#include <gradus/ranks/cpu/tree_sum.hpp>
#include <gradus/ranks/thread_communicator.hpp>
#include <gradus/run/model_file.hpp>
#include <gradus/train/data_parallel.hpp>

namespace gr = gradus;

namespace {

template <class X, gr::index_t N>
struct layer {
  gr::param<X, N, N> weight;
  gr::param<X, N> bias;
  GRADUS_MEMBERS(weight, bias)
};
// A parameter that is used twice, at both ends, and one that nothing uses.
template <class X>
struct network {
  gr::param<X, 16, 24> table;
  std::array<layer<X, 24>, 3> blocks;
  gr::param<X, 7> unused;
  GRADUS_MEMBERS(table, blocks, unused)

  auto loss(const auto& x) const {
    auto h = gr::matmul(x, table);
    for (const auto& b : blocks) h = gr::gelu(gr::linear(h, b.weight, b.bias));
    const auto error = gr::matmul<gr::transpose{.b = true}>(h, table) - x;
    return gr::mean(error * error);
  }
};

template <class P>
using policy = gr::on<gr::cpu, P>;

auto batch(gr::context<gr::cpu>& ctx, std::uint32_t number) {
  return gr::uniform<float, gr::shape<5, 16>>(ctx, gr::random_key{number + 1}, -1, 1);
}

using values = std::vector<std::vector<double>>;

template <class Net>
values all_gradients(const Net& net) {
  values all;
  gr::visit_params(net, [&](const auto& p) {
    auto& to = all.emplace_back();
    if (p.has_gradient())
      for (const auto g : gr::to_host(p.gradient())) to.push_back(static_cast<double>(static_cast<float>(g)));
  });
  return all;
}

// The gradients of an update of `leaves` leaves of two batches each, on one rank.
template <class P>
values one_rank(gr::index_t leaves) {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx(stream, heap);
  network<policy<P>> net;
  gr::init(net, ctx, gr::normal_init{.seed = 3, .stddev = 0.3});
  gr::single_communicator<gr::cpu> alone;
  using X = policy<P>;
  gr::data_parallel<typename X::store, gr::cpu, typename X::gradient> parallel(net, alone, ctx, ctx,
                                                                               {.leaves = leaves});
  gr::tape tape(ctx);
  for (int update = 0; update < 2; ++update) {
    gr::clear_gradients(net);
    for (gr::index_t i = 0; i < leaves; ++i) {
      for (gr::index_t b = 0; b < 2; ++b) {
        parallel.begin_batch(tape, i, b == 1);
        gr::backward(net.loss(tape.watch(batch(ctx, static_cast<std::uint32_t>(2 * parallel.leaf(i) + b)))));
      }
      parallel.end_leaf();
    }
    parallel.finish();
  }
  return all_gradients(net);
}

// The same sum, from the gradients of each leaf, by the definition.
template <class P>
values by_definition(gr::index_t first, gr::index_t count) {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx(stream, heap);
  if (count > 1) {
    auto sum = by_definition<P>(first, count / 2);
    const auto right = by_definition<P>(first + count / 2, count / 2);
    for (std::size_t p = 0; p < sum.size(); ++p)
      for (std::size_t i = 0; i < sum[p].size(); ++i)
        sum[p][i] = static_cast<double>(static_cast<float>(sum[p][i]) + static_cast<float>(right[p][i]));
    return sum;
  }
  network<policy<P>> net;
  gr::init(net, ctx, gr::normal_init{.seed = 3, .stddev = 0.3});
  gr::tape tape(ctx);
  for (gr::index_t b = 0; b < 2; ++b)
    gr::backward(net.loss(tape.watch(batch(ctx, static_cast<std::uint32_t>(2 * first + b)))));
  return all_gradients(net);
}

}  // namespace

TEST_CASE_TEMPLATE("leaves on one rank are summed by the tree", P, gr::fp32, gr::bf16_mixed, gr::bf16_gradients) {
  for (const gr::index_t leaves : {1, 2, 8}) {
    CAPTURE(leaves);
    auto expected = by_definition<P>(0, leaves);
    if (gr::is_rounded<typename policy<P>::gradient>)
      for (auto& p : expected)
        for (double& g : p) g = static_cast<double>(static_cast<float>(gr::bf16(static_cast<float>(g))));
    const auto found = one_rank<P>(leaves);
    REQUIRE(expected.back().empty());
    expected.back().assign(7, 0);  // of the parameter that nothing uses
    CHECK(found == expected);
  }
}

namespace {

template <class X>
struct wide_network {
  gr::param<X, 64, 96> table;
  std::array<layer<X, 96>, 2> blocks;
  gr::param<X, 9> unused;
  GRADUS_MEMBERS(table, blocks, unused)

  auto loss(const auto& x) const {
    auto h = gr::matmul(x, table);
    for (const auto& b : blocks) h = gr::dropout(gr::gelu(gr::linear(h, b.weight, b.bias)), 0.1);
    const auto error = gr::matmul<gr::transpose{.b = true}>(h, table) - x;
    return gr::mean(error * error);
  }
};

// Of two groups, which are all under way at once.
template <class X>
struct two_layers {
  layer<X, 96> first, second;
  GRADUS_MEMBERS(first, second)

  auto loss(const auto& x) const {
    const auto wide = gr::concat<1>(x, gr::slice<1, 32>(x, 0));
    const auto h = gr::gelu(gr::linear(wide, first.weight, first.bias));
    const auto y = gr::linear(h, second.weight, second.bias);
    return gr::mean(y * y);
  }
};

// Some batches, hence leaves, use both parameters, and others one. Both are groups of equal size.
template <class X>
struct branching {
  gr::param<X, 64, 64> always, sometimes;
  GRADUS_MEMBERS(always, sometimes)

  auto loss(const auto& x) const {
    const auto h = gr::matmul(x, always);
    const auto of = [](const auto& y) { return gr::mean(y * y); };
    return x.value().values()[0] > 0 ? of(gr::matmul(h, sometimes)) : of(h);
  }
};

// Parameters after three updates of 4 leaves, with clipping and dropout.
template <class P, template <class, class, class> class Optimizer, template <class> class Net = wide_network>
values trained(gr::communicator<gr::cpu>& ranks, gr::sharding shard, int threads) {
  using X = policy<P>;
  using T = typename X::store;
  using G = typename X::gradient;
  using optimizer = Optimizer<T, gr::cpu, G>;
  gr::stream stream;
  gr::set_thread_count(stream, threads);
  gr::host_resource heap;
  gr::context ctx(stream, heap);
  Net<X> net;
  gr::data_parallel<T, gr::cpu, G> parallel(
      net, ranks, ctx, ctx, {.leaves = 4, .shard = shard, .whole_parameters = optimizer::needs_whole_parameters});
  gr::init(net, ctx, gr::normal_init{.seed = 3, .stddev = 0.3}, [&](auto& p) { parallel.take_value(p); });
  gr::param_pieces<T, gr::cpu, G> pieces(net, parallel.own_pieces());
  parallel.attach(pieces);
  const auto run = [&](optimizer& opt) {
    opt.options.lr = 0.01;
    if (parallel.shares_values()) opt.share_norm(ranks);
    gr::tape tape(ctx, 5);
    for (std::uint32_t update = 0; update < 3; ++update) {
      for (gr::index_t i = 0; i < parallel.leaves_here(); ++i) {
        const auto number = 4 * update + static_cast<std::uint32_t>(parallel.leaf(i));
        tape.set_random(5, number);
        parallel.begin_batch(tape, i, true);
        const auto x = gr::uniform<float, gr::shape<5, 64>>(ctx, gr::random_key{number + 1}, -1, 1);
        gr::backward(net.loss(tape.watch(x)));
        parallel.end_leaf();
      }
      parallel.finish();
      opt.clip(ctx, 0.5);
      opt.step(ctx);
      parallel.gather_values();
    }
  };
  if (parallel.shares_values()) {
    optimizer opt(pieces);
    run(opt);
  } else {
    optimizer opt(net);
    run(opt);
  }
  values all;
  gr::visit_params(net, [&](const auto& p) {
    auto& to = all.emplace_back();
    for (const auto v : gr::to_host(p.value())) to.push_back(static_cast<double>(static_cast<float>(v)));
  });
  return all;
}

template <class P, template <class, class, class> class Optimizer, template <class> class Net = wide_network>
void check_same_bits(bool with_parameters = true) {
  gr::single_communicator<gr::cpu> alone;
  const values expected = trained<P, Optimizer, Net>(alone, gr::sharding::nothing, 1);
  for (const gr::index_t count : {1, 2, 4})
    for (const auto shard :
         {gr::sharding::nothing, gr::sharding::states, gr::sharding::gradients, gr::sharding::parameters}) {
      if (shard == gr::sharding::parameters && !with_parameters) continue;
      CAPTURE(count);
      CAPTURE(static_cast<int>(shard));
      std::mutex checking;
      gr::run_ranks(count, [&](gr::communicator<gr::cpu>& ranks) {
        const values found = trained<P, Optimizer, Net>(ranks, shard, ranks.rank() == 1 ? 3 : 1);
        const std::lock_guard alone_here(checking);
        CHECK(found == expected);
      });
    }
}

}  // namespace

TEST_CASE("training has the same bits on any number of ranks, whatever they share") {
  SUBCASE("adamw, fp32") { check_same_bits<gr::fp32, gr::adamw>(); }
  SUBCASE("two groups") { check_same_bits<gr::fp32, gr::adamw, two_layers>(); }
  SUBCASE("adamw_8bit, gradients in bf16") { check_same_bits<gr::bf16_gradients, gr::adamw_8bit>(); }
  SUBCASE("adafactor, bf16_mixed") { check_same_bits<gr::bf16_mixed, gr::adafactor>(); }
  SUBCASE("muon, fp32") { check_same_bits<gr::fp32, gr::muon>(); }
  SUBCASE("a parameter that some leaves use") { check_same_bits<gr::fp32, gr::adamw, branching>(false); }
  SUBCASE("the same, with gradients in bf16") { check_same_bits<gr::bf16_gradients, gr::adamw, branching>(false); }
}

TEST_CASE("ranks that share parameters and use different ones of them fail, and say where") {
  CHECK_THROWS_WITH_AS(gr::run_ranks(2,
                                     [](gr::communicator<gr::cpu>& ranks) {
                                       trained<gr::fp32, gr::adamw, branching>(ranks, gr::sharding::parameters, 1);
                                     }),
                       doctest::Contains("the ranks have called different collectives"), gr::rank_failed);
}

TEST_CASE("a second backward of a batch is an error, whatever is shared") {
  for (const gr::index_t count : {1, 2})
    for (const auto shard : {gr::sharding::nothing, gr::sharding::gradients, gr::sharding::parameters})
      CHECK_THROWS_WITH_AS(
          gr::run_ranks(count,
                        [&](gr::communicator<gr::cpu>& ranks) {
                          gr::stream stream;
                          gr::host_resource heap;
                          gr::context ctx(stream, heap);
                          two_layers<policy<gr::fp32>> net;
                          gr::data_parallel<float, gr::cpu> parallel(net, ranks, ctx, ctx, {.shard = shard});
                          gr::init(net, ctx, gr::normal_init{}, [&](auto& p) { parallel.take_value(p); });
                          gr::tape tape(ctx);
                          const auto x = gr::uniform<float, gr::shape<5, 64>>(ctx, gr::random_key{1}, -1, 1);
                          parallel.begin_batch(tape, 0, true);
                          for (int i = 0; i < 2; ++i) gr::backward(net.loss(tape.watch(x)));
                        }),
          doctest::Contains("data_parallel: a second backward() of one batch"), gr::error);
}

TEST_CASE("ranks that share parameters load a file by one parameter at a time, and have its values") {
  using net_type = wide_network<policy<gr::fp32>>;
  const gradus_test::scratch_folder place;
  const auto file = place.path / "model.safetensors";
  const auto values_of = [](const net_type& net) {
    values all;
    gr::visit_params(net, [&](const auto& p) {
      const auto of = gr::to_host(p.value());
      all.emplace_back(of.begin(), of.end());
    });
    return all;
  };
  values written;
  {
    gr::stream stream;
    gr::host_resource heap;
    gr::context ctx(stream, heap);
    net_type net;
    gr::init(net, ctx, gr::normal_init{.seed = 8});
    gr::save(net, file);
    written = values_of(net);
  }
  gr::run_ranks(4, [&](gr::communicator<gr::cpu>& ranks) {
    gr::stream stream;
    gr::host_resource heap;
    gr::stats_resource stats(heap);
    gr::context ctx(stream, heap), persistent(stream, stats);
    net_type net;
    gr::data_parallel<float, gr::cpu> parallel(net, ranks, persistent, ctx,
                                               {.leaves = 4, .shard = gr::sharding::parameters});
    const auto take = [&](auto& p) { parallel.take_value(p); };
    gr::init(net, persistent, gr::normal_init{.seed = 9}, take);
    stats.reset_peak();
    gr::load(net, persistent, file, {}, take);
    CHECK(stats.all().peak - stats.all().live <= sizeof(float) * 96 * 96);  // the largest parameter
    if (ranks.rank() == 0) CHECK(values_of(net) == written);
    else static_cast<void>(values_of(net));
  });
}
