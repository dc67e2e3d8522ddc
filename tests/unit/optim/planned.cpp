// A step's memory is known before it runs, to the byte, for every policy and every optimizer.
#include <doctest/doctest.h>

#include <gradus/planning.hpp>

namespace gr = gradus;

namespace {

template <class D, class P, template <class, class, class> class Optimizer>
struct training {
  using X = gr::on<D, P>;
  struct mlp {
    gr::nn::linear<X, 33, 131> hidden;  // its weight has moments of 8 bits
    gr::nn::linear<X, 131, 7> output;
    GRADUS_MEMBERS(hidden, output)
    constexpr auto operator()(auto x) const { return output(gr::gelu(hidden(std::move(x)))); }
  };
  mlp net;
  gr::context<D>& persistent;
  gr::context<D>& transient;
  Optimizer<typename X::store, D, typename X::gradient> optimizer;
  gr::weight_average<typename X::store, D, typename X::gradient> average;
  gr::loss_scaler<D> scaler;
  gr::tape<D> tape;

  constexpr training(gr::context<D>& kept, gr::context<D>& freed)
      : persistent(kept), transient(freed), optimizer(net), average(net), scaler(kept), tape(freed) {
    gr::init(net, kept, gr::he_normal{.seed = 11});
  }
  constexpr void step() {
    auto x = gr::full<float, gr::shape<5, 33>>(transient, 0.5f, gr::category::input);
    auto labels = gr::zeros<std::int32_t, gr::shape<5>>(transient, gr::category::input);
    gr::backward(scaler.scale(gr::cross_entropy(net(tape.watch(std::move(x))), labels)));
    optimizer.unscale(scaler);
    optimizer.clip(transient, 1.0);
    optimizer.step(persistent);
    scaler.update(persistent);
    average.update(persistent);
    const auto guard = average.use(transient);
  }
};

template <class P, template <class, class, class> class Optimizer>
void check() {
  const gr::step_summary step = gr::summarize_step<training<gr::meta, P, Optimizer>>();
  gr::stream stream;
  gr::host_resource heap;
  gr::stats_resource stats(heap);
  gr::context<gr::cpu> persistent{stream, stats}, transient{stream, stats};
  training<gr::cpu, P, Optimizer> t(persistent, transient);
  t.step();
  stats.reset_peak();
  const std::size_t before = stats.all().allocations;
  t.step();
  CHECK(stats.all().live == step.persistent_bytes);
  CHECK(stats.all().peak == step.peak_bytes);
  CHECK(stats.all().allocations - before == step.requests);
  for (std::size_t c = 0; c < gr::category_count; ++c)
    CHECK(stats.of(static_cast<gr::category>(c)).peak == step.peak_by[c]);
}

}  // namespace

TEST_CASE_TEMPLATE("the plan of a step is exact to the byte, whatever the policy and the optimizer", P, gr::fp32,
                   gr::bf16_mixed, gr::fp16_mixed, gr::bf16_pure) {
  check<P, gr::sgd>();
  check<P, gr::adamw>();
  check<P, gr::any_precision_adamw>();
  check<P, gr::lion>();
  check<P, gr::adamw_8bit>();
  check<P, gr::adafactor>();
  check<P, gr::muon>();
}
