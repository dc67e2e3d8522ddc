// The loss of a step, which is read when it is asked for.
#include <doctest/doctest.h>

#include <cstdint>
#include <gradus/gradus.hpp>
#include <vector>

#include "gpt/training.hpp"

namespace gr = gradus;

namespace {
constexpr gpt::config sizes{.layers = 1, .heads = 2, .width = 16, .context = 8, .vocabulary = 256};
using training = gpt::training<gr::cpu, sizes, 2>;
}  // namespace

TEST_CASE("the loss of a step is the mean over its batches, and is still there when the next step has sent its own") {
  gr::stream stream;
  gr::host_resource heap;
  gr::context<gr::cpu> ctx{stream, heap};
  training t(ctx, ctx, {.accumulate = 2});
  std::vector<std::uint8_t> text[3];
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 17; ++j) text[i].push_back(static_cast<std::uint8_t>((5 + 31 * i) * j + 3 * i));
  double alone[3];
  for (int i = 0; i < 3; ++i) alone[i] = static_cast<double>(t.evaluate(text[i].data(), text[i].data() + 1));
  CHECK(alone[0] != alone[1]);
  CHECK(alone[1] != alone[2]);

  const auto step = [&](int first, int second) {
    t.load(0, text[first].data(), text[first].data() + 1);
    t.load(1, text[second].data(), text[second].data() + 1);
    for (int i = 0; i < 2; ++i) t.backward(i);
    const auto loss = t.send_loss();
    t.abandon();
    return loss;
  };
  const auto one = step(0, 1);
  const auto other = step(1, 2);
  CHECK(one.value() == doctest::Approx((alone[0] + alone[1]) / 2).epsilon(1e-7));
  CHECK(other.value() == doctest::Approx((alone[1] + alone[2]) / 2).epsilon(1e-7));
}
