// Gradients and steps of those rows of a table that were looked up; and Adagrad.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "../../support/message_of.hpp"
#include "../../support/operands.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {

constexpr gr::index_t rows = 4001, width = 7;
using X = gr::on<gr::cpu>;
struct model {
  gr::nn::embedding<X, rows, width> table;
  gr::nn::linear<X, width, 3> head;
  GRADUS_MEMBERS(table, head)
  auto operator()(const auto& ids) const { return head(table(ids)); }
};
constexpr auto by_rows = [](const gr::param_info& p) {
  return gr::param_settings{.weight_decay = 0, .rows_only = p.name == "table.weight"};
};
constexpr auto dense = [](const gr::param_info&) { return gr::param_settings{.weight_decay = 0}; };

std::vector<float> values_of(const model& net) {
  std::vector<float> all;
  gr::visit_params(net, [&](const auto& p) {
    for (const float v : p.value().values()) all.push_back(v);
  });
  return all;
}

// Trains for some steps, with ids that repeat within a step, and returns the parameters.
template <class Make>
std::vector<float> trained(const Make& make, int on_threads = 2, bool clips = true, int steps = 4, int last_id = 63) {
  workplace at;
  const threads some(at.ctx, on_threads);
  model net;
  gr::init(net, at.ctx, gr::normal_init{.seed = 1, .stddev = 1});
  auto optimizer = make(net);
  gr::tape tape{at.ctx};
  for (int step = 0; step < steps; ++step) {
    for (int part = 0; part < 2; ++part) {  // accumulates
      const auto seed = static_cast<unsigned>(2 * step + part);
      const auto ids = integers<std::int32_t, gr::shape<50>>(at.ctx, 0, last_id, seed);
      const auto y = net(tape.watch(ids * 60 + 200));
      gr::backward(gr::mean(y * y), 0.5f);
    }
    if (clips) optimizer.clip(at.ctx, 0.1);
    optimizer.step(at.ctx);
  }
  return values_of(net);
}

}  // namespace

TEST_CASE("a step of rows has the bits of a dense one where zero gradients change nothing, clipped too") {
  for (const bool clips : {false, true}) {
    const auto sgd = [](const auto& settings) {
      return [&settings](model& net) { return gr::sgd(net, gr::sgd_options{.lr = 0.1}, settings); };
    };
    const auto adagrad = [](const auto& settings) {
      return [&settings](model& net) { return gr::adagrad(net, gr::adagrad_options{.lr = 0.1}, settings); };
    };
    CHECK(trained(sgd(by_rows), 2, clips) == trained(sgd(dense), 2, clips));
    CHECK(trained(adagrad(by_rows), 2, clips) == trained(adagrad(dense), 2, clips));
    CHECK(trained(adagrad(by_rows), 1, clips) == trained(adagrad(by_rows), 3, clips));
  }
}

TEST_CASE("adamw by rows is lazy: moments and values of rows that were not looked up stay") {
  workplace at;
  model net;
  gr::init(net, at.ctx, gr::normal_init{.seed = 1, .stddev = 1});
  gr::adamw optimizer(net, {.lr = 0.1}, by_rows);
  gr::tape tape{at.ctx};
  const auto step = [&](std::int32_t id) {
    gr::backward(gr::sum(net(tape.watch(gr::full<std::int32_t, gr::shape<2>>(at.ctx, id)))));
    optimizer.step(at.ctx);
  };
  const auto row = [&](gr::index_t r) {
    std::vector<float> all;
    for (gr::index_t c = 0; c < width; ++c) all.push_back(net.table.weight.value()(r, c));
    return all;
  };
  const auto moments = [&](gr::index_t r) {
    float m = 0;
    optimizer.for_each_state(at.ctx, net, [&](const gr::named_state<gr::cpu>& s) {
      if (s.parameter == "table.weight" && s.state == "exp_avg") m = static_cast<const float*>(s.data)[r * width];
    });
    return m;
  };
  const auto other = row(7);
  step(5);
  const auto after_one = row(5);
  const float moment = moments(5);
  CHECK(moment != 0);
  step(4000);
  CHECK(row(5) == after_one);  // a dense step would go on by the momentum
  CHECK(moments(5) == moment);
  CHECK(moments(4000) != 0);
  CHECK(row(7) == other);
  step(5);
  CHECK(row(5) != after_one);
  CHECK(moments(5) != moment);
}

TEST_CASE("a use that is no lookup touches all rows, for that step") {
  workplace at;
  model net;
  gr::init(net, at.ctx, gr::normal_init{.seed = 1, .stddev = 1});
  gr::sgd optimizer(net, {.lr = 1}, by_rows);
  gr::tape tape{at.ctx};
  const auto ids = gr::from_values<std::int32_t, gr::shape<2>>(at.ctx, {3, 3});
  const auto before = gr::clone(net.table.weight.value());
  const auto change = [&] { return gr::to_host(before - net.table.weight.value()); };
  const auto x = tape.watch(ids);
  gr::backward(gr::sum(net.table(x)) + gr::sum(gr::watch(net.table.weight, x)));
  optimizer.step(at.ctx);
  auto found = change();
  CHECK(found[0] == doctest::Approx(1));
  CHECK(found[3 * width] == doctest::Approx(3));
  net.table.weight.set(gr::clone(before));
  gr::backward(gr::sum(net.table(tape.watch(ids))));
  CHECK(gr::item(gr::sum(net.table.weight.gradient())) == 2 * width);  // zero again where nothing was looked up
  optimizer.step(at.ctx);
  found = change();
  CHECK(found[0] == 0);
  CHECK(found[3 * width] == doctest::Approx(2));
}

TEST_CASE("after its first steps, one of rows allocates nothing but what its operations need") {
  workplace at;
  model net;
  gr::init(net, at.ctx, gr::normal_init{.seed = 1, .stddev = 1});
  gr::adagrad optimizer(net, {}, by_rows);
  gr::tape tape{at.ctx};
  std::vector<std::size_t> in_use;
  for (int step = 0; step < 3; ++step) {
    const auto ids = integers<std::int32_t, gr::shape<50>>(at.ctx, 0, 4000, static_cast<unsigned>(step));
    gr::backward(gr::sum(net(tape.watch(ids))));
    optimizer.step(at.ctx);
    in_use.push_back(at.stats.all().live);
  }
  CHECK(in_use[1] == in_use[0]);
  CHECK(in_use[2] == in_use[0]);
}

TEST_CASE("a lookup in a checkpoint region touches its rows alone") {
  workplace at;
  model net;
  gr::init(net, at.ctx, gr::normal_init{.seed = 1, .stddev = 1});
  gr::sgd optimizer(net, {}, by_rows);
  gr::tape tape{at.ctx};
  const auto ids = tape.watch(gr::from_values<std::int32_t, gr::shape<3>>(at.ctx, {9, 2, 9}));
  gr::backward(gr::sum(gr::checkpoint([&](auto i) { return net(i); }, ids)));
  REQUIRE(net.table.weight.rows() != nullptr);
  CHECK_FALSE(net.table.weight.rows()->all());
  CHECK(net.table.weight.rows()->list() == std::vector<std::uint32_t>{2, 9});
}

TEST_CASE("gradients() of a table of which rows are tracked are dense, and leave the accumulated rows as they are") {
  workplace at;
  model net;
  gr::sgd optimizer(net, {}, by_rows);  // before there are values
  gr::init(net, at.ctx, gr::normal_init{.seed = 1, .stddev = 1});
  gr::tape tape{at.ctx};
  const auto ids = [&](std::int32_t id) { return tape.watch(gr::full<std::int32_t, gr::shape<2>>(at.ctx, id)); };
  gr::backward(gr::sum(net.table(ids(5))));
  const auto [g] = gr::gradients(gr::sum(net.table(ids(8))), net.table.weight);
  CHECK(g(8, 0) == 2);
  CHECK(gr::item(gr::sum(g)) == 2 * width);
  CHECK(net.table.weight.rows()->list() == std::vector<std::uint32_t>{5});
  CHECK(gr::item(gr::sum(net.table.weight.gradient())) == 2 * width);
  optimizer.step(at.ctx);
  gr::sgd again(net, {}, by_rows);
  gr::backward(gr::sum(net.table(ids(9))));
  CHECK(net.table.weight.rows()->list() == std::vector<std::uint32_t>{9});
  gr::freeze(net.table);
  CHECK(net.table.weight.rows()->list().empty());
}

TEST_CASE("gradients of rows are refused where they would be lost: placed memory, pieces") {
  workplace at;
  model net;
  gr::init(net, at.ctx, gr::normal_init{.seed = 1, .stddev = 1});
  gr::param_pieces pieces(net, {{.number = 0, .begin = 0, .size = 4096}});
  CHECK(message_of([&] { gr::sgd(pieces, gr::sgd_options{}, by_rows); }) ==
        "param_pieces: param_settings.rows_only is for optimizers of a whole model");
  gr::sgd optimizer(net, {}, by_rows);
  const auto storage = gr::zeros<float, gr::shape<rows, width>>(at.ctx);
  CHECK(message_of([&] { net.table.weight.slot().place(storage); }).substr(0, 26) == "param_settings.rows_only: ");
}

TEST_CASE("adagrad follows PyTorch's formula, with decay of the rate and of weights") {
  workplace at;
  model net;
  gr::init(net, at.ctx, gr::normal_init{.seed = 1, .stddev = 1});
  const auto settings = [](const gr::param_info&) { return gr::param_settings{.weight_decay = 1}; };
  gr::adagrad optimizer(net, {.lr = 0.2, .lr_decay = 0.5, .weight_decay = 0.1}, settings);
  gr::tape tape{at.ctx};
  const auto x = integers<std::int32_t, gr::shape<9>>(at.ctx, 0, 4000);
  values p = numbers(net.head.weight.value()), sum(p.size(), 0.0);
  for (int step = 1; step <= 5; ++step) {
    gr::backward(gr::mean(net(tape.watch(x)) * net(tape.watch(x))));
    const values g = numbers(net.head.weight.gradient());
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double d = g[i] + 0.1 * p[i];
      sum[i] += d * d;
      p[i] -= 0.2 / (1 + (step - 1) * 0.5) * d / (std::sqrt(sum[i]) + 1e-10);
    }
    optimizer.step(at.ctx);
    CHECK(worst_error(numbers(net.head.weight.value()), p) < 1e-5);
  }
}
