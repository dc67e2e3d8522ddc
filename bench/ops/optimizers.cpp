// A step of each optimizer on one matrix of 4096 x 4096 parameters, 64 MiB in float: what it reads and writes, which
// its own cost names, beside what this machine can copy.
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "measure.hpp"

namespace bench {
namespace {

template <class X>
struct one_matrix {
  gr::param<X, 4096, 4096> weight;
  GRADUS_MEMBERS(weight)
};

class work_of_step : public gr::observer {
 public:
  void begin(const gr::activity& a) override { work = work + a.work; }
  void end(const gr::activity&) override {}
  gr::cost work;
};

template <class X, class Make>
struct world {
  gr::stream stream;
  gr::host_resource heap;
  gr::pool_resource pool{heap};
  gr::context<gr::cpu> ctx{stream, pool};
  one_matrix<X> net;
  decltype(std::declval<Make>()(net)) optimizer;

  explicit world(const Make& make) : optimizer(make(net)) {
    gr::init(net, ctx, gr::normal_init{.seed = 1, .stddev = 0.02});
  }
  double step() {
    using gradient = typename X::gradient;
    net.weight.slot().give(gr::full<gradient, gr::shape<4096, 4096>>(ctx, gradient(0.001f), gr::category::gradient));
    return seconds_of([&] { optimizer.step(ctx); });
  }
};

template <class Precision, class Make>
void add(const machine& peak, const std::string& name, Make make) {
  using X = gr::on<gr::cpu, Precision>;
  gr::cost work;
  {
    world<X, Make> w(make);
    w.step();  // makes the states
    work_of_step counted;
    w.ctx.observe(&counted);
    w.step();
    work = counted.work;
  }
  add_row(peak, "step/" + name, static_cast<double>(work.bytes()), static_cast<double>(work.flops), [make] {
    world<X, Make> w(make);
    return best_of([&] { return w.step(); });
  });
}

template <class Precision>
void add_all(const machine& peak, const std::string& precision) {
  add<Precision>(peak, "sgd" + precision, [](auto& net) { return gr::sgd{net, {.lr = 1e-3, .momentum = 0.9}}; });
  add<Precision>(peak, "lion" + precision, [](auto& net) { return gr::lion{net}; });
  add<Precision>(peak, "adamw" + precision, [](auto& net) { return gr::adamw{net}; });
  add<Precision>(peak, "any_precision_adamw" + precision, [](auto& net) { return gr::any_precision_adamw{net}; });
  add<Precision>(peak, "adamw_8bit" + precision, [](auto& net) { return gr::adamw_8bit{net}; });
  add<Precision>(peak, "adafactor" + precision, [](auto& net) { return gr::adafactor{net}; });
}

}  // namespace

void register_optimizers(const machine& peak) {
  add_all<gr::fp32>(peak, "");
  add_all<gr::bf16_pure>(peak, "/bf16");
}

}  // namespace bench
