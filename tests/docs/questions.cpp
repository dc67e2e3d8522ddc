// Code of the guide that answers single questions: states of recurrent layers, contexts in a model, draws when
// gradients accumulate, running means of all batches, inputs of a plan, 16-bit gradients.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <vector>

#include <gradus/planning.hpp>

#include "../support/message_of.hpp"

namespace gr = gradus;

namespace {

struct world {
  gr::stream stream;
  gr::host_resource heap;
  gr::context<gr::cpu> ctx{stream, heap};
  using X = gr::on<gr::cpu>;
};

// [context]
template <class X>
struct with_positions {
  gr::nn::linear<X, 1, 8> position;
  GRADUS_MEMBERS(position)

  auto operator()(const auto& x) const {  // [6, 8]
    auto& ctx = gr::plain(x).owner();     // plain(x): the tensor of a traced value, a parameter, or x itself
    const auto steps = gr::cumsum<0>(gr::ones<float, gr::shape<6, 1>>(ctx)) - 1.0;  // 0 .. 5
    return x + position(gr::watch(steps, x));
  }
};
// [/context]

}  // namespace

TEST_CASE_FIXTURE(world, "a state of one's own continues a sequence, and zero_state has rows of a bounded batch") {
  gr::nn::gru<X, 4, 8> gru;
  gr::nn::lstm<X, 4, 8, 2> lstm;
  gr::init(gru, ctx, gr::normal_init{.seed = 1});
  gr::init(lstm, ctx, gr::normal_init{.seed = 2});
  const auto x = gr::uniform<float, gr::shape<3, 5, 4>>(ctx, {.seed = 1});
  const auto encoded = gr::uniform<float, gr::shape<3, 8>>(ctx, {.seed = 2});
  // [states]
  auto h = gr::reshape<1, 3, 8>(encoded);                    // [Layers, B, Hidden]
  auto [y, next] = gru(x, gr::nn::gru_state{h});             // next.h [1, 3, 8]
  auto both = gr::stack<0>(encoded, encoded);                // of two layers
  auto [z, last] = lstm(x, gr::nn::lstm_state{both, both});  // last.h and last.c, [2, 3, 8] each
  // [/states]
  CHECK(gr::to_host(next.h) == gr::to_host(gr::reshape<1, 3, 8>(gr::slice<1, 4, 1>(y))));
  CHECK(gr::to_host(gr::slice<0, 1, 1>(last.h)) == gr::to_host(gr::reshape<1, 3, 8>(gr::slice<1, 4, 1>(z))));
  // [bounded_state]
  auto rows = gr::zeros<float, gr::shape<gr::upto<16>, 5, 4>>(ctx, 3);  // 3 of at most 16
  auto zero = gru.zero_state<gr::upto<16>>(ctx, rows.extent(0));
  // [/bounded_state]
  const auto from_zero = gru(rows, zero);
  CHECK(gr::to_host(from_zero.first) == gr::to_host(gru(rows)));
}

TEST_CASE_FIXTURE(world, "a model takes the context from its input") {
  with_positions<X> net;
  gr::init(net, ctx, gr::normal_init{.seed = 1});
  const auto x = gr::uniform<float, gr::shape<6, 8>>(ctx, {.seed = 1});
  gr::tape tape{ctx};
  const auto y = net(tape.watch(x));
  CHECK(gr::to_host(y.value()) == gr::to_host(net(x)));
  gr::backward(gr::sum(y));
  CHECK(net.position.weight.gradient()(0, 0) == doctest::Approx(15));
}

TEST_CASE_FIXTURE(world, "a resumed run that accumulates sets the number of recordings") {
  const auto x = gr::ones<float, gr::shape<64>>(ctx);
  std::vector<std::vector<float>> draws;
  constexpr std::uint32_t parts = 3;
  const auto part_of_an_update = [&](gr::tape<gr::cpu>& tape) {
    const auto y = gr::dropout(tape.variable(x), 0.5);
    draws.push_back(gr::to_host(y.value()));
    gr::backward(gr::sum(y));
  };
  gr::tape tape{ctx, 42};
  for (std::uint32_t i = 0; i < 3 * parts; ++i) part_of_an_update(tape);
  const auto all = draws;
  draws.clear();
  const std::uint32_t updates = 2;
  // [resume_accumulated]
  gr::tape resumed{ctx};
  resumed.set_random(42, updates * parts);  // recordings so far: each of the `parts` of an update is one
  // [/resume_accumulated]
  for (std::uint32_t i = 0; i < parts; ++i) part_of_an_update(resumed);
  CHECK(draws == std::vector<std::vector<float>>(all.begin() + 6, all.end()));
}

TEST_CASE_FIXTURE(world, "momentum=None is the mean over all batches") {
  gr::nn::batch_norm<X, 3> norm;
  gr::init(norm, ctx, gr::normal_init{});
  gr::tape tape{ctx};
  auto sum = gr::zeros<float, gr::shape<3>>(ctx);
  const auto batch = [&](int i) {
    return gr::uniform<float, gr::shape<5, 3>>(ctx, {.seed = static_cast<std::uint64_t>(i)});
  };
  // [cumulative]
  for (int i = 0; i < 10; ++i) {
    norm.options.momentum = 1.0 / (i + 1);  // the running state becomes the mean over batches 0 to i
    auto y = norm(tape.watch(batch(i)));
    // ...
    gr::backward(gr::sum(y));
  }
  // [/cumulative]
  for (int i = 0; i < 10; ++i) sum = sum + gr::mean<0>(batch(i));
  for (gr::index_t c = 0; c < 3; ++c) CHECK(norm.running_mean.value()(c) == doctest::Approx(sum(c) / 10).epsilon(1e-5));
}

TEST_CASE_FIXTURE(world, "weights' gradients of fp16_mixed are sums in float, beyond what f16 holds") {
  gr::nn::linear<gr::on<gr::cpu, gr::fp16_mixed>, 2, 1> layer;
  gr::init(layer, ctx, gr::normal_init{.seed = 1});
  gr::tape tape{ctx};
  const auto x = gr::full<float, gr::shape<512, 2>>(ctx, 1000);
  gr::backward(gr::sum(layer(tape.watch(x))));
  CHECK(layer.weight.gradient()(0, 0) == doctest::Approx(512'000));  // f16 ends at 65504
}

namespace {
template <class D, gr::category Input>
struct counted_step {
  gr::param<gr::on<D>, 8, 8> weight;
  gr::context<D>& transient;
  gr::tape<D> tape;
  counted_step(gr::context<D>& kept, gr::context<D>& freed) : transient(freed), tape(freed) {
    gr::init(weight, kept, gr::normal_init{});
  }
  void step() {
    const auto x = gr::full<float, gr::shape<4, 8>>(transient, 1.0f, Input);
    gr::backward(gr::sum(gr::matmul(tape.watch(x), weight)));
    weight.clear_gradient();
  }
};
}  // namespace

TEST_CASE_FIXTURE(world, "a planned step's inputs have the plan's category") {
  using planned_with_inputs = counted_step<gr::meta, gr::category::input>;
  const auto run = [&]<gr::category Input>(std::integral_constant<gr::category, Input>) {
    gr::planned_resource planned(gr::make_plan(gr::trace_step<planned_with_inputs>()), heap, stream);
    gr::context<gr::cpu> transient{stream, planned};
    counted_step<gr::cpu, Input> net(ctx, transient);
    return gradus_test::message_of([&] {
      for (int i = 0; i < 2; ++i) net.step();
      planned.check();
    });
  };
  CHECK(run(std::integral_constant<gr::category, gr::category::input>{}) == "nothing was thrown");
  const auto message = run(std::integral_constant<gr::category, gr::category::activation>{});
  CHECK(message.find("asks 128 bytes (activation") != std::string::npos);
  CHECK(message.find("the plan has 128 bytes (input") != std::string::npos);
}
