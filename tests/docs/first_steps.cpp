// The code of docs/guide/first-steps.md.
#include <doctest/doctest.h>

#include <cmath>
#include <gradus/gradus.hpp>
#include <string>

namespace gr = gradus;

TEST_CASE("making, sharing and reading tensors") {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};

  // [making]
  auto z = gr::zeros<float, gr::shape<2, 3>>(ctx);
  auto c = gr::full<float, gr::shape<2, 3>>(ctx, 0.5f);
  auto v = gr::from_values<float, gr::shape<2, 2>>(ctx, {1, 2, 3, 4});  // row by row
  auto r = gr::arange<std::int32_t, 5>(ctx);                            // 0 1 2 3 4
  auto n = gr::normal<float, gr::shape<100>>(ctx, {.seed = 42});
  // [/making]
  CHECK(z(1, 2) == 0);
  CHECK(c(1, 2) == 0.5f);
  CHECK(r(4) == 4);
  CHECK(std::abs(gr::item(gr::mean(n))) < 0.3f);

  // [handles]
  auto same = v;              // another handle to the same four elements
  auto other = gr::clone(v);  // four elements of its own
  same(0, 0) = 100;           // v(0, 0) is 100 now, other(0, 0) is still 1
  // [/handles]
  CHECK(v(0, 0) == 100);
  CHECK(other(0, 0) == 1);

  // [reading]
  float corner = v(1, 1);                   // unchecked, on the CPU
  float total = gr::item(gr::sum(v));       // the value of a one-element tensor
  std::vector<float> all = gr::to_host(v);  // a copy in host memory, from any device
  for (float& x : v.values()) x = 2 * x;    // the elements in place, on the CPU
  std::string text = gr::to_string(v);      // what std::cout << v prints
  // [/reading]
  CHECK(corner == 4);
  CHECK(total == 109);
  CHECK(all.size() == 4);
  CHECK(text == "[[200.,   4.],\n [  6.,   8.]] f32 shape<2, 2>");
}

TEST_CASE("computing") {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  auto a = gr::from_values<float, gr::shape<2, 3>>(ctx, {1, 2, 3, 4, 5, 6});

  // [computing]
  auto scaled = 2.0 * a + 1.0;                         // [2, 3]
  auto curved = gr::exp(-a * a);                       // [2, 3]
  auto columns = gr::sum<0>(a);                        // [3]: axis 0 is gone
  auto centred = a - gr::mean<1>(a, gr::keep_axes);    // [2, 3] - [2, 1]: the axis was kept as 1
  auto product = gr::matmul(a, gr::permute<1, 0>(a));  // [2, 3] x [3, 2] -> [2, 2]
  auto flat = gr::reshape<6>(a);                       // the same elements as [6]
  auto odds = gr::softmax(a);                          // along the last axis
  // [/computing]
  CHECK(scaled(1, 2) == 13);
  CHECK(curved(0, 0) == doctest::Approx(std::exp(-1.0f)));
  CHECK(columns(2) == 9);
  CHECK(centred(1, 0) == -1);
  CHECK(product(0, 1) == 32);
  CHECK(flat(5) == 6);
  CHECK(odds(0, 0) + odds(0, 1) + odds(0, 2) == doctest::Approx(1));
  static_assert(std::is_same_v<decltype(centred)::shape, gr::shape<2, 3>>);
}

// [generic]
auto energy(const auto& x) { return gr::sum(x * x * x); }
// [/generic]

TEST_CASE("gradients") {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};

  // [gradient]
  auto values = gr::from_values<float, gr::shape<3>>(ctx, {1, 2, 3});
  auto plain = energy(values);  // a tensor: nothing was recorded

  gr::tape tape{ctx};
  auto x = tape.variable(values);  // from here on, what is computed is recorded
  gr::backward(energy(x));
  auto slope = x.gradient();  // 3 x^2: 3 12 27
  // [/gradient]
  CHECK(gr::item(plain) == 36);
  CHECK(slope(0) == 3);
  CHECK(slope(1) == 12);
  CHECK(slope(2) == 27);
}

TEST_CASE("fitting a line") {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};

  // [fit]
  // Points on the line y = 3 x - 1.
  auto xs = gr::uniform<float, gr::shape<64, 1>>(ctx, {.seed = 1}, -1, 1);
  auto ys = 3.0 * xs - 1.0;

  gr::nn::linear<gr::on<gr::cpu>, 1, 1> line;  // y = x w + b
  gr::init(line, ctx, gr::xavier_normal{.seed = 7});
  gr::sgd optimizer{line, {.lr = 0.3}};
  gr::tape tape{ctx};
  for (int step = 0; step < 200; ++step) {
    auto error = line(tape.watch(xs)) - ys;  // xs and ys are data: no gradient is kept for them
    gr::backward(gr::mean(error * error));   // gradients accumulate in the parameters
    optimizer.step(ctx);                     // uses them, and forgets them
  }
  float w = line.weight.value()(0, 0), b = line.bias.value()(0);  // about 3 and -1
  // [/fit]
  CHECK(w == doctest::Approx(3).epsilon(1e-3));
  CHECK(b == doctest::Approx(-1).epsilon(1e-3));

  // [predict]
  auto predicted = line(gr::full<float, gr::shape<1, 1>>(ctx, 2.0f));  // a plain tensor in, a plain tensor out
  // [/predict]
  CHECK(predicted(0, 0) == doctest::Approx(5).epsilon(1e-3));
}

TEST_CASE("resources compose") {
  // [memory]
  gr::stream stream;
  gr::host_resource heap;           // the operating system
  gr::pool_resource pool(heap);     // keeps memory for the next step
  gr::stats_resource memory(pool);  // counts every request
  gr::context ctx{stream, memory};

  auto x = gr::zeros<float, gr::shape<1000>>(ctx);
  std::size_t live = memory.all().live;  // 4000 bytes
  std::size_t peak = memory.of(gr::category::activation).peak;
  // [/memory]
  CHECK(live == 4000);
  CHECK(peak == 4000);
}
