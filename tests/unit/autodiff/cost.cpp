// The work of operations, as profiles and plans count it: from the types of operands, results and what is saved.
#include <doctest/doctest.h>

#include <gradus/gradus.hpp>
#include <gradus/report/profile.hpp>
#include <string_view>

namespace gr = gradus;

namespace {

struct works {
  gr::cost forward, backward;
};

// The work of the operation `name` in f(x) and its gradients, where x is recorded.
template <class F, class X>
works work_of(std::string_view name, F f, const X& x) {
  auto& ctx = x.owner();
  gr::profiler profile;
  gr::tape tape(ctx);
  const auto v = tape.variable(x);
  ctx.observe(&profile);
  gr::backward(gr::sum(f(v)));
  ctx.observe(nullptr);
  works found;
  for (const auto& e : profile.entries()) {
    if (e.name != name) continue;
    (e.phase == gr::phase::forward ? found.forward : found.backward) = e.work;
  }
  return found;
}

struct world {
  gr::stream stream;
  gr::host_resource heap;
  gr::context<gr::cpu> ctx{stream, heap};
};

using matrix = gr::shape<4, 6>;

}  // namespace

TEST_CASE("an operation reads its operands and writes its result, each in its own type") {
  world at;
  const auto x = gr::ones<float, matrix>(at.ctx);
  const works softmax = work_of(
      "softmax", [](const auto& v) { return gr::softmax(v); }, x);
  CHECK(softmax.forward == gr::cost{14 * 24, 96, 96});
  CHECK(softmax.backward == gr::cost{4 * 24, 96 + 96, 96});  // dy and y

  const auto half = gr::ones<gr::bf16, matrix>(at.ctx);
  const works of_half = work_of(
      "softmax", [](const auto& v) { return gr::softmax(v); }, half);  // its result is float
  CHECK(of_half.forward == gr::cost{14 * 24, 48, 96});
  CHECK(of_half.backward.bytes_read == 96 + 96);

  const works sum = work_of(
      "sum", [](const auto& v) { return gr::sum<1>(v); }, x);
  CHECK(sum.forward == gr::cost{24 + 4, 96 + 16, 16 + 4});  // and the sum of the result
}

TEST_CASE("backward reads what was saved, with statistics") {
  world at;
  const auto x = gr::ones<float, matrix>(at.ctx);
  const works log = work_of(
      "logsumexp", [](const auto& v) { return gr::logsumexp(v); }, x);
  CHECK(log.forward == gr::cost{12 * 24, 96, 16});
  CHECK(log.backward == gr::cost{9 * 24, 16 + 96 + 4 * 2 * sizeof(float), 96});
  const works exp = work_of(
      "exp", [](const auto& v) { return gr::exp(v); }, x);
  CHECK(exp.backward.bytes_read == 96 + 96);
  const works add = work_of(
      "affine", [](const auto& v) { return 2 * v + 1; }, x);
  CHECK(add.backward.bytes_read < 4 * 96);  // of a linear function nothing is saved
}

TEST_CASE("what moves no memory costs none, and what selects reads what it returns") {
  world at;
  const auto x = gr::ones<float, matrix>(at.ctx);
  const works flat = work_of(
      "reshape", [](const auto& v) { return gr::reshape<24>(v); }, x);
  CHECK(flat.forward == gr::cost{});
  CHECK(flat.backward == gr::cost{});
  const works part = work_of(
      "slice", [](const auto& v) { return gr::slice<0, 1, 2>(v); }, x);
  CHECK(part.forward == gr::cost{0, 48, 48});
  CHECK(part.backward == gr::cost{0, 48, 96});
  const auto targets = gr::full<std::int32_t, gr::shape<4>>(at.ctx, 1);
  const works loss = work_of(
      "cross_entropy", [&](const auto& v) { return gr::cross_entropy(v, targets); }, x);
  CHECK(loss.forward == gr::cost{5 * 24, 96 + 16, 96 + 4});  // with the gradient
  CHECK(loss.backward == gr::cost{});
}
