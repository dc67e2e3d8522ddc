// A GPT whose memory runs out: each request of its first step, to a resource or to the heap, is refused in turn.
// Parameters stay, nothing leaks, and the next step is to the bit what it would have been.
#include <doctest/doctest.h>

#include <cstdint>
#include <gradus/testing/failing_resource.hpp>
#include <new>
#include <vector>

#include <gradus/planning.hpp>

#include "../support/counted_heap.hpp"
#include "gpt/training.hpp"

namespace gr = gradus;

namespace {

constexpr gpt::config odd{2, 3, 15, 7, 61};
constexpr gr::index_t batch = 2;
using training = gpt::training<gr::cpu, odd, batch>;
using values = std::vector<std::vector<float>>;

struct data {
  std::vector<std::uint8_t> inputs, targets;
  data() : inputs(batch * odd.context), targets(inputs.size()) {
    for (gr::index_t i = 0; i < inputs.size(); ++i) {
      const auto w = gr::random_key{.seed = 3}.words(i);
      inputs[i] = static_cast<std::uint8_t>(w[0] % odd.vocabulary);
      targets[i] = static_cast<std::uint8_t>(w[1] % odd.vocabulary);
    }
  }
};

float step(training& t, const data& d, int batches) {
  float loss = 0;
  for (int i = 0; i < batches; ++i) loss += t.add_batch(d.inputs.data(), d.targets.data());
  t.update();
  return loss;
}
values weights(const training& t) {
  values all;
  gr::visit_params(t.net, [&](const auto& p) { all.push_back(gr::to_host(p.value())); });
  return all;
}

// Plain with and without clipping, accumulated, under schedules of regions.
std::vector<gr::training_options> kinds() {
  std::vector<gr::training_options> all(4);
  all[0] = {.dropout = 0.1, .clip = 0};
  all[1] = {.accumulate = 2};  // without dropout, as batches that went well have drawn
  all[2] = {.dropout = 0.1, .regions = gr::region_schedule::every_block(odd.layers, 0b1010)};
  all[3] = {.clip = 0};
  all[3].regions.parts = {{0, 1, true, 0, {{0, 0, true, 5}, {1, 1, false}}}};
  return all;
}

// Calls refuse(faults, n) before the first step for n = 0, 1, 2, ... until a step goes through, and allow() after each.
template <class Refuse, class Allow>
void refuse_each_in_turn(const gr::training_options& o, const Refuse& refuse, const Allow& allow) {
  gr::stream stream;
  gr::host_resource heap;
  const data d;
  float wanted_loss = 0;
  values wanted;
  {
    gr::context ctx{stream, heap};
    training t(ctx, ctx, o);
    wanted_loss = step(t, d, o.accumulate);
    wanted = weights(t);
  }
  for (std::size_t n = 0;; ++n) {
    CAPTURE(n);
    gr::testing::failing_resource faults(heap);
    gr::context persistent{stream, faults};
    gr::context transient{stream, faults};
    training t(persistent, transient, o);
    const values before = weights(t);
    const std::size_t made = faults.live();  // parameters, and places for batches
    std::size_t parameters = 0;
    gr::visit_params(t.net, [&](const auto& p) { parameters += p.value().bytes; });
    bool refused = false;
    refuse(faults, n);
    try {
      step(t, d, o.accumulate);
    } catch (const std::bad_alloc&) { refused = true; } catch (const gr::out_of_memory&) {
      refused = true;
    }
    allow();
    if (!refused) {
      CHECK(n > 50);
      CHECK(weights(t) == wanted);
      return;
    }
    CHECK(weights(t) == before);
    CHECK(t.optimizer.steps() == 0);
    t.abandon();
    const std::size_t left = faults.live() - made;  // moments of the optimizer: none, one or both
    CHECK((left == 0 || left == parameters || left == 2 * parameters));
    CHECK(step(t, d, o.accumulate) == wanted_loss);
    CHECK(weights(t) == wanted);
    CHECK(faults.live() == made + 2 * parameters);
  }
}

}  // namespace

TEST_CASE("any one request of a step to its memory resources may be refused") {
  for (const gr::training_options& o : kinds())
    refuse_each_in_turn(
        o, [](gr::testing::failing_resource& faults, std::size_t n) { faults.fail_at(n); }, [] {});
}

TEST_CASE("any one request of a step to the heap may be refused") {
  for (const gr::training_options& o : kinds())
    refuse_each_in_turn(
        o, [](gr::testing::failing_resource&, std::size_t n) { fail_heap_request(static_cast<long>(n)); },
        [] { fail_heap_request(-1); });
}
