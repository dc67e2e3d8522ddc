// Operands that are moved from, values that outlive their tape, and gradients in storage of the user's.
#include <doctest/doctest.h>

#include <cstdint>
#include <gradus/gradus.hpp>
#include <gradus/testing/failing_resource.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "../../support/system.hpp"
#include "../memory/dies.hpp"

namespace gr = gradus;
using X = gr::on<gr::cpu>;
using vec = std::vector<float>;
using four = gr::tensor<float, gr::shape<4>>;

namespace {

struct bench {
  gr::stream s;
  gr::host_resource heap;
  gr::context<gr::cpu> ctx{s, heap};
  gr::tape<gr::cpu> tape{ctx};

  four make() { return gr::from_values<float, gr::shape<4>>(ctx, {1, -2, 3, -4}); }
};

const char* const moved_from =
    "this tensor is empty: it was moved from, default-constructed, or is a gradient that no backward() computed";

}  // namespace

// NOLINTBEGIN(bugprone-use-after-move): an operation takes all of its operands before it moves any

TEST_CASE("an operand may be moved from where another operand of the same operation reads it") {
  bench b;
  four x = b.make();
  CHECK(gr::to_host(x * std::move(x)) == vec{1, 4, 9, 16});
  x = b.make();
  CHECK(gr::to_host(std::move(x) * x) == vec{1, 4, 9, 16});
  x = b.make();
  CHECK(gr::to_host(gr::maximum(x, std::move(x))) == vec{1, -2, 3, -4});
  x = b.make();
  CHECK(gr::to_host(gr::minimum(std::move(x), x)) == vec{1, -2, 3, -4});
  x = b.make();
  CHECK(gr::to_host(gr::where(x, x, std::move(x))) == vec{1, -2, 3, -4});
  x = b.make();
  CHECK(gr::to_host(gr::where(std::move(x), x, x)) == vec{1, -2, 3, -4});
  x = b.make();
  CHECK(gr::to_host(gr::concat<0>(x, std::move(x))) == vec{1, -2, 3, -4, 1, -2, 3, -4});
  auto m = gr::from_values<float, gr::shape<2, 2>>(b.ctx, {1, 2, 3, 4});
  CHECK(gr::to_host(gr::matmul(std::move(m), m)) == vec{7, 10, 15, 22});
}

TEST_CASE("a traced operand may be moved from where another operand reads it, with the gradients of both") {
  bench b;
  for (const bool moved_first : {true, false}) {
    auto x = b.tape.variable(b.make());
    const auto gradient_of = x;
    gr::backward(gr::sum(moved_first ? std::move(x) * x : x * std::move(x)));
    CHECK(gr::to_host(gradient_of.gradient()) == vec{2, -4, 6, -8});
  }
}

TEST_CASE("an argument of a checkpoint region may be moved from where another one reads it") {
  bench b;
  for (const bool moved_first : {true, false}) {
    auto x = b.tape.variable(b.make());
    const auto gradient_of = x;
    const auto product = [](auto u, auto v) { return u * v * v; };
    gr::backward(
        gr::sum(moved_first ? gr::checkpoint(product, std::move(x), x) : gr::checkpoint(product, x, std::move(x))));
    CHECK(gr::to_host(gradient_of.gradient()) == vec{3, 12, 27, 48});
  }
}

TEST_CASE("what was moved from before is refused") {
  bench b;
  four x = b.make();
  const four y = std::move(x);
  CHECK_THROWS_WITH_AS(y * x, moved_from, gr::error);
  CHECK_THROWS_WITH_AS(gr::maximum(x, std::move(x)), moved_from, gr::error);
}

// NOLINTEND(bugprone-use-after-move)

TEST_CASE("a recorded value that is used when its tape is gone is refused") {
  bench b;
  const char* const message =
      "this value is from a recording that has ended (backward(), clear() or the tape's destructor); recompute it";
  std::optional<gr::tape<gr::cpu>> brief(b.ctx);
  const auto x = brief->variable(b.make());
  const auto y = gr::sum(x * x);
  for (const bool another : {false, true}) {
    brief.reset();
    if (another) brief.emplace(b.ctx);  // at the same address
    CHECK_THROWS_WITH_AS(x * x, message, gr::error);
    CHECK_THROWS_WITH_AS(gr::backward(y), message, gr::error);
    CHECK_THROWS_AS(gr::gradients(y, x), gr::error);
    CHECK_THROWS_AS(static_cast<void>(x.gradient()), gr::error);
    CHECK(x.value()(3) == -4);  // the value itself is there
  }
}

TEST_CASE("a context that ends before its tape ends the program" * doctest::skip(gradus_test::on_windows)) {
  CHECK(last_words([] {
          bench b;
          auto* const gone = new gr::context<gr::cpu>(b.s, b.heap);
          const gr::tape tape{*gone};
          delete gone;
        }) ==
        "context ends while 1 tapes are in use: tensors, tapes and optimizers must end before their memory does\n");
}

namespace {
struct placed : bench {
  gr::param<X, 4> w, v;
  gr::buffer<gr::cpu> flat{ctx, 128, gr::category::gradient};
  four in_flat{flat.part(64, 64).part(0, 64).part(0, 16)};  // 16 of the 64 bytes

  placed() {
    w.set(make());
    v.set(make());
    w.slot().place(in_flat);
  }
};
}  // namespace

TEST_CASE("a gradient accumulates in the storage that its slot was given, from step to step") {
  placed b;
  const float* const at = b.in_flat.data();
  const auto step = [&] {
    const auto x = b.tape.watch(b.make());
    gr::backward(gr::sum((x + b.w) * 2.0) + gr::sum(x * b.w));  // a gradient that exists, and one that a kernel writes
  };
  for (int i = 0; i < 3; ++i) {
    CHECK_FALSE(b.w.gradient());
    step();
    CHECK(b.w.gradient().data() == at);
    CHECK(gr::to_host(b.in_flat) == vec{3, 0, 5, -2});
    step();  // adds
    CHECK(b.w.gradient().data() == at);
    CHECK(gr::to_host(b.in_flat) == vec{6, 0, 10, -4});
    b.w.clear_gradient();
    CHECK(gr::to_host(b.in_flat) == vec{6, 0, 10, -4});
  }
  CHECK(b.w.slot().is_placed());
  b.w.clear_gradient();
  const auto rows = b.tape.watch(gr::ones<float, gr::shape<2, 4>>(b.ctx));
  gr::backward(gr::sum(rows * b.w));  // written by a kernel, with nothing there yet
  CHECK(gr::to_host(b.in_flat) == vec{2, 2, 2, 2});
  b.w.clear_gradient();
  b.w.slot().place({});
  step();
  CHECK(b.w.gradient().data() != at);
}

TEST_CASE("a gradient that a placed slot shares with another is copied, not written over") {
  placed b;
  const auto x = b.tape.watch(b.make());
  const auto both = gr::sum((x + b.w) + b.v);  // w and v get the same tensor
  gr::backward(both + gr::sum(b.w * x));
  CHECK(gr::to_host(b.w.gradient()) == vec{2, -1, 4, -3});
  CHECK(gr::to_host(b.v.gradient()) == vec{1, 1, 1, 1});
}

TEST_CASE("a placed slot stays where it is when it is given tensors that nobody else holds") {
  bench b;
  four storage = b.make();
  gr::gradient_slot<four> slot;
  slot.place(storage);
  for (int times = 1; times <= 2; ++times) {
    slot.give(b.make());
    CHECK(slot.value().data() == storage.data());
  }
  CHECK(gr::to_host(storage) == vec{2, -4, 6, -8});
}

TEST_CASE("gradients() leaves what has accumulated in a placed slot, and returns memory of its own") {
  placed b;
  gr::backward(gr::sum(b.tape.watch(b.make()) * b.w));
  const auto [found, again] = gr::gradients(gr::sum(b.tape.watch(b.make()) * b.w * 10.0), b.w, b.w);
  CHECK(gr::to_host(found) == vec{10, -20, 30, -40});
  CHECK(found.data() == again.data());
  CHECK(found.data() != b.in_flat.data());
  CHECK(gr::to_host(b.w.gradient()) == vec{1, -2, 3, -4});
  CHECK(b.w.gradient().data() == b.in_flat.data());
  CHECK(b.w.slot().is_placed());
}

TEST_CASE("a slot is not placed while it holds a gradient") {
  placed b;
  gr::backward(gr::sum(b.tape.watch(b.make()) * b.v));
  CHECK_THROWS_WITH_AS(b.v.slot().place(b.in_flat), "slot.place(storage): a gradient exists; clear it first",
                       gr::error);
  b.v.clear_gradient();
  b.v.slot().place(b.in_flat);
}

namespace {

// What gradients were when they were said to be complete.
struct journal final : gr::gradient_observer {
  const gr::param<X, 4>* params[3];
  std::vector<int> order;
  std::vector<vec> values;
  void complete(const void* slot) override {
    for (int i = 0; i < 3; ++i) {
      if (&params[i]->slot() != slot) continue;
      order.push_back(i);
      values.push_back(params[i]->gradient() ? gr::to_host(params[i]->gradient()) : vec{});
    }
  }
};

struct watched : bench {
  gr::param<X, 4> a, b, c;
  journal log;
  watched() {
    for (auto* p : {&a, &b, &c}) p->set(make());
    for (int i = 0; i < 3; ++i) log.params[i] = i == 0 ? &a : i == 1 ? &b : &c;
    tape.observe(&log);
  }
  // Each gradient was complete when it was said to be, and in this order.
  void check(const std::vector<int>& wanted) {
    CHECK(log.order == wanted);
    for (std::size_t i = 0; i < log.order.size(); ++i) {
      const auto& g = log.params[log.order[i]]->gradient();
      CHECK(log.values[i] == (g ? gr::to_host(g) : vec{}));
    }
    log.order.clear();
    log.values.clear();
  }
};

}  // namespace

TEST_CASE("backward says of each parameter when its gradient is complete, the one used first at the end") {
  watched w;
  for (int step = 0; step < 2; ++step) {
    const auto x = w.tape.watch(w.make());
    const auto h = x * w.a;
    const auto y = h + w.b;
    const auto unused = y * w.c;
    gr::backward(gr::sum(y * w.a));
    w.check({2, 1, 0});
    CHECK_FALSE(w.c.gradient());
    w.a.clear_gradient();
    w.b.clear_gradient();
  }
  gr::backward(gr::sum(gr::layer_norm(w.tape.watch(w.make()), w.b, w.c)));  // two of one operation
  w.check({2, 1});
  w.tape.observe(nullptr);
  gr::backward(gr::sum(w.tape.watch(w.make()) * w.a));
  CHECK(w.log.order.empty());
}

TEST_CASE("a checkpoint region counts as one use of each parameter in it, also where regions nest") {
  watched w;
  const auto inner = [&](auto x) { return (x * w.b) * w.a; };
  const auto outer = [&](auto x) { return gr::checkpoint(inner, x * w.a) + w.c; };
  {
    const auto h = w.tape.watch(w.make()) * w.c;
    gr::backward(gr::sum(gr::checkpoint(outer, h) * w.b));
    w.check({1, 0, 2});
  }
  {
    auto h = gr::checkpoint(outer, w.tape.watch(w.make()));
    h = gr::checkpoint(inner, std::move(h));
    gr::backward(gr::sum(h));
    CHECK(w.log.order.size() == 3);
    auto order = w.log.order;
    w.check(order);
  }
}

TEST_CASE("a recording that is cleared says nothing, and the next one begins anew") {
  watched w;
  {
    const auto h = w.tape.watch(w.make()) * w.a;
    w.tape.clear();
  }
  gr::backward(gr::sum(w.tape.watch(w.make()) * w.b));
  w.check({1});
}

TEST_CASE("an observer is not notified of an operation that failed before it was set") {
  bench b;
  gr::testing::failing_resource failing{b.heap};
  gr::context ctx{b.s, failing};
  gr::tape<gr::cpu> tape{ctx};
  gr::param<X, 4> a, c;
  for (auto* p : {&a, &c}) p->set(gr::ones<float, gr::shape<4>>(ctx));
  const auto x = tape.watch(gr::ones<float, gr::shape<4>>(ctx));
  struct : gr::gradient_observer {
    std::vector<const void*> notified;
    void complete(const void* slot) override { notified.push_back(slot); }
  } first, second;
  tape.observe(&first);
  failing.fail_at(0);
  CHECK_THROWS_AS(x * a, gr::out_of_memory);
  tape.observe(&second);
  gr::backward(gr::sum(x * c));
  CHECK(first.notified.empty());
  CHECK(second.notified == std::vector<const void*>{&c.slot()});
}

TEST_CASE("an observer is not notified of a recording that had begun, nor after it was removed") {
  bench b;
  gr::param<X, 4> a;
  a.set(b.make());
  struct : gr::gradient_observer {
    int notified = 0;
    void complete(const void*) override { ++notified; }
  } who;
  const auto h = b.tape.watch(b.make()) * a;
  b.tape.observe(&who);
  gr::backward(gr::sum(h * a));  // the first use was not seen, so when the gradient is complete is not known
  CHECK(who.notified == 0);
  gr::backward(gr::sum(b.tape.watch(b.make()) * a * a));
  CHECK(who.notified == 1);
  const auto later = gr::sum(b.tape.watch(b.make()) * a);
  b.tape.observe(nullptr);
  gr::backward(later);
  CHECK(who.notified == 1);
}
