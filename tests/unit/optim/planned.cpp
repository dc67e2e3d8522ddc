// A step's memory is known before it runs, to the byte, for every policy and every optimizer.
#include <doctest/doctest.h>

#include <cstdint>
#include <type_traits>
#include <utility>

#include <gradus/planning.hpp>
#include <gradus/ranks/communicator.hpp>

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

// One of two ranks that share the states.
template <class D, class P, template <class, class, class> class Optimizer>
struct sharing {
  using X = gr::on<D, P>;
  struct layer {
    gr::param<X, 131, 70> weight;
    gr::param<X, 70> bias;
    GRADUS_MEMBERS(weight, bias)
  };
  layer net;
  gr::context<D>& persistent;
  gr::context<D>& transient;
  gr::param_pieces<typename X::store, D, typename X::gradient> pieces;
  std::conditional_t<D::computes, gr::single_communicator<D>, gr::meta_communicator<D>> ranks = make_ranks();
  Optimizer<typename X::store, D, typename X::gradient> optimizer;
  gr::weight_average<typename X::store, D, typename X::gradient> average;
  gr::tape<D> tape;

  static auto make_ranks() {
    if constexpr (D::computes) return gr::single_communicator<D>();
    else return gr::meta_communicator<D>(0, 2);
  }
  sharing(gr::context<D>& kept, gr::context<D>& freed)
      : persistent(kept),
        transient(freed),
        pieces(net, {{.number = 0, .begin = 4096, .size = 5074}}),
        optimizer(pieces),
        average(pieces),
        tape(freed) {
    gr::init(net, kept, gr::he_normal{.seed = 11});
    optimizer.share_norm(ranks);
  }
  void step() {
    auto x = gr::full<float, gr::shape<5, 131>>(transient, 0.5f, gr::category::input);
    gr::backward(gr::mean(gr::linear(tape.watch(std::move(x)), net.weight, net.bias)));
    optimizer.clip(transient, 1.0);
    optimizer.step(persistent);
    average.update(persistent);
  }
};

// A step looks up some rows of a table.
template <class D, class P, template <class, class, class> class Optimizer>
struct looking_up {
  using X = gr::on<D, P>;
  struct model {
    gr::nn::embedding<X, 901, 17> table;
    gr::nn::linear<X, 17, 3> head;
    GRADUS_MEMBERS(table, head)
  };
  model net;
  gr::context<D>& persistent;
  gr::context<D>& transient;
  Optimizer<typename X::store, D, typename X::gradient> optimizer;
  gr::tape<D> tape;

  looking_up(gr::context<D>& kept, gr::context<D>& freed)
      : persistent(kept),
        transient(freed),
        optimizer(net, {}, [](const gr::param_info& p) { return gr::param_settings{.rows_only = p.is_matrix}; }),
        tape(freed) {
    gr::init(net, kept, gr::he_normal{.seed = 11});
  }
  void step() {
    auto ids = gr::full<std::int32_t, gr::shape<5>>(transient, 900, gr::category::input);
    gr::backward(gr::mean(net.head(net.table(tape.watch(std::move(ids))))));
    optimizer.clip(transient, 1.0);
    optimizer.step(persistent);
  }
};

template <class P, template <class, class, class> class Optimizer,
          template <class, class, template <class, class, class> class> class Training = training>
void check() {
  const gr::step_summary step = gr::summarize_step<Training<gr::meta, P, Optimizer>>();
  gr::stream stream;
  gr::host_resource heap;
  gr::stats_resource stats(heap);
  gr::context<gr::cpu> persistent{stream, stats}, transient{stream, stats};
  Training<gr::cpu, P, Optimizer> t(persistent, transient);
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
  check<P, gr::adagrad>();
  check<P, gr::any_precision_adamw>();
  check<P, gr::lion>();
  check<P, gr::adamw_8bit>();
  check<P, gr::adafactor>();
  check<P, gr::muon>();
}

TEST_CASE("the plan of a rank that has the states of some pieces is exact to the byte") {
  check<gr::fp32, gr::adamw, sharing>();
  check<gr::bf16_pure, gr::adamw_8bit, sharing>();
}

TEST_CASE("the plan of a step that updates the rows it looked up is exact to the byte") {
  check<gr::fp32, gr::adagrad, looking_up>();
  check<gr::bf16_pure, gr::adamw, looking_up>();
  check<gr::fp32, gr::adafactor, looking_up>();
}
