// What a recording costs: heap requests, peak bytes, and what is left when memory runs out.
#include <doctest/doctest.h>

#include <cstddef>
#include <gradus/gradus.hpp>
#include <gradus/testing/failing_resource.hpp>
#include <vector>

#include "../../support/counted_heap.hpp"

namespace gr = gradus;

namespace {

// Hands out one slab from front to back and starts again when all of it is free: no request reaches the heap.
class slab_resource final : public gr::memory_resource {
  void* do_allocate(const gr::memory_request& request, gr::stream&) override {
    const std::size_t bytes = (request.bytes + 63) / 64 * 64;
    if (bytes > sizeof slab_ - used_) throw gr::out_of_memory("the slab is used up");
    void* p = slab_ + used_;
    used_ += bytes;
    ++live_;
    return p;
  }
  void do_deallocate(void*, const gr::memory_request&, gr::stream&) noexcept override {
    if (--live_ == 0) used_ = 0;
  }
  alignas(64) std::byte slab_[1 << 18];
  std::size_t used_ = 0, live_ = 0;
};

// Two layers, a gate and a loss, in whichever number and on whichever device.
template <class X>
struct mlp {
  gr::param<X, 6, 8> w1;
  gr::param<X, 8> b1;
  gr::param<X, 8, 3> w2;
  gr::param<X, 3> b2;
  GRADUS_MEMBERS(w1, b1, w2, b2)

  constexpr auto operator()(auto x) const { return gr::linear(gr::gelu(gr::linear(x, w1, b1)), w2, b2); }
};
template <class D, class... Params>
constexpr void fill(gr::context<D>& ctx, Params&&... p) {
  (p.set(gr::full<float, typename std::remove_cvref_t<Params>::shape>(ctx, 0.1f, gr::category::parameter)), ...);
}
template <class D>
constexpr void fill_all(gr::context<D>& ctx, mlp<gr::on<D>>& net) {
  fill(ctx, net.w1, net.b1, net.w2, net.b2);
}

// One step: forward, a loss by two products, backward. The same code for the accounting device and the processor.
template <class D>
constexpr auto loss_of(gr::context<D>& ctx, gr::tape<D>& tape, const mlp<gr::on<D>>& net) {
  const auto x = gr::full<float, gr::shape<4, 6>>(ctx, 0.5f, gr::category::input);
  const auto y = net(tape.watch(x));
  const auto left = gr::full<float, gr::shape<1, 4>>(ctx, 1.0f);
  const auto right = gr::full<float, gr::shape<3, 1>>(ctx, 1.0f);
  return gr::matmul(gr::matmul(left, y), right);
}
template <class D>
constexpr void step(gr::context<D>& ctx, gr::tape<D>& tape, const mlp<gr::on<D>>& net) {
  gr::backward(loss_of(ctx, tape, net));
}

constexpr std::size_t planned_peak() {
  gr::meta_stream s;
  gr::accounting account;
  gr::context ctx{s, account};
  {
    mlp<gr::on<gr::meta>> net;
    fill_all(ctx, net);
    gr::tape tape{ctx};
    step(ctx, tape, net);
    step(ctx, tape, net);  // the second one adds to gradients that are there
  }
  return account.live_bytes() == 0 ? account.peak_bytes() : 0;
}

constexpr std::size_t peak = planned_peak();

}  // namespace

TEST_CASE("the peak that the compiler computed is the peak that is measured, to the byte") {
  static_assert(peak > 0);
  gr::stream s;
  gr::host_resource heap;
  gr::stats_resource stats(heap);
  gr::context ctx{s, stats};
  {
    mlp<gr::on<gr::cpu>> net;
    fill_all(ctx, net);
    gr::tape tape{ctx};
    step(ctx, tape, net);
    step(ctx, tape, net);
  }
  CHECK(stats.all().peak == peak);
  CHECK(stats.all().live == 0);
}

TEST_CASE("a step asks the heap for nothing once the tape has grown") {
  gr::stream s;
  static slab_resource slab;
  gr::context ctx{s, slab};
  gr::param<gr::on<gr::cpu>, 1> w;
  w.set(gr::full<float, gr::shape<1>>(ctx, 1.0f));
  gr::param<gr::on<gr::cpu>> b;
  b.set(gr::full<float, gr::shape<>>(ctx, 0.5f));
  gr::tape tape{ctx};
  const auto x = gr::full<float, gr::shape<1, 1>>(ctx, 2.0f);
  const auto recorded = [&] {
    auto y = gr::tanh(tape.watch(x) * w + b);
    for (int i = 0; i < 20; ++i) y = gr::gelu(y * w) + b;
    gr::backward(y);
    w.clear_gradient();
    b.clear_gradient();
  };
  recorded();
  recorded();
  const std::size_t before = heap_requests();
  for (int i = 0; i < 10; ++i) recorded();
  CHECK(heap_requests() - before == 0);
}

TEST_CASE(
    "when any one allocation of a step fails, clearing gives everything back, and the next step is as if nothing had "
    "been") {
  gr::stream s;
  gr::host_resource heap;
  gr::testing::failing_resource faults(heap);
  gr::context ctx{s, faults};
  mlp<gr::on<gr::cpu>> net;
  fill_all(ctx, net);
  gr::tape tape{ctx};
  const auto clear = [&] {
    net.w1.clear_gradient();
    net.b1.clear_gradient();
    net.w2.clear_gradient();
    net.b2.clear_gradient();
  };
  const std::size_t persistent = faults.live();
  step(ctx, tape, net);
  const auto expected = gr::to_host(net.w1.gradient());
  clear();
  tape.clear();
  REQUIRE(faults.live() == persistent);
  std::size_t start = faults.requests();
  static_cast<void>(loss_of(ctx, tape, net));
  const std::size_t forward_requests = faults.requests() - start;
  tape.clear();
  start = faults.requests();
  step(ctx, tape, net);
  const std::size_t requests = faults.requests() - start;
  clear();
  REQUIRE(requests > 10);

  for (const bool clear_tape : {true, false}) {
    for (std::size_t n = 0; n < requests; ++n) {
      CAPTURE(n);
      faults.fail_at(n);
      CHECK_THROWS_AS(step(ctx, tape, net), gr::out_of_memory);
      CHECK_FALSE(faults.armed());
      clear();
      if (clear_tape) tape.clear();
      if (clear_tape || n >= forward_requests) CHECK(faults.live() == persistent);  // backward clears the tape itself
      step(ctx, tape, net);
      CHECK(gr::to_host(net.w1.gradient()) == expected);
      clear();
      CHECK(faults.live() == persistent);
    }
  }
}

TEST_CASE("a region that finds no room for its node gives back what it kept") {
  gr::stream s;
  gr::host_resource heap;
  gr::stats_resource stats(heap);
  gr::context ctx{s, stats};
  const auto x = gr::full<float, gr::shape<4>>(ctx, 0.5f);
  const auto record = [&](gr::tape<gr::cpu>& tape, std::size_t leaves) {
    for (std::size_t i = 0; i < leaves; ++i) tape.variable(x);
    const std::size_t before = heap_requests();
    tape.variable(x);
    return heap_requests() > before;
  };
  std::size_t chunk = 1;  // leaves that fill a chunk of the tape
  for (gr::tape tape{ctx}; !record(tape, chunk); ++chunk) tape.clear();
  const std::size_t persistent = stats.all().live;
  int failures = 0;
  for (std::size_t leaves = chunk - 20; leaves < chunk; ++leaves)
    for (long n = 0, failed = 1; failed != 0; ++n) {
      CAPTURE(n);
      gr::tape tape{ctx};
      record(tape, leaves);
      const auto v = tape.variable(x);
      fail_heap_request(n);
      failed = 0;
      try {
        gr::checkpoint<gr::save_all>([](auto u) { return gr::exp(gr::tanh(std::move(u))); }, v);
      } catch (const std::exception&) { failed = 1; }
      fail_heap_request(-1);
      failures += failed != 0;
      tape.clear();
      CHECK(stats.all().live == persistent);
    }
  CHECK(failures > 20);
}

TEST_CASE("gradients() puts back what was accumulated when memory runs out on the way") {
  gr::stream s;
  gr::host_resource heap;
  gr::testing::failing_resource faults(heap);
  gr::context ctx{s, faults};
  gr::param<gr::on<gr::cpu>> w, v;
  w.set(gr::full<float, gr::shape<>>(ctx, 3.0f));
  v.set(gr::full<float, gr::shape<>>(ctx, 3.0f));
  gr::tape tape{ctx};
  gr::backward(tape.watch(gr::full<float, gr::shape<>>(ctx, 2.0f)) * w);
  const auto x = gr::full<float, gr::shape<>>(ctx, 5.0f);
  for (std::size_t n = 0;; ++n) {
    const auto loss = gr::exp(tape.watch(x) * w) * 2.0;
    faults.fail_at(n);
    try {
      gr::gradients(loss, w, v);
    } catch (const gr::out_of_memory&) {
      CHECK(gr::item(w.gradient()) == 2);
      CHECK_FALSE(v.gradient());
      tape.clear();
      continue;
    }
    CHECK(n >= 2);
    break;
  }
  CHECK(gr::item(w.gradient()) == 2);
}

TEST_CASE("what the recording kept is given back as backward goes, and by clear()") {
  gr::stream s;
  gr::host_resource heap;
  gr::stats_resource stats(heap);
  gr::context ctx{s, stats};
  gr::param<gr::on<gr::cpu>> w;
  w.set(gr::full<float, gr::shape<>>(ctx, 3.0f));
  gr::tape tape{ctx};
  const auto record = [&] { return gr::exp(gr::exp(tape.watch(gr::full<float, gr::shape<>>(ctx, 0.1f)) * w)); };
  const std::size_t persistent = stats.all().live;
  static_cast<void>(record());
  CHECK(stats.all().live > persistent);
  tape.clear();
  CHECK(stats.all().live == persistent);
  gr::backward(record());
  CHECK(stats.all().live == persistent + sizeof(float));  // the gradient
}
