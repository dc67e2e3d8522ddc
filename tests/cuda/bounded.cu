// Bounded extents on the GPU: the bits of static programs with the same extents, in forward and backward; and steps
// that are captured once for each number of rows.
#include "../support/bounded.hpp"

#include <gradus/plan/placement.hpp>
#include <gradus/plan/step_summary.hpp>
#include <string>

#include "device.hpp"

using gr::shape, gr::upto;

namespace {

template <class F>
class same_bits_as_static {
  const F& f_;
  unsigned seed_ = gradus_test::fresh_seed();

 public:
  explicit same_bits_as_static(const F& f) : f_(f) {}
  template <class Bounded, class Static>
  void check(const gr::bounded_extents<Bounded>& extents, Static) const {
    CAPTURE(seed_);
    CHECK(gradus_test::bits_of<gpu, Bounded>(f_, seed_, extents) == gradus_test::bits_of<gpu, Static>(f_, seed_, {}));
  }
};

constexpr gr::index_t most = 6;

/// A step of up to `most` rows, whose inputs stay where they are.
template <class D>
struct step_of_rows {
  using device = D;
  using X = gr::on<D>;
  gr::param<X, 13, 16> w1;
  gr::param<X, 16> b1;
  gr::param<X, 16, 5> w2;
  GRADUS_MEMBERS(w1, b1, w2)
  gr::context<D>& kept;
  gr::adamw<float, D> optimizer;
  gr::tape<D> tape;
  gr::tensor<float, shape<upto<most>, 13>, D> x;
  gr::tensor<std::int32_t, shape<upto<most>>, D> y;

  constexpr step_of_rows(gr::context<D>& persistent, gr::context<D>& transient)
      : kept(persistent), optimizer(*this), tape(transient, 17) {
    gr::init(*this, kept, gr::he_normal{.seed = 11});
    x = gr::zeros<float, shape<upto<most>, 13>>(kept, most, gr::category::input);
    y = gr::zeros<std::int32_t, shape<upto<most>>>(kept, most, gr::category::input);
  }
  constexpr void step(gr::index_t rows = most) {
    const decltype(x) inputs(x.storage(), rows);
    const decltype(y) targets(y.storage(), rows);
    const auto hidden = gr::dropout(gr::gelu(gr::linear(tape.watch(inputs), w1, b1)), 0.25);
    gr::backward(gr::cross_entropy(gr::matmul(hidden, w2), targets));
    optimizer.step(kept);
  }
};

/// The weights after steps of these numbers of rows with other inputs each.
template <class Submit>
std::vector<float> weights_after(const std::vector<gr::index_t>& batches, step_of_rows<gr::cuda>& s, unsigned seed,
                                 const Submit& submit) {
  runner<gr::cuda> r(s.kept, seed);
  for (const gr::index_t rows : batches) {
    const auto values = r.random<float>(most * 13);
    gr::device_access<gr::cuda>::upload(s.kept, s.x.data(), values.data(), s.x.bytes);
    s.kept.stream().synchronize();  // the vector ends here
    submit(rows);
  }
  std::vector<float> all;
  gr::visit_params(s, [&](auto& p) {
    for (const float v : gr::to_host(p.value())) all.push_back(v);
  });
  return all;
}

}  // namespace

TEST_CASE("a graph for each number of rows, in one planned memory, has the bits of eager steps") {
  if (no_gpu()) return;
  const unsigned seed = gradus_test::fresh_seed();
  CAPTURE(seed);
  gpu g;
  const std::vector<gr::index_t> batches{6, 3, 6, 3, 1, 6, 3, 1, 1, 6};
  step_of_rows<gr::cuda> eager(g.ctx, g.ctx);
  const auto expected = weights_after(batches, eager, seed, [&](gr::index_t rows) { eager.step(rows); });
  gr::basic_planned_resource<gr::cuda_stream> memory(gr::make_plan(gr::trace_step<step_of_rows<gr::cuda_meta>>()),
                                                     g.poisoned, g.stream);
  gr::context<gr::cuda> transient(g.stream, memory);
  step_of_rows<gr::cuda> s(g.ctx, transient);
  gr::step_graph graph{transient, s.tape, s.optimizer};
  CHECK(expected == weights_after(batches, s, seed, [&](gr::index_t rows) { graph.run([&] { s.step(rows); }, rows); }));
  CHECK(graph.captures() == 3);
}

TEST_CASE("bounded shapes have the bits of static ones: operations on any axes") {
  if (no_gpu()) return;
  gradus_test::families_of_any_axes([](const char* name, const auto& f) {
    CAPTURE(std::string(name));
    same_bits_as_static(f).check(gr::extents_of<shape<upto<5>, 7, upto<8>>>(4, 3), shape<4, 7, 3>{});
  });
}

TEST_CASE("bounded shapes have the bits of static ones: rows, products, losses") {
  if (no_gpu()) return;
  gradus_test::families_of_rows([](const char* name, const auto& f) {
    CAPTURE(std::string(name));
    same_bits_as_static(f).check(gr::extents_of<shape<upto<5>, upto<7>, 8>>(2, 4), shape<2, 4, 8>{});
  });
}

TEST_CASE("sums of bounded shapes have the order of static ones: lanes, warps, blocks and chunks") {
  if (no_gpu()) return;
  const auto rows = [](auto&, auto& x, auto& y) { return gr::sum<0>(x * y); };
  const auto all = [](auto&, auto& x, auto& y) { return gr::sum(x * y); };
  const auto outer = [](auto&, auto& x, auto& y) { return gr::sum<0, 2>(x * y); };
  same_bits_as_static(rows).check(gr::extents_of<shape<upto<900>, 33>>(700), shape<700, 33>{});
  same_bits_as_static(rows).check(gr::extents_of<shape<upto<900>, upto<40>>>(500, 20), shape<500, 20>{});
  same_bits_as_static(all).check(gr::extents_of<shape<upto<300>, upto<90>>>(299, 89), shape<299, 89>{});
  same_bits_as_static(all).check(gr::extents_of<shape<upto<300>, upto<90>>>(1, 80), shape<1, 80>{});
  same_bits_as_static(outer).check(gr::extents_of<shape<upto<3>, upto<5>, upto<3>, 4>>(2, 5, 3), shape<2, 5, 3, 4>{});
  same_bits_as_static(outer).check(gr::extents_of<shape<upto<3>, upto<5>, upto<3>, 4>>(3, 1, 2), shape<3, 1, 2, 4>{});
}
