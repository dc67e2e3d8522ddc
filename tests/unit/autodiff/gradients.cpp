#include <doctest/doctest.h>

#include <cstdint>
#include <gradus/gradus.hpp>

#include <gradus/testing/failing_resource.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>
#include "../../support/message_of.hpp"

namespace gr = gradus;
using gradus_test::message_of;
using X = gr::on<gr::cpu>;
using vec = std::vector<float>;

namespace {

struct bench {
  gr::stream s;
  gr::host_resource heap;
  gr::stats_resource stats{heap};
  gr::context<gr::cpu> ctx{s, stats};
  gr::tape<gr::cpu> tape{ctx};

  gr::tensor<float, gr::shape<>> scalar(float x) { return gr::full<float, gr::shape<>>(ctx, x); }
  gr::param<X> weight(float x) {
    gr::param<X> p;
    p.set(scalar(x));
    return p;
  }
};

}  // namespace

TEST_CASE("gradients add up over several backward passes until they are cleared") {
  bench b;
  const auto w = b.weight(3);
  for (int pass = 1; pass <= 3; ++pass) {
    gr::backward(b.tape.watch(b.scalar(2)) * w);
    CHECK(gr::item(w.gradient()) == static_cast<float>(2 * pass));
  }
  w.clear_gradient();
  CHECK_FALSE(w.gradient());
  gr::backward(b.tape.watch(b.scalar(5)) * w);
  CHECK(gr::item(w.gradient()) == 5);
}

TEST_CASE("backward scales the gradient") {
  bench b;
  const auto w = b.weight(3);
  gr::backward(b.tape.watch(b.scalar(2)) * w, 16);
  CHECK(gr::item(w.gradient()) == 32);
}

// The identity, which notes whether its gradient is to be assigned or added.
struct noting {
  std::vector<bool>* accumulated;
  static constexpr std::string_view name = "noting";
  static constexpr gr::save_rule saves = gr::save_nothing();
  template <class T>
  T forward(auto, const T& x) const {
    return gr::clone(x);
  }
  template <class Saved, class T>
  void backward(const Saved&, T grad, const gr::gradient_sink<T>& dx) const {
    auto to = dx.open(grad.owner());
    accumulated->push_back(to.accumulate);
    for (std::size_t i = 0; i < T::size; ++i)
      to.view()[i] = (to.accumulate ? to.view()[i] : typename T::value_type(0)) + grad.view()[i];
  }
};

TEST_CASE("the first contribution to a gradient assigns, later ones add") {
  bench b;
  std::vector<bool> accumulated;
  const auto x = b.tape.variable(b.scalar(4));
  gr::backward(gr::apply(noting{&accumulated}, x) + gr::apply(noting{&accumulated}, x));
  CHECK(accumulated == std::vector<bool>{false, true});
  CHECK(gr::item(x.gradient()) == 2);
}

TEST_CASE("a value used twice accumulates both gradients") {
  bench b;
  const auto x = b.tape.variable(b.scalar(3));
  gr::backward(x * x);
  CHECK(gr::item(x.gradient()) == 6);
  const auto y = b.tape.variable(b.scalar(3));
  gr::backward(y + y);
  CHECK(gr::item(y.gradient()) == 2);
}

TEST_CASE("a gradient that two values share is not overwritten through one of them") {
  bench b;
  const auto x = b.tape.variable(b.scalar(3));
  const auto y = b.tape.variable(b.scalar(4));
  // Backward goes from the last to the first: x + y gives both the same tensor, then x alone gets more, which a kernel
  // adds.
  const auto tenfold = x * 10.0;
  const auto both = x + y;
  gr::backward(tenfold + both);
  CHECK(gr::item(x.gradient()) == 11);
  CHECK(gr::item(y.gradient()) == 1);
}

TEST_CASE("a gradient that others hold is added to one that nobody else holds, without a copy") {
  bench b;
  const auto shared = b.scalar(3);
  auto own = b.scalar(4);
  const float* const at = std::as_const(own).data();
  gr::gradient_slot<gr::tensor<float, gr::shape<>>> slot;
  slot.give(shared);
  slot.give(std::move(own));
  CHECK(slot.value().data() == at);
  CHECK(gr::item(slot.value()) == 7);
  CHECK(gr::item(shared) == 3);
}

TEST_CASE("a diamond sums over both of its ways") {
  bench b;
  const auto x = b.tape.variable(b.scalar(2));
  const auto a = x * x;                  // 4
  const auto left = a * 3.0;             // 12
  const auto right = a * a;              // 16
  gr::backward(left * right);            // 3 x^6
  CHECK(gr::item(x.gradient()) == 576);  // 18 x^5
}

TEST_CASE("a chain of a thousand operations has the gradient it should") {
  bench b;
  const auto x = b.tape.variable(b.scalar(0));
  auto y = x + 0.0;
  for (int i = 0; i < 1000; ++i) y = y + x;
  CHECK(b.tape.size() == 1002);
  gr::backward(y);
  CHECK(gr::item(x.gradient()) == 1001);
}

TEST_CASE("several losses of one recording give the gradients of their sum") {
  bench b;
  const auto w = b.weight(5);
  const auto h = b.tape.watch(b.scalar(2)) * w;
  const auto first = h * 3.0;
  const auto second = h * h;
  gr::backward_all(first, second, first);
  CHECK(gr::item(w.gradient()) == 2 * (3 + 3 + 2 * 10));
}

TEST_CASE("x.value() is cut off: no gradient flows through it") {
  bench b;
  const auto x = b.tape.variable(b.scalar(3));
  gr::backward(x * (x * x).value());
  CHECK(gr::item(x.gradient()) == 9);
}

TEST_CASE("gradients() gives what was asked for, typed and in order, and leaves what had been accumulated") {
  bench b;
  gr::param<X, 2> w;
  w.set(gr::from_values<float, gr::shape<2>>(b.ctx, {1, 2}));
  const auto other = b.weight(1);
  gr::backward(b.tape.watch(b.scalar(7)) * other);
  const auto x = b.tape.variable(gr::from_values<float, gr::shape<2>>(b.ctx, {3, 4}));
  const auto ones = gr::ones<float, gr::shape<2, 1>>(b.ctx);
  const gr::tensor<float, gr::shape<1, 2>> row(gr::full<float, gr::shape<1, 2>>(b.ctx, 1.0f));
  const auto loss = gr::matmul(row * x * w, ones);
  auto found = gr::gradients(loss, x, w, other, w);
  static_assert(std::is_same_v<std::tuple_element_t<2, decltype(found)>, gr::tensor<float, gr::shape<>>>);
  CHECK(gr::to_host(std::get<0>(found)) == vec{1, 2});
  CHECK(gr::to_host(std::get<1>(found)) == vec{3, 4});
  CHECK(gr::item(std::get<2>(found)) == 0);
  CHECK(gr::to_host(std::get<3>(found)) == vec{3, 4});
  CHECK_FALSE(w.gradient());
  CHECK(gr::item(other.gradient()) == 7);
}

TEST_CASE("gradients() of one parameter twice leaves what had been accumulated") {
  bench b;
  const auto w = b.weight(3);
  gr::backward(b.tape.watch(b.scalar(2)) * w);
  const auto [one, two] = gr::gradients(b.tape.watch(b.scalar(5)) * w, w, w);
  CHECK(gr::item(one) == 5);
  CHECK(gr::item(two) == 5);
  CHECK(gr::item(w.gradient()) == 2);
}

TEST_CASE(
    "gradients() refuses values that are not variables of this recording, and takes nothing from parameters then") {
  bench b;
  const auto w = b.weight(3);
  gr::backward(b.tape.watch(b.scalar(2)) * w);
  const auto watched = b.tape.watch(b.scalar(2));
  const auto inner = watched * w;
  const auto loss = inner * 2.0;
  CHECK(message_of([&] { gr::gradients(loss, w, watched); }) ==
        "gradients(loss, x...): each x must be a parameter or come from tape.variable() in this recording");
  CHECK_THROWS_AS(gr::gradients(loss, w, inner), gr::error);
  CHECK(gr::item(w.gradient()) == 2);
}

// An operation whose gradient rule fails.
struct failing {
  static constexpr std::string_view name = "failing";
  static constexpr gr::save_rule saves = gr::save_nothing();
  template <class T>
  T forward(auto, const T& x) const {
    return gr::clone(x);
  }
  template <class Saved, class T>
  void backward(const Saved&, T, const gr::gradient_sink<T>&) const {
    throw gr::error("failing: refused");
  }
};

TEST_CASE("gradients() that fails in a gradient rule leaves earlier gradients, and the tape is ready for more") {
  bench b;
  const auto w = b.weight(3);
  gr::backward(b.tape.watch(b.scalar(2)) * w);
  {
    const auto x = b.tape.variable(b.scalar(4));
    const auto y = b.tape.variable(b.scalar(5));
    const auto loss = gr::apply(failing{}, x * 2.0) + x * y * w;
    CHECK(message_of([&] { gr::gradients(loss, x, w, y, x); }) == "failing: refused");
    CHECK_THROWS_AS(static_cast<void>(x.gradient()), gr::error);  // the recording is over
  }
  CHECK(gr::item(w.gradient()) == 2);
  const auto x = b.tape.variable(b.scalar(4));
  const auto [dx, dw] = gr::gradients(x * w, x, w);
  CHECK(gr::item(dx) == 3);
  CHECK(gr::item(dw) == 4);
  CHECK(gr::item(w.gradient()) == 2);
}

TEST_CASE("gradients() that runs out of memory anywhere leaves earlier gradients and no memory behind") {
  gr::stream s;
  gr::host_resource heap;
  gr::testing::failing_resource faults{heap};
  gr::context ctx{s, faults};
  gr::tape tape{ctx};
  const auto scalar = [&](float x) { return gr::full<float, gr::shape<>>(ctx, x); };
  gr::param<X> w;
  w.set(scalar(3));
  gr::backward(tape.watch(scalar(2)) * w);
  const std::size_t live = faults.live();
  bool refused = true;
  for (std::size_t n = 0; refused; ++n) {
    CAPTURE(n);
    refused = false;
    try {
      const auto x = tape.variable(scalar(4));
      const auto y = tape.variable(scalar(5));
      const auto unused = tape.variable(scalar(6));
      const auto loss = (x * w) + (x + y);  // x and y share a gradient, then x gets more
      faults.fail_at(n);
      const auto found = gr::gradients(loss, x, unused, w, y);
      CHECK(gr::item(std::get<0>(found)) == 4);
      CHECK(gr::item(std::get<1>(found)) == 0);
      CHECK(gr::item(std::get<2>(found)) == 4);
      CHECK(gr::item(std::get<3>(found)) == 1);
    } catch (const gr::out_of_memory&) { refused = true; }
    faults.fail_at(0, 0);
    CHECK(gr::item(w.gradient()) == 2);
    tape.clear();
    CHECK(faults.live() == live);
    if (!refused) CHECK(n > 3);
  }
}

TEST_CASE("x.gradient() is for variables, until the tape is used again") {
  bench b;
  const auto x = b.tape.variable(b.scalar(3));
  CHECK_FALSE(x.gradient());
  const auto y = x * 2.0;
  CHECK_THROWS_AS(y.gradient(), gr::error);
  gr::backward(y);
  CHECK(gr::item(x.gradient()) == 2);
  CHECK_THROWS_AS(y.gradient(), gr::error);
  static_cast<void>(b.tape.watch(b.scalar(1)));
  CHECK(message_of([&] { static_cast<void>(x.gradient()); }) ==
        "x.gradient(): x must come from tape.variable() in the tape's current recording");
}

TEST_CASE("a value from a recording that has ended is refused") {
  bench b;
  const auto x = b.tape.variable(b.scalar(3));
  const auto y = x * 2.0;
  gr::backward(y);
  CHECK(message_of([&] { gr::backward(y); }) ==
        "backward(loss): the loss belongs to a recording that backward() or clear() has ended; compute it again");
  CHECK(message_of([&] { static_cast<void>(y * 2.0); }) ==
        "this value is from a recording that has ended (backward(), clear() or the tape's destructor); recompute it");
  const auto z = b.tape.watch(b.scalar(1)) * 1.0;
  b.tape.clear();
  CHECK_THROWS_AS(static_cast<void>(z + z), gr::error);
  CHECK_THROWS_AS(gr::backward(z), gr::error);
  CHECK_THROWS_AS(gr::backward_all(z, z), gr::error);
}

TEST_CASE("operands of two tapes are refused") {
  bench b;
  gr::tape other{b.ctx};
  const auto x = b.tape.variable(b.scalar(3));
  const auto y = other.variable(b.scalar(4));
  CHECK(message_of([&] { static_cast<void>(x + y); }) ==
        "apply: the operands were recorded on two different tapes; use one tape");
  CHECK_THROWS_AS(gr::backward_all(x * 1.0, y * 1.0), gr::error);
}

TEST_CASE("nothing is recorded where nobody wants a gradient") {
  bench b;
  auto x = b.tape.watch(b.scalar(3));
  const auto y = gr::exp(x * 2.0 + b.scalar(1));
  CHECK(b.tape.size() == 0);
  gr::backward(y);
  const auto w = b.weight(1);
  const auto z = b.tape.watch(b.scalar(3)) * w;
  CHECK(b.tape.size() == 1);
  CHECK(gr::item(z.value()) == 3);
}

TEST_CASE("plain tensors and parameters alone record nothing and give plain tensors") {
  bench b;
  const auto w = b.weight(2);
  const auto y = b.scalar(3) * w;
  static_assert(gr::is_tensor<std::remove_cvref_t<decltype(y)>>);
  CHECK(b.tape.size() == 0);
}

TEST_CASE("what no loss depends on is skipped") {
  bench b;
  const auto w = b.weight(2), v = b.weight(3);
  const auto x = b.tape.watch(b.scalar(5));
  const auto unused = x * v;
  gr::backward(x * w);
  CHECK(gr::item(w.gradient()) == 5);
  CHECK_FALSE(v.gradient());
}

TEST_CASE("random keys depend on seed, step and ordinal: steps move on with each recording, and can be set") {
  bench b;
  b.tape.set_random(77, 4);
  const auto w = b.weight(2);
  const auto x = b.tape.watch(b.scalar(1));
  const auto first = b.tape.next_key();
  CHECK(first.seed == 77);
  CHECK(first.step == 4);
  CHECK(first.ordinal == 0);
  CHECK(b.tape.next_key().ordinal == 1);
  gr::backward(x * w);
  static_cast<void>(b.tape.watch(b.scalar(1)));
  const auto next = b.tape.next_key();
  CHECK(next.step == 5);
  CHECK(next.ordinal == 0);
  gr::backward(b.tape.watch(b.scalar(1)) * w);
  b.tape.set_random(77, 20);  // between steps: the next one is number 20, not 21
  static_cast<void>(b.tape.watch(b.scalar(1)));
  CHECK(b.tape.next_key().step == 20);
}

TEST_CASE("an empty tensor as operand is refused") {
  const char* const message =
      "this tensor is empty: it was moved from, default-constructed, or is a gradient that no backward() computed";
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  gr::tape tape{ctx};
  const auto full = gr::ones<float, gr::shape<3>>(ctx);
  const gr::tensor<float, gr::shape<3>> none;
  CHECK_THROWS_WITH_AS(full + none, message, gr::error);
  CHECK_THROWS_WITH_AS(none + full, message, gr::error);
  CHECK_THROWS_WITH_AS(gr::exp(none), message, gr::error);
  CHECK_THROWS_WITH_AS(gr::clone(none), message, gr::error);
  CHECK_THROWS_WITH_AS(gr::to_host(none), message, gr::error);
  CHECK_THROWS_WITH_AS(gr::item(gr::tensor<float, gr::shape<>>()), message, gr::error);
  auto x = tape.variable(full);
  const auto unused = tape.variable(full);
  auto h = gr::gelu(std::move(x));
  CHECK_THROWS_WITH_AS(gr::sum(h + x), message, gr::error);  // NOLINT(bugprone-use-after-move): that is the mistake
  gr::backward(gr::sum(h));
  CHECK_THROWS_WITH_AS(unused.gradient() * 2.0f, message, gr::error);
}

TEST_CASE("a parameter that takes the elements of another one has a copy of them") {
  gr::stream s;
  gr::host_resource heap;
  gr::context ctx{s, heap};
  gr::param<gr::on<gr::cpu>, 3> a, b;
  a.set(gr::full<float, gr::shape<3>>(ctx, 1.0f));
  b.set(a.value());
  a.edit()(0) = 7;
  CHECK(b.value()(0) == 1);
  const float* const memory = b.value().data();
  auto given = gr::full<float, gr::shape<3>>(ctx, 2.0f);
  const float* const own = given.data();
  b.set(std::move(given));  // of what nobody else holds there is none
  CHECK(b.value().data() == own);
  CHECK(own != memory);
}

TEST_CASE("what is computed from a parameter beside a plain value runs in that value's context") {
  gr::stream s, mine;
  gr::host_resource heap;
  gr::context ctx{s, heap}, other{mine, heap};
  gr::param<gr::on<gr::cpu>, 3> p;
  p.set(gr::full<float, gr::shape<3>>(ctx, 2.0f));
  const auto x = gr::full<float, gr::shape<3>>(other, 1.0f);
  const auto there = gr::watch(p, x);
  CHECK(&there.owner() == &other);
  CHECK(there(2) == 2);
  CHECK(&gr::exp(there).owner() == &other);
  const auto here = gr::watch(p, gr::full<float, gr::shape<3>>(ctx, 1.0f));
  CHECK(here.data() == p.value().data());
  gr::tape tape{ctx};
  CHECK_THROWS_WITH_AS(tape.watch(gr::full<float, gr::shape<3>>(ctx, 1.0f)) * gr::exp(there),
                       doctest::Contains("computed from parameters outside the recording"), gr::error);
}
