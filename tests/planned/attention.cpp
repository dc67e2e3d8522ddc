// The plan of an attention layer of BERT-large: no block of it is as large as the scores.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <gradus/gradus.hpp>
#include <gradus/planning.hpp>

namespace gr = gradus;

namespace {

constexpr gr::index_t batch = 8, length = 512, width = 1024, heads = 16;

/// A step of x + attention(x) with padded texts.
template <class D>
struct training {
  using X = gr::on<D>;
  gr::nn::linear<X, width, width> queries, keys, values, projection;
  GRADUS_MEMBERS(queries, keys, values, projection)
  gr::adamw<float, D> optimizer;
  gr::context<D>& persistent;
  gr::context<D>& transient;
  gr::tape<D> tape;

  constexpr training(gr::context<D>& rest, gr::context<D>& pass)
      : optimizer(*this), persistent(rest), transient(pass), tape(pass) {
    gr::init(*this, rest, gr::xavier_normal{.seed = 1});
  }
  constexpr void step() {
    const auto x = tape.watch(gr::ones<float, gr::shape<batch, length, width>>(transient, gr::category::input));
    const auto lengths = gr::full<std::int32_t, gr::shape<batch>>(transient, 300, gr::category::input);
    const auto y = gr::attention<heads>(queries(x), keys(x), values(x), {.dropout = 0.1, .key_lengths = lengths});
    gr::backward(gr::mean(x + projection(y)));
    optimizer.step(persistent);
  }
};

}  // namespace

TEST_CASE("a step of BERT-large's attention, 8 texts of 512 tokens, never has a matrix of scores") {
  const gr::step_trace trace = gr::trace_step<training<gr::meta>>();
  std::size_t largest = 0;
  for (const auto& block : trace.blocks) largest = std::max(largest, block.bytes);
  CHECK(largest == batch * length * width * sizeof(float));
  CHECK(largest < batch * heads * length * length * sizeof(float));
}
