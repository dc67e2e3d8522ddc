// Checkpoint regions: the same bits as without them, less memory, and clear words when they cannot work.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <gradus/gradus.hpp>
#include <gradus/testing/failing_resource.hpp>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace gr = gradus;

namespace {

using X = gr::on<gr::cpu>;
using vec = gr::shape<3, 5, 24>;

// Counts how often operations run, by phase.
class counter final : public gr::observer {
 public:
  std::map<std::string, int> forward, again, backward;
  void begin(const gr::activity& a) override {
    auto& runs = a.phase == gr::phase::forward ? forward : a.phase == gr::phase::recompute ? again : backward;
    ++runs[std::string(a.name)];
  }
  void end(const gr::activity&) override {}
  void reset() {
    forward.clear();
    again.clear();
    backward.clear();
  }
};

// A context, a transformer block and an input of odd sizes.
struct fixture {
  gr::stream stream;
  gr::host_resource heap;
  gr::testing::failing_resource faults{heap};
  gr::stats_resource stats{faults};
  gr::context<gr::cpu> ctx{stream, stats};
  gr::nn::block<X, 24, 3> block;
  gr::tensor<float, vec> x0;
  gr::tape<gr::cpu> tape{ctx, 9};

  fixture() {
    gr::init(block, ctx, gr::normal_init{.seed = 2, .stddev = 0.3});
    x0 = gr::normal<float, vec>(ctx, gr::random_key{4, 0, 0});
  }
  using values = std::vector<std::vector<float>>;
  // Loss, gradient of the input and of every parameter of `body`, twice over (the second step has its own draws).
  template <class Body>
  values run(const Body& body) {
    tape.clear();
    tape.set_random(9, 0);
    values all;
    for (int step = 0; step < 2; ++step) {
      auto x = tape.variable(x0);
      const auto y = body(x);
      const auto loss = gr::sum(y * y);
      gr::backward(loss);
      all.push_back({gr::item(loss.value())});
      all.push_back(gr::to_host(x.gradient()));
      gr::visit_params(block, [&](const auto& p) {
        all.push_back(p.gradient() ? gr::to_host(p.gradient()) : std::vector<float>{});
        p.clear_gradient();
      });
    }
    tape.clear();
    return all;
  }
  values plain() {
    return run([&](auto v) { return block(std::move(v), 0.2); });
  }
  template <class Policy>
  values under(const Policy& policy) {
    return run([&](auto v) {
      return gr::checkpoint(
          policy, [this](auto u) { return block(std::move(u), 0.2); }, std::move(v));
    });
  }
};

constexpr bool costly(const gr::region_op& op) { return op.work.flops > 20 * op.bytes; }

}  // namespace

TEST_CASE("loss and gradients are bit for bit those without a region, under every policy") {
  fixture f;
  const auto expected = f.plain();
  CHECK(expected.size() > 20);
  CHECK(f.under(gr::save_none{}) == expected);
  CHECK(f.under(gr::save_all{}) == expected);
  CHECK(f.under(gr::save_only<gr::op::matmul, gr::op::attention>{}) == expected);
  CHECK(f.under(gr::save_only<gr::op::linear>{}) == expected);
  CHECK(f.under(gr::save_all_but<gr::op::layer_norm>{}) == expected);
  CHECK(f.under(gr::save_all_but<gr::op::elementwise, gr::op::dropout>{}) == expected);
  CHECK(f.under(gr::save_costly<10>{}) == expected);
  CHECK(f.under(gr::save_if(costly)) == expected);
  for (std::uint64_t bits = 1; bits < 1024; bits = bits * 3 + 1) {
    CAPTURE(bits);
    CHECK(f.under(gr::save_numbered{bits}) == expected);
  }
}

TEST_CASE("regions nest, at any depth, with any policies") {
  fixture f;
  const auto block = [&](auto v) { return f.block(std::move(v), 0.2); };
  const auto expected = f.run([&](auto v) { return block(block(std::move(v))); });
  const auto two = [&](auto v) {
    auto h = gr::checkpoint<gr::save_only<gr::op::attention>>(block, std::move(v));
    return gr::checkpoint<gr::save_none>(block, std::move(h));
  };
  CHECK(f.run(two) == expected);
  CHECK(f.run([&](auto v) { return gr::checkpoint(two, v); }) == expected);
  CHECK(f.run([&](auto v) { return gr::checkpoint<gr::save_all>(two, v); }) == expected);
  CHECK(f.run([&](auto v) {
    return gr::checkpoint(
        [&](auto u) {
          return gr::checkpoint<gr::save_only<gr::op::layer_norm>>(
              [&](auto w) { return block(gr::checkpoint(block, w)); }, u);
        },
        v);
  }) == expected);
}

TEST_CASE("a region computes again only what its backward needs") {
  fixture f;
  counter count;
  f.ctx.observe(&count);
  const auto body = [&](auto v) { return f.block(std::move(v), 0.2); };
  const auto again = [&](const auto& policy) {
    count.reset();
    auto x = f.tape.variable(f.x0);
    gr::backward(gr::sum(gr::checkpoint(policy, body, x)));
    f.tape.clear();
    return count.again;
  };
  // Of four products the last feeds the residual sum alone: nobody needs it again, nor the dropout and the sum behind
  // it.
  auto runs = again(gr::save_none{});
  CHECK(runs["linear"] == 3);
  CHECK(runs["layer_norm"] == 2);
  CHECK(runs["causal_attention"] == 1);
  CHECK(runs["gelu"] == 1);
  CHECK(runs["add"] == 1);
  CHECK(runs["dropout"] == 1);
  CHECK(again(gr::save_all{}).empty());
  runs = again(gr::save_only<gr::op::matmul>{});
  CHECK(runs.count("linear") == 0);
  CHECK(runs["causal_attention"] == 1);
  // The first sum is kept: what only led to it is not computed.
  runs = again(gr::save_numbered{1u << 5});
  CHECK(runs["linear"] == 2);
  CHECK(runs.count("dropout") == 0);
  CHECK(runs.count("add") == 0);
  f.ctx.observe(nullptr);
}

TEST_CASE("a region keeps its arguments and what the policy says, and gives all of it back") {
  fixture f;
  const std::size_t persistent = f.stats.all().live;
  const std::size_t one = vec::size * sizeof(float);
  const auto kept = [&](const auto& policy) {
    const auto y = gr::checkpoint(
        policy, [&](auto v) { return f.block(std::move(v), 0.2); }, f.tape.watch(gr::full<float, vec>(f.ctx, 0.5f)));
    const std::size_t bytes = f.stats.all().live - persistent - one;  // the output lives here
    f.tape.clear();
    return bytes;
  };
  CHECK(kept(gr::save_none{}) == one);
  CHECK(kept(gr::save_numbered{1u << 5}) == 2 * one);
  // Kept results that no backward needs are dropped: the last product, dropout and sum are needed by none.
  CHECK(kept(gr::save_numbered{~0ull}) == kept(gr::save_numbered{(1ull << 9) - 1}));
  CHECK(f.stats.all().live == persistent);
  f.plain();
  f.under(gr::save_only<gr::op::matmul>{});
  CHECK(f.stats.all().live == persistent);
}

TEST_CASE("what is computed again is freed as backward goes") {
  gr::stream stream;
  gr::host_resource heap;
  gr::stats_resource stats(heap);
  gr::context ctx{stream, stats};
  gr::tape tape{ctx};
  using wide = gr::shape<1000>;
  const auto deep = [](auto v) {
    for (int i = 0; i < 20; ++i) v = gr::tanh(std::move(v));
    return v;
  };
  const auto peak = [&](const auto& body) {
    stats.reset_peak();
    const std::size_t before = stats.all().live;
    auto x = tape.variable(gr::full<float, wide>(ctx, 0.3f));
    for (int i = 0; i < 10; ++i) x = body(std::move(x));
    gr::backward(gr::sum(x));
    tape.clear();
    return (stats.all().peak - before) / (wide::size * sizeof(float));
  };
  CHECK(peak(deep) >= 200);
  CHECK(peak([&](auto v) { return gr::checkpoint(deep, std::move(v)); }) <= 10 + 20 + 3);
}

TEST_CASE("a region takes several arguments, of every kind, and returns several values") {
  fixture f;
  gr::param<X, 24> w;
  w.set(gr::normal<float, gr::shape<24>>(f.ctx, gr::random_key{7, 0, 0}));
  const auto bias = gr::full<float, gr::shape<24>>(f.ctx, 0.25f);
  const auto pair = [&](const auto& a, auto b, const auto& weight, auto constant) {
    auto p = gr::gelu(a * weight + constant);
    auto q = gr::dropout(gr::tanh(b) * p, 0.3);
    return std::tuple{p, q, gr::sum(q)};
  };
  const auto finish = [&](auto parts) {
    auto& [p, q, s] = parts;
    return p * q + s;
  };
  const auto plain = f.run([&](auto v) { return finish(pair(v, v * 2.0, w, bias)); });
  const auto plain_w = gr::to_host(w.gradient());
  w.clear_gradient();
  CHECK(f.run([&](auto v) { return finish(gr::checkpoint(pair, v, v * 2.0, w, bias)); }) == plain);
  CHECK(gr::to_host(w.gradient()) == plain_w);
  // Only one of the values is used, none is, and one twice.
  w.clear_gradient();
  const auto one = f.run([&](auto v) { return std::get<1>(pair(v, v, w, bias)); });
  w.clear_gradient();
  CHECK(f.run([&](auto v) { return std::get<1>(gr::checkpoint(pair, v, v, w, bias)); }) == one);
  const auto none = f.run([](auto v) { return v * 3.0; });
  CHECK(f.run([&](auto v) {
    gr::checkpoint(pair, v, v, w, bias);
    return v * 3.0;
  }) == none);
  const auto twice = f.run([](auto v) {
    auto t = gr::tanh(v);
    return t * t;
  });
  CHECK(f.run([](auto v) {
    auto [a, b] = gr::checkpoint(
        [](auto u) {
          auto t = gr::tanh(u);
          return std::tuple{t, t};
        },
        v);
    return a * b;
  }) == twice);
  // What goes in comes out.
  const auto same = f.run([](auto v) { return v * v; });
  CHECK(f.run([](auto v) { return gr::checkpoint([](auto u) { return u; }, v) * v; }) == same);
}

TEST_CASE("values that a region looks at are there the second time") {
  fixture f;
  const auto body = [](auto v) {
    auto t = gr::tanh(v);
    auto u = t * 2.0;                       // linear: nobody's gradient rule keeps t or u
    const auto mean = gr::mean(u.value());  // a constant from here on
    return gr::exp(u * mean) + 1.0;
  };
  const auto expected = f.run(body);
  CHECK(f.run([&](auto v) { return gr::checkpoint(body, v); }) == expected);
}

TEST_CASE("integers pass through a region") {
  fixture f;
  const auto body = [](auto v) {
    auto best = gr::argmax<-1>(v);
    return gr::cross_entropy(v * 1.5, best.value());
  };
  CHECK(f.run([&](auto v) { return gr::checkpoint(body, v); }) == f.run(body));
}

TEST_CASE("a model names values, and a policy keeps them by name") {
  fixture f;
  const auto body = [&](auto v) {
    auto h = gr::named(gr::gelu(f.block.mlp.up(v)), "hidden");
    return f.block.mlp.down(std::move(h));
  };
  const auto expected = f.run(body);
  counter count;
  f.ctx.observe(&count);
  CHECK(f.run([&](auto v) { return gr::checkpoint<gr::save_named<"hidden">>(body, v); }) == expected);
  CHECK(count.again["gelu"] == 0);
  CHECK(count.again["linear"] == 2);  // gelu's gradient wants its input: one product in each of two steps
  f.ctx.observe(nullptr);
}

TEST_CASE("plain values pass through the region's function alone") {
  fixture f;
  const auto y = gr::checkpoint([&](auto v) { return f.block(v, 0.2); }, f.x0);
  CHECK(gr::to_host(y) == gr::to_host(f.block(f.x0)));
  CHECK(f.tape.size() == 0);
}

TEST_CASE("a policy that names what the region has not is refused, with the name") {
  fixture f;
  const auto relu = [](auto v) { return gr::relu(v); };
  const std::size_t persistent = f.stats.all().live;
  try {
    gr::checkpoint<gr::save_only<gr::op::elementwise, gr::op::attention>>(relu, f.tape.watch(f.x0));
    FAIL("no error");
  } catch (const gr::error& e) {
    CHECK(std::string(e.what()) ==
          "checkpoint<policy>: the policy names 'attention', and the region applies nothing of that name");
  }
  CHECK_THROWS_AS(gr::checkpoint<gr::save_named<"nobody">>(relu, f.tape.watch(f.x0)), gr::error);
  CHECK_THROWS_AS(gr::checkpoint<gr::save_all_but<gr::op::matmul>>(relu, f.tape.watch(f.x0)), gr::error);
  f.tape.clear();
  CHECK(f.stats.all().live == persistent);
}

TEST_CASE("a region that does something else the second time is refused") {
  fixture f;
  int calls = 0;
  for (const bool more : {false, true}) {
    calls = 0;
    const auto y = gr::checkpoint(
        [&](auto v) {
          ++calls;
          if (calls == 1) return gr::exp(gr::tanh(v));
          return more ? gr::exp(gr::tanh(gr::tanh(v))) : gr::exp(gr::exp(v));
        },
        f.tape.watch(f.x0) * f.block.norm1.weight);
    CHECK_THROWS_WITH_AS(
        gr::backward(gr::sum(y)),
        "checkpoint: at backward the region applied other operations or read other parameters or states than in "
        "forward; its function must depend only on its arguments, and neither may change before backward()",
        gr::error);
  }
  f.block.norm1.weight.clear_gradient();
  CHECK(f.plain() == f.under(gr::save_none{}));
}

TEST_CASE("a region whose operations take or return other values the second time is refused, inner regions included") {
  fixture f;
  int calls = 0;
  const auto refused = [&](const auto& body) {
    calls = 0;
    const auto y = gr::checkpoint(body, f.tape.watch(f.x0) * f.block.norm1.weight);
    CHECK_THROWS_WITH_AS(
        gr::backward(gr::sum(y)),
        "checkpoint: at backward the region applied other operations or read other parameters or states than in "
        "forward; its function must depend only on its arguments, and neither may change before backward()",
        gr::error);
  };
  refused([&](auto v) {
    auto p = gr::exp(v);
    auto q = gr::tanh(v);
    return ++calls == 1 ? p * p : p * q;
  });
  refused([&](auto v) {
    auto p = gr::exp(v);
    auto q = gr::tanh(v);
    return ++calls == 1 ? p * q : q * p;
  });
  refused([&](auto v) {
    auto p = gr::exp(v);
    auto q = gr::exp(v * v);
    return ++calls == 1 ? p : q;
  });
  refused([&](auto v) {
    auto p = gr::exp(v);
    auto q = gr::tanh(v);
    return gr::checkpoint([](auto u) { return gr::exp(u); }, ++calls == 1 ? p : q) * q;
  });
  refused([&](auto v) {  // nothing needs the sum again, until it is looked at
    auto s = v + v;
    if (++calls == 2) return s * gr::item(gr::sum(s.value()));
    return s * 2.0f;
  });
  f.block.norm1.weight.clear_gradient();
  CHECK(f.plain() == f.under(gr::save_none{}));
}

TEST_CASE("a value that a region has moved from is empty, and its use says so") {
  fixture f;
  const auto body = [](auto v) {
    auto moved = std::move(v);
    return moved * gr::item(gr::sum(v.value()));  // NOLINT(bugprone-use-after-move): that is the mistake
  };
  CHECK_THROWS_WITH_AS(
      gr::checkpoint(body, f.tape.watch(f.x0) * f.block.norm1.weight),
      "this tensor is empty: it was moved from, default-constructed, or is a gradient that no backward() computed",
      gr::error);
}

TEST_CASE(
    "when memory runs out at any one request of a step with regions, nothing leaks and the next step is as before") {
  fixture f;
  const auto step = [&] {
    auto x = f.tape.variable(f.x0);
    auto y = gr::checkpoint<gr::save_only<gr::op::matmul>>([&](auto v) { return f.block(std::move(v), 0.2); }, x);
    y = gr::checkpoint(
        [&](auto v) { return gr::checkpoint([&](auto u) { return f.block(std::move(u), 0.1); }, std::move(v)); }, y);
    gr::backward(gr::sum(y * y));
    return gr::to_host(x.gradient());
  };
  const auto clear = [&] {
    gr::clear_gradients(f.block);
    f.tape.clear();
    f.tape.set_random(9, 0);
  };
  clear();
  const std::size_t persistent = f.stats.all().live;
  const auto expected = step();
  clear();
  const std::size_t start = f.faults.requests();
  step();
  const std::size_t requests = f.faults.requests() - start;
  clear();
  REQUIRE(requests > 60);
  for (std::size_t n = 0; n < requests; ++n) {
    CAPTURE(n);
    f.faults.fail_at(n);
    CHECK_THROWS_AS(step(), gr::out_of_memory);
    clear();
    CHECK(f.stats.all().live == persistent);
    CHECK(step() == expected);
    clear();
  }
}

TEST_CASE("a region that draws again in backward leaves the tape's own draws where they were") {
  fixture f;
  const auto x = f.tape.variable(f.x0);
  const auto y = gr::checkpoint([](auto v) { return gr::dropout(gr::tanh(gr::dropout(v, 0.5)), 0.5); }, x);
  const auto loss = gr::sum(gr::dropout(y, 0.5) * y);
  gr::backward(loss);
  CHECK(f.tape.next_key().ordinal == 3);
}

TEST_CASE("a schedule that does not cover the blocks of a chain in order is refused, and no other block is touched") {
  fixture f;
  const std::array<int, 3> blocks{};
  std::vector<const int*> used;
  const auto run = [&](std::vector<gr::chain_part> parts) {
    gr::region_schedule s;
    s.parts = std::move(parts);
    used.clear();
    gr::chain(blocks, f.tape.watch(f.x0), s, [&used](const int& block, auto v) {
      used.push_back(&block);
      return gr::tanh(std::move(v));
    });
  };
  const std::vector<const int*> inside{&blocks[0], &blocks[1], &blocks[2]};
  run({{0, 1}, {2, 2}});
  CHECK(used == inside);
  run({{0, 1, true, 0, {{0, 0}, {1, 1}}}, {2, 2, true}});
  CHECK(used == inside);
  const std::string wanted =
      "chain(blocks, x, schedule, f): the schedule's parts do not cover the chain's 3 blocks in order; it was made for "
      "another model";
  using parts = std::vector<gr::chain_part>;
  for (const parts& wrong : {parts{{0, 0}, {2, 2}}, parts{{0, 1}, {1, 2}}, parts{{0, 1}}, parts{{0, 2}, {3, 2}},
                             parts{{0, 1}, {2, 3}}, parts{{0, 2}, {3, 3}}, parts{{1, 2}}})
    for (const bool region : {false, true}) {
      CAPTURE(region);
      parts all = wrong;
      if (region)
        for (gr::chain_part& p : all) p = {p.first, p.last, true, 0, {{p.first, p.last}}};
      CHECK_THROWS_WITH_AS(run(all), wanted.c_str(), gr::error);
      for (const int* block : used) {
        CHECK(std::count(used.begin(), used.end(), block) == 1);
        CHECK(std::count(inside.begin(), inside.end(), block) == 1);
      }
    }
  const auto of_the_region = [&](const parts& inner) { run({{0, 1, true, 0, inner}, {2, 2}}); };
  CHECK_THROWS_AS(of_the_region({{0, 0}}), gr::error);
  CHECK_THROWS_AS(of_the_region({{0, 2}}), gr::error);
}

TEST_CASE("a survey of a chain that runs several times has each block once") {
  fixture f;
  std::array<gr::nn::linear<X, 24, 24>, 2> blocks;
  gr::init(blocks, f.ctx, gr::normal_init{});
  std::vector<gr::block_facts> facts;
  gr::region_schedule s;
  s.survey = &facts;
  for (int batch = 0; batch < 3; ++batch) {
    gr::chain(blocks, f.tape.watch(f.x0), s, [](const auto& block, auto v) { return block(std::move(v)); });
    CHECK(facts.size() == 2);
  }
}

TEST_CASE("what a region takes out of its recording is a constant there, as without a region") {
  fixture f;
  gr::nn::linear<X, 24, 24> layer;
  gr::init(layer, f.ctx, gr::normal_init{.seed = 3, .stddev = 0.5});
  const auto gradient = [&](bool as_region) {
    const auto body = [&](auto v) {
      const auto y = layer(std::move(v));
      return y * gr::max<-1>(y.value(), gr::keep_axes);
    };
    const auto x = f.tape.variable(f.x0);
    auto loss = as_region ? gr::sum(gr::checkpoint(body, x)) : gr::sum(body(x));
    auto found = std::get<0>(gr::gradients(loss, x));
    const auto y = as_region ? gr::checkpoint([&](auto v) { return layer(std::move(v)); }, f.tape.watch(f.x0))
                             : layer(f.tape.watch(f.x0));
    CHECK_NOTHROW(gr::backward(gr::sum(y - y.value())));
    layer.weight.clear_gradient();
    layer.bias.clear_gradient();
    f.tape.clear();
    return std::vector<float>(found.values().begin(), found.values().end());
  };
  CHECK(gradient(true) == gradient(false));
}

TEST_CASE("a parameter that is given to a region stays one where nothing is recorded") {
  fixture f;
  gr::param<gr::on<gr::cpu, gr::bf16_mixed>, 24, 24> w;
  w.set(gr::normal<float, gr::shape<24, 24>>(f.ctx, gr::random_key{1}));
  const auto product = [](auto x, const auto& p) { return gr::matmul(x, p); };
  const auto plain = gr::checkpoint(product, f.x0, w);
  const auto recorded = gr::checkpoint(product, f.tape.watch(f.x0), w);
  static_assert(std::is_same_v<decltype(plain)::value_type, gr::value_of_t<decltype(recorded)>>);
  CHECK(std::ranges::equal(plain.values(), recorded.value().values(),
                           [](auto a, auto b) { return static_cast<float>(a) == static_cast<float>(b); }));
}

namespace {
// The square of the first of its operands, of which there may be any number; it keeps the first alone.
struct square_first {
  static constexpr std::string_view name = "square_first";
  static constexpr gr::save_rule saves = gr::save_inputs(0);
  template <class X, class... Rest>
  constexpr X forward(auto, const X& x, const Rest&...) const {
    return x * x;
  }
  template <class Saved, class Y, class X, class... Rest>
  constexpr void backward(const Saved& saved, Y dy, const gr::gradient_sink<X>& dx,
                          const gr::gradient_sink<Rest>&...) const {
    if (dx) dx.give(dy * gr::input<0>(saved) * 2.0);
  }
};
}  // namespace

TEST_CASE("an operation of more than 32 operands in a region keeps what it says, and needs nothing else again") {
  fixture f;
  counter count;
  f.ctx.observe(&count);
  const auto body = [](auto v) {
    const auto first = gr::exp(v), last = gr::gelu(v);
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return gr::apply(square_first{}, first, (static_cast<void>(I), v)..., last);
    }(std::make_index_sequence<31>{});  // operand 32 is the last
  };
  CHECK(f.run([&](auto v) { return gr::checkpoint(body, v); }) == f.run(body));
  CHECK(count.again["exp"] == 2);
  CHECK(count.again.count("gelu") == 0);
  f.ctx.observe(nullptr);
}
