// A GPT trained under schedules of checkpoint regions, to be compared bit by bit.
#pragma once
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include <gradus/planning.hpp>

#include "gpt/training.hpp"

namespace gradus_test {

namespace gr = gradus;

struct run_result {
  std::vector<float> losses;
  std::vector<std::vector<float>> gradients, weights;
  bool operator==(const run_result&) const = default;
};

template <class Tensor>
std::vector<float> floats(const Tensor& x) {
  std::vector<float> values;
  for (const auto v : gr::to_host(x)) values.push_back(gr::convert_element<float>(v));
  return values;
}

/// Three steps with dropout under a schedule of regions.
template <gpt::config C, gr::index_t Batch, class Precision = gr::fp32>
run_result train(const gr::region_schedule& regions, int threads) {
  gr::stream stream;
  gr::set_thread_count(stream, threads);
  gr::host_resource heap;
  gr::context persistent{stream, heap};
  gr::context transient{stream, heap};
  gpt::training<gr::cpu, C, Batch, std::uint8_t, Precision> t(persistent, transient,
                                                              {.dropout = 0.1, .seed = 11, .regions = regions});
  run_result r;
  std::vector<std::uint8_t> inputs(Batch * C.context), targets(inputs.size());
  for (std::uint32_t step = 0; step < 3; ++step) {
    for (gr::index_t i = 0; i < inputs.size(); ++i) {
      const auto w = gr::random_key{.seed = 3, .step = step}.words(i);
      inputs[i] = static_cast<std::uint8_t>(w[0] % C.vocabulary);
      targets[i] = static_cast<std::uint8_t>(w[1] % C.vocabulary);
    }
    r.losses.push_back(t.add_batch(inputs.data(), targets.data()));
    gr::visit_params(t.net, [&](const auto& p) { r.gradients.push_back(floats(p.gradient())); });
    t.update();
  }
  gr::visit_params(t.net, [&](const auto& p) { r.weights.push_back(floats(p.value())); });
  return r;
}

/// Every block by the same policy; one policy a block; a region over several blocks with regions inside.
inline std::vector<gr::region_schedule> schedules(gr::index_t layers) {
  std::vector<gr::region_schedule> all;
  for (const std::uint64_t keep :
       {std::uint64_t{0}, ~std::uint64_t{0}, std::uint64_t{0b0010010010}, std::uint64_t{0b1000100}})
    all.push_back(gr::region_schedule::every_block(layers, keep));
  gr::region_schedule mixed;
  for (gr::index_t i = 0; i < layers; ++i) mixed.parts.push_back({i, i, i % 2 == 0, i * 37});
  all.push_back(mixed);
  gr::region_schedule nested;
  nested.parts = {{0, layers - 2, true, 0}, {layers - 1, layers - 1, false}};
  for (gr::index_t i = 0; i + 1 < layers; ++i) nested.parts[0].inner.push_back({i, i, i + 2 < layers, i * 3});
  all.push_back(nested);
  return all;
}

template <gpt::config C, gr::index_t Batch, class Precision = gr::fp32>
void check_all() {
  const auto plain = train<C, Batch, Precision>({}, 2);
  CHECK(train<C, Batch, Precision>({}, 1) == plain);
  for (const auto& s : schedules(C.layers)) {
    CHECK(train<C, Batch, Precision>(s, 2) == plain);
    CHECK(train<C, Batch, Precision>(s, 1) == plain);
  }
}

}  // namespace gradus_test
