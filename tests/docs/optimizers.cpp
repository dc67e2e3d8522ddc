// The code of docs/guide/optimizers.md.
#include <doctest/doctest.h>

#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include <gradus/gradus.hpp>

namespace gr = gradus;

namespace {

struct network {
  using X = gr::on<gr::cpu>;
  gr::nn::embedding<X, 16, 8> tokens;
  gr::nn::linear<X, 8, 16> head;
  GRADUS_MEMBERS(tokens, head)
  constexpr auto loss(const auto& ids, const auto& targets) const {
    return gr::cross_entropy(head(tokens(ids)), targets);
  }
};

struct world {
  gr::stream stream;
  gr::host_resource heap;
  gr::context<gr::cpu> ctx{stream, heap};
  network net;
  gr::tape<gr::cpu> tape{ctx};
  gr::tensor<std::int32_t, gr::shape<4>> ids = gr::from_values<std::int32_t, gr::shape<4>>(ctx, {1, 5, 2, 7});
  world() { gr::init(net, ctx, gr::normal_init{.seed = 1}); }
  void backward() { gr::backward(net.loss(tape.watch(ids), ids)); }
};

}  // namespace

TEST_CASE_FIXTURE(world, "settings go by name, and a schedule sets the rate") {
  // [groups]
  gr::adamw optimizer{net, {.lr = 1e-3}, [](const gr::param_info& p) {
                        if (p.name.starts_with("tokens")) return gr::param_settings{.lr = 0.1, .weight_decay = 0};
                        return gr::decay_matrices(p);
                      }};
  // [/groups]
  // [schedule]
  const gr::warmup_stable_decay rate{.peak = 1e-3, .low = 1e-5, .warmup = 10, .total = 100, .decay = 0.2};
  for (int step = 0; step < 100; ++step) {
    backward();
    optimizer.options.lr = rate(step);
    optimizer.clip_value(1.0);  // each element, then
    optimizer.clip(ctx, 1.0);   // the norm of all
    optimizer.step(ctx);
  }
  // [/schedule]
  CHECK(optimizer.steps() == 100);
}

TEST_CASE_FIXTURE(world, "rows of a table that were looked up are updated alone") {
  // [rows]
  gr::adagrad optimizer{net, {.lr = 1e-2}, [](const gr::param_info& p) {
                          return gr::param_settings{.weight_decay = 0, .rows_only = p.name == "tokens.weight"};
                        }};
  // [/rows]
  const auto before = gr::clone(net.tokens.weight.value());
  backward();
  optimizer.step(ctx);
  const auto moved = gr::to_host(gr::max<1>(gr::abs(net.tokens.weight.value() - before)) > 0);
  CHECK(moved == std::vector<bool>{false, true, true, false, false, true, false, true, false, false, false, false,
                                   false, false, false, false});
}

TEST_CASE_FIXTURE(world, "8-bit AdamW may keep some moments in float") {
  // [float_states]
  gr::adamw_8bit optimizer{net, {.lr = 1e-3}, [](const gr::param_info& p) {
                             gr::param_settings settings = gr::decay_matrices(p);
                             settings.float_states = p.name.starts_with("tokens");
                             return settings;
                           }};
  // [/float_states]
  backward();
  optimizer.step(ctx);
  CHECK(optimizer.steps() == 1);
}

TEST_CASE_FIXTURE(world, "the average of weights is the model's for a while") {
  gr::adamw optimizer{net, {.lr = 1e-2}};
  // [average]
  gr::weight_average average{net, {.decay = 0.99}};
  for (int step = 0; step < 10; ++step) {
    backward();
    optimizer.step(ctx);
    average.update(ctx);
  }
  {
    const auto guard = average.use(ctx);
    std::printf("with the average: %.3f\n", gr::item(net.loss(ids, ids)));
  }
  std::printf("with the last weights: %.3f\n", gr::item(net.loss(ids, ids)));
  // [/average]
}

TEST_CASE_FIXTURE(world, "Muon takes hidden matrices, and states have names") {
  // [muon]
  gr::muon optimizer{net, {.lr = 0.02}, [](const gr::param_info& p) {
                       return gr::param_settings{.orthogonal = !p.name.starts_with("tokens")};
                     }};
  // [/muon]
  backward();
  optimizer.step(ctx);
  // [states]
  std::map<std::string, std::vector<float>> saved;
  optimizer.for_each_state(ctx, net, [&](const gr::named_state<gr::cpu>& s) {
    const auto* values = static_cast<const float*>(s.data);  // s.dtype is f32 here
    saved[std::string(s.parameter) + "." + std::string(s.state)].assign(values, values + s.size);
  });
  // [/states]
  CHECK(saved.size() == 5);
  CHECK(saved.contains("head.weight.momentum_buffer"));
  CHECK(saved.contains("tokens.weight.exp_avg_sq"));
  CHECK(saved.contains("head.bias.exp_avg"));
}
