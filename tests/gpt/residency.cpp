// A GPT of which two groups of parameters are in memory at a time computes the bits of the plain one: losses,
// gradients, evaluation and generation, with any checkpoint regions and policies.
#include "residency.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <gradus/generate/token_window.hpp>

#include "../support/message_of.hpp"
#include "../support/operands.hpp"
#include "../support/seed.hpp"
#include "gpt/training.hpp"

namespace gr = gradus;
using gradus_test::copying_store;
using gradus_test::fresh_seed;
using gradus_test::message_of;

namespace {

constexpr gpt::config small{4, 3, 39, 13, 61};
constexpr gr::index_t batch = 3;
using bf16_copies = gr::precision_with<gr::bf16_mixed, gr::keep_copies>;

// Nothing recomputed, each block, nested regions, and regions that keep some results.
std::vector<gr::training_options> kinds() {
  std::vector<gr::training_options> all(4);
  for (auto& o : all) o.dropout = 0.1;
  all[1].regions = gr::region_schedule::every_block(small.layers);
  all[2].regions.parts = {{0, 2, true, 0, {{0, 0, true, 5}, {1, 2, false}}}, {3, 3, true, 0b10110}};
  all[3].regions = gr::region_schedule::every_block(small.layers, 0b1011);
  all[3].accumulate = 2;
  return all;
}

struct place {
  gr::stream stream;
  gr::host_resource heap;
  gr::stats_resource kept_bytes{heap}, freed_bytes{heap};
  gr::context<gr::cpu> kept{stream, kept_bytes}, freed{stream, freed_bytes};
};

std::vector<std::uint8_t> random_tokens(std::uint64_t seed, std::uint32_t step) {
  std::vector<std::uint8_t> all(batch * small.context);
  for (gr::index_t i = 0; i < all.size(); ++i)
    all[i] = static_cast<std::uint8_t>(gr::random_key{.seed = seed, .step = step}.words(i)[0] % small.vocabulary);
  return all;
}

template <class Model>
bool same_gradients(const Model& a, const Model& b) {
  std::vector<std::vector<float>> all;
  gr::visit_params(a, [&](const auto& p) { all.push_back(gr::to_host(p.gradient())); });
  bool same = true;
  std::size_t at = 0;
  gr::visit_params(b, [&](const auto& p) {
    const auto other = gr::to_host(p.gradient());
    same = same && std::memcmp(other.data(), all[at++].data(), other.size() * sizeof(float)) == 0;
  });
  return same;
}

template <class P>
void check(std::size_t capacity = 2) {
  using training = gpt::training<gr::cpu, small, batch, std::uint8_t, P>;
  std::size_t kind = 0;
  for (const gr::training_options& o : kinds()) {
    CAPTURE(kind++);
    place a, b;
    training plain(a.kept, a.freed, o), paged(b.kept, b.freed, o);
    copying_store<float> store(plain.net);
    gr::parameter_residency<float, gr::cpu> residency(b.freed, gr::param_groups<float, gr::cpu>(paged.net), store,
                                                      capacity);
    std::size_t most = 0, all = 0;
    for (const auto& g : residency.groups().all()) most = std::max(most, capacity * g.bytes()), all += g.bytes();
    CHECK(b.freed_bytes.of(gr::category::parameter).live == 0);
    CHECK(most < all * 3 / 4);
    const std::uint64_t seed = fresh_seed();
    for (std::uint32_t step = 0; step < 4; ++step) {
      for (int i = 0; i < o.accumulate; ++i) {
        const auto inputs = random_tokens(seed, step), targets = random_tokens(seed + 1, step);
        CHECK(plain.add_batch(inputs.data(), targets.data()) == paged.add_batch(inputs.data(), targets.data()));
      }
      CHECK(same_gradients(plain.net, paged.net));
      CHECK(residency.resident_bytes() <= most);
      if (step == 1) {
        const auto inputs = random_tokens(seed, 9);
        CHECK(plain.evaluate(inputs.data(), inputs.data()) == paged.evaluate(inputs.data(), inputs.data()));
      }
      plain.update();
      gr::clear_gradients(paged.net);
      store.read(plain.net);
      residency.invalidate();
      CHECK(b.freed_bytes.of(gr::category::parameter).live == 0);
    }
    // A copy in the compute type takes half as much.
    CHECK(b.freed_bytes.of(gr::category::parameter).peak <= most * 3 / 2);
    CHECK(store.most_pending == 1);
  }
}

}  // namespace

TEST_CASE("with two groups resident, fp32 steps have the plain bits") { check<gr::fp32>(); }
TEST_CASE("with two groups resident, bf16 steps have the plain bits") { check<gr::bf16_mixed>(); }
TEST_CASE("with two groups resident, steps on copies in bf16 have the plain bits") { check<bf16_copies>(); }

TEST_CASE("with one group resident, or three, steps have the plain bits") {
  check<bf16_copies>(1);
  check<gr::fp32>(3);
}

TEST_CASE_TEMPLATE("generation with two groups resident has the plain logits", P, gr::fp32, bf16_copies) {
  using network = gpt::model<gr::on<gr::cpu, P>, small>;
  place a, b;
  network plain, paged;
  gr::init(plain, a.kept, gr::normal_init{.seed = fresh_seed(), .stddev = 0.3});
  copying_store<float> store(plain);
  gr::parameter_residency<float, gr::cpu> residency(b.freed, gr::param_groups<float, gr::cpu>(paged), store);
  typename network::template cache<batch> past(a.kept), past_of_paged(b.kept);
  for (int i = 0; i < 3; ++i) {
    const auto ids = gradus_test::integers<std::int32_t, gr::shape<batch, 2>>(a.kept, 0, 60);
    const auto same = gr::from_host<std::int32_t, gr::shape<batch, 2>>(b.kept, ids.data());
    const auto wanted = gr::next_logits(plain, ids, past, 2), found = gr::next_logits(paged, same, past_of_paged, 2);
    CHECK(std::memcmp(wanted.data(), found.data(), wanted.bytes) == 0);
  }
}

namespace {
struct two_layers {
  gr::nn::linear<gr::on<gr::cpu>, 8, 8> first, second;
  gr::param<gr::on<gr::cpu>, 8> a, b;
  GRADUS_MEMBERS(first, second, a, b)
};
}  // namespace

TEST_CASE("groups are the layers of a list, the members of a model, and its own parameters") {
  CHECK(gr::group_of_param("blocks.3.attention.qkv.weight") == "blocks.3");
  CHECK(gr::group_of_param("blocks.13.experts.2.up") == "blocks.13");
  CHECK(gr::group_of_param("tokens.weight") == "tokens");
  CHECK(gr::group_of_param("positions") == "");
  two_layers net;
  const gr::param_groups<float, gr::cpu> groups(net);
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].name == "first");
  CHECK(groups[0].params.size() == 2);
  CHECK(groups[0].params[1].first == 64);
  CHECK(groups[0].size == 128);
  CHECK(groups[2].params[1].first == 64);
}

TEST_CASE("the next group loads while one is used, in the order of the step before or a given one") {
  place a, b;
  two_layers plain, net;
  gr::init(plain, a.kept, gr::normal_init{.seed = 1});
  copying_store<float> store(plain);
  {
    gr::parameter_residency<float, gr::cpu> residency(b.kept, gr::param_groups<float, gr::cpu>(net), store);
    const auto x = gr::ones<float, gr::shape<2, 8>>(b.kept);
    CHECK(residency.order().empty());
    CHECK(gr::item(gr::sum(net.second(net.first(x)))) != 0);
    CHECK(store.loads == 2);
    residency.invalidate();
    CHECK(residency.order() == std::vector<std::size_t>{0, 1});
    static_cast<void>(net.first(x));
    CHECK(residency.is_resident(1));
    CHECK(store.loads == 4);
    static_cast<void>(net.second(x));
    CHECK(store.loads == 4);
    residency.follow({2, 1, 0});
    residency.evict();
    CHECK(residency.resident_bytes() == 0);
    static_cast<void>(x + net.a);
    CHECK(residency.is_resident(1));
    CHECK_FALSE(residency.is_resident(0));
    static_cast<void>(net.second(x));
    CHECK(residency.is_resident(0));
    CHECK_FALSE(residency.is_resident(2));
  }
  CHECK_FALSE(net.first.weight.value());
}

TEST_CASE("an operation on parameters of too many groups is rejected, and a load that fails leaves nothing behind") {
  place b;
  two_layers net;
  struct failing final : gr::group_store<float> {
    bool fails = false;
    void start_load(std::size_t, float* to) override {
      if (fails) throw gr::error("no disk");
      std::fill_n(to, 8, 1.0f);
    }
    void finish_load(std::size_t) override {}
  } store;
  const auto name = [](std::string_view n) { return n; };
  gr::parameter_residency<float, gr::cpu> residency(b.kept, gr::param_groups<float, gr::cpu>(net, name), store);
  const std::string message = message_of([&] { static_cast<void>(net.a + net.b); });
  CHECK(message.find("parameter_residency: the operation 'add' uses parameters of 2 groups (") == 0);
  CHECK(message.find("a capacity of 2 allows 1: join the groups, or increase the capacity") != message.npos);
  residency.evict();
  store.fails = true;
  CHECK(message_of([&] { static_cast<void>(gr::item(gr::sum(net.a.value()))); }) == "no disk");
  CHECK(residency.resident_bytes() == 0);
  CHECK(b.kept_bytes.of(gr::category::parameter).live == 0);
  store.fails = false;
  CHECK(gr::item(gr::sum(net.a.value())) == 8);
}
