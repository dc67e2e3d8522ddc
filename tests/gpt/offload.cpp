// A GPT whose parameters and optimizer states are in a file trains to the bits of one in memory.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "../support/scratch_folder.hpp"
#include "../support/seed.hpp"
#include "gpt/training.hpp"

namespace gr = gradus;

namespace {

constexpr gpt::config small{3, 3, 96, 13, 300};
constexpr gr::index_t batch = 3;

template <class P, template <class, class, class> class Optimizer>
class steps {
 public:
  using network = gpt::model<gr::on<gr::cpu, P>, small>;
  using ids = gr::shape<batch, small.context>;

  steps(gr::context<gr::cpu>& kept, gr::context<gr::cpu>& freed, std::uint64_t seed)
      : kept_(kept), freed_(freed), tape_(freed, seed), optimizer_(net_, {.lr = 1e-2}) {
    net_.dropout = 0.1;
    net_.regions = gr::region_schedule::every_block(small.layers);
    gr::init(net_, kept, gr::normal_init{.seed = seed, .stddev = 0.02});
    if constexpr (std::is_same_v<typename P::store, gr::bf16>) optimizer_.set_rounding(gr::rounding::stochastic, seed);
  }
  network& net() { return net_; }
  auto& optimizer() { return optimizer_; }
  float backward(const std::vector<std::int32_t>& tokens) {
    const auto x = gr::from_host<std::int32_t, ids>(freed_, tokens.data());
    const auto y = gr::from_host<std::int32_t, ids>(freed_, tokens.data() + 1);
    const auto loss = net_.loss(tape_.watch(x), y);
    gr::backward(loss);
    return static_cast<float>(gr::item(loss.value()));
  }
  void update() {
    optimizer_.clip(freed_, 1);
    optimizer_.step(kept_);
  }

 private:
  gr::context<gr::cpu>&kept_, &freed_;
  gr::tape<gr::cpu> tape_;
  network net_;
  Optimizer<typename P::store, gr::cpu, typename P::gradient> optimizer_;
};

template <class Model>
std::vector<std::vector<float>> values_of(const Model& net) {
  std::vector<std::vector<float>> all;
  gr::visit_params(net, [&](const auto& p) { all.push_back(gr::to_host(gr::cast<float>(p.value()))); });
  return all;
}

template <class P, template <class, class, class> class Optimizer = gr::adamw>
void check() {
  using T = typename P::store;
  const std::uint64_t seed = gradus_test::fresh_seed();
  const gradus_test::scratch_folder folder;
  gr::stream stream;
  gr::host_resource heap;
  gr::file_resource file(folder.path);
  gr::stats_resource memory(heap);
  gr::context in_memory{stream, heap}, in_file{stream, file}, freed{stream, memory};
  steps<P, Optimizer> plain(in_memory, in_memory, seed), offloaded(in_file, freed, seed);
  gr::file_store<T, typename P::gradient> store(file,
                                                gr::param_groups<T, gr::cpu, typename P::gradient>(offloaded.net()));
  gr::parameter_residency<T, gr::cpu, typename P::gradient> residency(
      freed, gr::param_groups<T, gr::cpu, typename P::gradient>(offloaded.net()), store);
  gr::file_parts parts(file, 5000);
  offloaded.optimizer().divide_by(&parts);
  std::size_t largest = 0;
  for (const auto& g : residency.groups().all()) largest = std::max(largest, g.bytes());
  for (std::uint32_t step = 0; step < 5; ++step) {
    std::vector<std::int32_t> tokens(batch * small.context + 1);
    for (gr::index_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<std::int32_t>(gr::random_key{.seed = seed, .step = step}.words(i)[0] % small.vocabulary);
    CHECK(plain.backward(tokens) == offloaded.backward(tokens));
    plain.update();
    residency.evict();
    CHECK(memory.of(gr::category::parameter).live == 0);
    store.attach();
    offloaded.update();
    CHECK(values_of(plain.net()) == values_of(offloaded.net()));
    residency.invalidate();
  }
  CHECK(memory.of(gr::category::parameter).peak <= 2 * largest);
  CHECK(memory.of(gr::category::optimizer_state).peak == 0);
}

}  // namespace

TEST_CASE("with parameters and states in a file, fp32 training has the bits of memory") { check<gr::fp32>(); }
TEST_CASE("with parameters and states in a file, bf16 products and fp32 states have the bits of memory") {
  check<gr::bf16_mixed>();
}
TEST_CASE("with parameters and states in a file, states of 8 bits have the bits of memory") {
  check<gr::fp32, gr::adamw_8bit>();
}
TEST_CASE("with parameters and states in a file, stochastic rounding has the bits of memory") {
  check<gr::bf16_pure>();
}
