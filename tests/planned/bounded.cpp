// A step whose batch is bounded: one plan serves every number of rows, without a request to the heap, and gives the
// weights that unplanned memory gives.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <gradus/gradus.hpp>
#include <gradus/planning.hpp>
#include <vector>

#include "heap.hpp"

namespace gr = gradus;

namespace {

constexpr gr::index_t most = 12, width = 24, classes = 10;

template <class D>
struct training {
  using X = gr::on<D>;
  using rows_of = gr::extents_of<gr::shape<gr::upto<most>, width>>;

  std::array<gr::nn::mlp<X, width>, 3> blocks;
  gr::nn::layer_norm<X, width> norm;
  gr::nn::linear<X, width, classes> head;
  GRADUS_MEMBERS(blocks, norm, head)
  gr::adamw<float, D> optimizer;
  gr::context<D>& persistent;
  gr::context<D>& transient;
  gr::tape<D> tape;
  gr::region_schedule regions = gr::region_schedule::every_block(3);
  std::array<float, most * width> inputs{};
  std::array<std::int32_t, most> targets{};

  constexpr training(gr::context<D>& rest, gr::context<D>& pass)
      : optimizer(*this), persistent(rest), transient(pass), tape(pass, 3) {
    gr::init(*this, rest, gr::xavier_normal{.seed = 1});
  }
  constexpr void step(gr::index_t rows = most) {
    auto x =
        gr::from_host<float, gr::shape<gr::upto<most>, width>>(transient, inputs.data(), rows, gr::category::input);
    const auto y =
        gr::from_host<std::int32_t, gr::shape<gr::upto<most>>>(transient, targets.data(), rows, gr::category::input);
    auto z = gr::chain(blocks, tape.watch(std::move(x)), regions,
                       [](const auto& block, auto v) { return v + gr::dropout(block(v), 0.1); });
    gr::backward(gr::cross_entropy(head(norm(std::move(z))), y));
    optimizer.step(persistent);
  }
};

constexpr auto summary = gr::summarize_step<training<gr::meta>>();
static_assert(summary.peak_bytes < 400'000);

/// Inputs and targets of batch `number`, and how many rows it has.
gr::index_t draw(training<gr::cpu>& t, std::uint64_t number) {
  const gr::random_key key{.seed = 5, .step = static_cast<std::uint32_t>(number)};
  for (gr::index_t i = 0; i < t.inputs.size(); ++i) t.inputs[i] = gr::uniform_float(key.words(i)[0]) - 0.5f;
  for (gr::index_t i = 0; i < most; ++i) t.targets[i] = static_cast<std::int32_t>(key.words(i)[1] % classes);
  return number == 0 ? most : 1 + key.words(0)[2] % most;
}

std::vector<std::vector<float>> weights(const training<gr::cpu>& t) {
  std::vector<std::vector<float>> all;
  gr::visit_params(t, [&](const auto& p) { all.push_back(gr::to_host(p.value())); });
  return all;
}

}  // namespace

TEST_CASE("100 batches of any number of rows take one plan, and nothing from the heap") {
  const gr::step_trace trace = gr::trace_step<training<gr::meta>>();
  gr::stream stream;
  gr::host_resource heap;
  gr::stats_resource kept(heap);
  gr::planned_resource planned(gr::make_plan(trace), heap, stream);
  gr::stats_resource used(planned);
  gr::context persistent{stream, kept}, in_plan{stream, used}, anywhere{stream, heap};
  training<gr::cpu> t(persistent, in_plan), other(anywhere, anywhere);
  std::size_t requests = 0;
  for (std::uint64_t number = 0; number < 100; ++number) {
    const gr::index_t rows = draw(t, number);
    CAPTURE(rows);
    const std::size_t before = heap_requests();
    t.step(rows);
    planned.check();
    CHECK(kept.all().live + used.all().peak == summary.peak_bytes);
    if (number > 1) requests += heap_requests() - before;
    REQUIRE(draw(other, number) == rows);
    other.step(rows);
  }
  CHECK(requests == 0);
  CHECK(weights(t) == weights(other));
}
