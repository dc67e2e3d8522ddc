#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
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

// A member of every kind that owns parameters, and of kinds that own none.
struct collection {
  std::tuple<gr::param<X, 1>, named<X>> pair;
  std::pair<gr::param<X, 2>, int> with_a_number;
  std::unique_ptr<named<X>> owned = std::make_unique<named<X>>();
  std::unique_ptr<named<X>> missing;
  std::optional<gr::param<X, 3>> perhaps{std::in_place};
  std::optional<named<X>> absent;
  gr::param<X, 4> rows[2];
  std::vector<std::unique_ptr<gr::param<X, 5>>> many;
  std::vector<bool> flags{true};
  std::vector<std::vector<double>> settings{{0.5}};
  std::string title = "model";
  gr::tensor<float, gr::shape<2>> mask;
  const char* note = "";
  GRADUS_MEMBERS(pair, with_a_number, owned, missing, perhaps, absent, rows, many, flags, settings, title, mask, note)
};
// One with private members and a constructor; what is not named is left alone, whatever it is.
class encapsulated {
 public:
  explicit encapsulated(double scale) : weight_(gr::start::drawn, scale) {}
  GRADUS_MEMBERS(weight_, inner_)

 private:
  gr::param<X, 2, 2> weight_;
  named<X> inner_;
  std::function<float(float)> not_named_;
};
struct with_behaviour : named<X> {
  int size() const { return 6; }
};
// A model may own models of its own type.
struct node {
  gr::param<X, 2> weight;
  std::unique_ptr<node> next;
  GRADUS_MEMBERS(weight, next)
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

TEST_CASE("parameters are found in tuples, pairs, optionals, owning pointers, C arrays and lists of these") {
  collection c;
  c.many.push_back(std::make_unique<gr::param<X, 5>>());
  const std::vector<std::string> wanted{"pair.0",     "pair.1.weight", "pair.1.bias", "with_a_number.0", "owned.weight",
                                        "owned.bias", "perhaps",       "rows.0",      "rows.1",          "many.0"};
  CHECK(names(c) == wanted);
  CHECK(names(std::as_const(c)) == wanted);
  CHECK(gr::parameter_count(c) == 1 + 9 + 2 + 9 + 3 + 4 + 4 + 5);
  c.missing = std::make_unique<named<X>>();
  c.absent.emplace();
  CHECK(gr::parameter_count(c) == 1 + 9 + 2 + 9 + 9 + 3 + 9 + 4 + 4 + 5);
}

TEST_CASE("a class with private members has the parameters that its line names") {
  encapsulated e(0.5);
  CHECK(names(e) == std::vector<std::string>{"weight_", "inner_.weight", "inner_.bias"});
}

TEST_CASE("a struct that derives from a model and adds no members has its parameters") {
  with_behaviour w;
  CHECK(names(w) == std::vector<std::string>{"weight", "bias"});
}

TEST_CASE("a model that owns models of its own type has the parameters of all of them") {
  node first;
  first.next = std::make_unique<node>();
  first.next->next = std::make_unique<node>();
  CHECK(names(first) == std::vector<std::string>{"weight", "next.weight", "next.next.weight"});
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  gr::init(first, ctx, gr::normal_init{});
  CHECK(gr::adamw{first}.parameters().all().size() == 3);
  first.next.reset();
  first = node{};
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

TEST_CASE("initial values are counted as parameters") {
  gr::stream stream;
  gr::host_resource heap;
  gr::stats_resource stats{heap};
  gr::context ctx{stream, stats};
  gr::nn::linear<X, 3, 5> layer;
  gr::init(layer, ctx, gr::normal_init{});
  CHECK(stats.of(gr::category::parameter).live == (3 * 5 + 5) * sizeof(float));
  CHECK(stats.all().live == stats.of(gr::category::parameter).live);
}

TEST_CASE("initial values have the deviation that the rule names") {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  gr::nn::linear<X, 200, 300> layer;
  gr::init(layer, ctx, gr::he_normal{.seed = 4});
  double squares = 0, sum = 0;
  for (const float x : layer.weight.value().values()) squares += double(x) * double(x), sum += double(x);
  CHECK(std::abs(squares / 60000 / (2.0 / 200) - 1) < 0.03);  // 5 standard errors
  CHECK(std::abs(sum / 60000) < 5 * 0.1 / std::sqrt(60000.0));
}

TEST_CASE("rules of initialisation have the deviations of their papers") {
  CHECK(gr::normal_init{.stddev = 0.3}.deviation(7, 9) == 0.3);
  CHECK(gr::normal_init{}.deviation(7, 9) == 0.02);
  CHECK(gr::he_normal{}.deviation(8, 3) == doctest::Approx(0.5));
  CHECK(gr::xavier_normal{}.deviation(30, 20) == doctest::Approx(0.2));
}

TEST_CASE("residual projections of a deep transformer start smaller") {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  gr::nn::block<X, 64, 4, 8> block;
  gr::init(block, ctx, gr::normal_init{.seed = 4, .stddev = 1});
  double squares = 0;
  for (const float x : block.attention.projection.weight.value().values()) squares += double(x) * double(x);
  CHECK(std::abs(squares / (64 * 64) * 16 - 1) < 0.11);  // 5 standard errors
  for (const double scale : {block.attention.projection.weight.start_scale(), block.mlp.down.weight.start_scale()})
    CHECK(scale == doctest::Approx(0.25));  // 1 / sqrt(2 * 8)
  CHECK(gr::nn::mlp<X, 4>().down.weight.start_scale() == doctest::Approx(std::sqrt(0.5)));
  for (const double scale : {block.attention.qkv.weight.start_scale(), block.mlp.up.weight.start_scale()})
    CHECK(scale == 1);
}

TEST_CASE("a parameter that is moved takes with it what it starts at") {
  gr::param<X, 2, 3> from{gr::start::drawn, 0.25}, to{gr::start::ones};
  to = std::move(from);
  CHECK(to.starts() == gr::start::drawn);
  CHECK(to.start_scale() == 0.25);
  const gr::param<X, 2, 3> last{std::move(to)};
  CHECK(last.starts() == gr::start::drawn);
  CHECK(last.start_scale() == 0.25);
}

TEST_CASE("a parameter's draws are those of its place in the model, whatever stands before it") {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  tree<X> t;
  gr::init(t, ctx, gr::normal_init{.seed = 5, .stddev = 0.5});
  const auto check = [&](const auto& p, std::uint32_t place) {
    using S = typename std::remove_cvref_t<decltype(p)>::shape;
    const gr::random_key key{.seed = 5, .step = 0xFFFFFFFFu, .ordinal = place};
    const auto wanted = gr::normal<float, S>(ctx, key, 0, 0.5);
    for (gr::index_t i = 0; i < S::size; ++i) CHECK(p.value().data()[i] == doctest::Approx(wanted.data()[i]));
  };
  check(t.table, 0);
  check(t.blocks[0].weight, 1);
  check(t.blocks[1].weight, 3);  // a vector, which starts at zero, has a place as well
}

TEST_CASE("a block is x + attention(norm1(x)), then that + mlp(norm2(of that)), with dropout on both branches") {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  gr::nn::block<X, 12, 3> block;
  gr::init(block, ctx, gr::normal_init{.seed = 4, .stddev = 0.3});
  block.norm1.weight.set(gr::normal<float, gr::shape<12>>(ctx, {.seed = 1}));
  block.norm2.bias.set(gr::normal<float, gr::shape<12>>(ctx, {.seed = 2}));
  const auto x = gr::normal<float, gr::shape<2, 5, 12>>(ctx, {.seed = 3});
  gr::tape tape{ctx, 6};
  for (const double drop : {0.0, 0.5}) {
    tape.set_random(6, 0);
    const auto v = tape.watch(x);
    const auto y = v + gr::dropout(block.attention(block.norm1(v)), drop);
    const auto wanted = y + gr::dropout(block.mlp(block.norm2(y)), drop);
    tape.set_random(6, 0);
    CHECK(gr::to_host(block(tape.watch(x), drop).value()) == gr::to_host(wanted.value()));
  }
}

TEST_CASE("layers compute on plain values what they compute on traced ones") {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  gr::nn::block<X, 12, 3> block;
  gr::init(block, ctx, gr::normal_init{.seed = 4, .stddev = 0.3});
  auto x = gr::empty<float, gr::shape<2, 5, 12>>(ctx);
  for (gr::index_t i = 0; i < x.size; ++i) x.data()[i] = static_cast<float>(i % 7) - 3;
  gr::tape tape{ctx};
  CHECK(gr::to_host(block(x)) == gr::to_host(block(tape.watch(x)).value()));
}
